// Values within a bound on steps or reward, and the qualitative sets; see the .cpp files of the same names.
#pragma once
#include "mdp/mdp.h"

namespace polvet {

// `value` holds the values for 0 steps on entry and those for the number of steps returned on exit.
uint64_t solve_steps(const Problem& problem, uint64_t steps, Bounds* value, Poll& poll);

// Probability to reach the goal with an accumulated `amount` of at most (or at least) `bound`; returns how many of the bound + 1 levels were
// solved. `value` is written only when all of them were. `stop` is where runs end on the levels where problem.stop does not say it: for "at
// least", before enough is earned, goals are passed through; for "at most" it is problem.stop itself.
uint64_t solve_reward_bounded(const Problem& problem, const uint8_t* stop, const uint32_t* amount, uint64_t bound, bool at_least,
                              Bounds* value, Statistics& statistics, Poll& poll);

// For every state the choices with a branch into it.
struct BackwardIndex {
    std::vector<uint64_t> start;
    std::vector<uint32_t> choice;
    std::vector<uint32_t> owner;  // state of each choice
    explicit BackwardIndex(const View& model);
};

// `result[s]` = 1 where the goal is reached without leaving `safe` with probability 0 (or 1) under the optimising scheduler.
void probability_zero(const View& model, const BackwardIndex& back, const uint8_t* safe, const uint8_t* goal, bool maximise,
                      uint8_t* result);
void probability_one(const View& model, const BackwardIndex& back, const uint8_t* safe, const uint8_t* goal, bool maximise,
                     uint8_t* result);

// Strongly connected components numbered bottom up (a component comes after every component it can reach); returns their number.
uint32_t connected_components(const View& model, uint32_t* component, Poll& poll);

}  // namespace polvet
