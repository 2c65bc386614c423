// Values within a bound on steps or reward, and the qualitative sets; see the .cpp files of the same names.
#pragma once
#include "mdp/mdp.h"

namespace polvet::mdp {

// `value` holds the values for 0 steps on entry and those for the number of steps returned on exit.
u64 solve_steps(const Problem& problem, u64 steps, Bounds* value, Poll& poll);

// Probability to reach the goal with an accumulated `amount` of at most (or at least) `bound`; returns how many of the bound + 1 levels were
// solved. `value` is written only when all of them were. `stop` is where runs end on the levels where problem.stop does not say it: for "at
// least", before enough is earned, goals are passed through; for "at most" it is problem.stop itself.
u64 solve_reward_bounded(const Problem& problem, const u8* stop, const u32* amount, u64 bound, bool at_least, Bounds* value,
                         Statistics& statistics, Poll& poll);

// For every state the choices with a branch into it.
struct BackwardIndex {
    std::vector<u64> start;
    std::vector<u32> choice;
    std::vector<u32> owner;  // state of each choice
    explicit BackwardIndex(const View& model);
};

// `result[s]` = 1 where the goal is reached without leaving `safe` with probability 0 (or 1) under the optimising scheduler.
void probability_zero(const View& model, const BackwardIndex& back, const u8* safe, const u8* goal, bool maximise, u8* result);
void probability_one(const View& model, const BackwardIndex& back, const u8* safe, const u8* goal, bool maximise, u8* result);

// Strongly connected components numbered bottom up (a component comes after every component it can reach); returns their number.
u32 connected_components(const View& model, u32* component, Poll& poll);

}  // namespace polvet::mdp
