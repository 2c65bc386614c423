// Questions about permitted options: which states they reach, the least risk of a game, and what they cost.
#pragma once
#include <vector>

#include "mdp/options.h"

namespace polvet {

// Marks the states that permitted options reach from the initial ones (Definition 8: the states of the induced MDP).
void reach_permitted(const OptionModel& model, const uint8_t* permitted, const std::vector<uint32_t>& initial, uint8_t* reached);

// The least risk where several operators share an option: the chooser minimises over options, the environment maximises inside one. Values
// grow from 0, so they are lower bounds at any time; `best` names an option of least worth. Returns whether they settled before the time was up.
bool least_risk_game(const OptionModel& model, double* value, uint32_t* best, Poll& poll);

// How runs inside the permitted options are made: at most `longest` steps each, a share `explore` of them at random.
struct Episodes {
    uint64_t count, longest;
    double explore;
    uint64_t seed;
};
// Q-learning of costs inside the permitted options: `quality` starts optimistic and is updated in place; each step picks the option of least
// quality (ties at random). `seen` counts visits per choice. Runs start at the initial states in turn and end where nothing is permitted.
// Returns the number of steps. Source: Watkins & Dayan, Q-learning, Machine Learning 8, 1992.
uint64_t learn_quality(const OptionModel& model, const uint8_t* permitted, const std::vector<uint32_t>& initial, const double* cost,
                       double* quality, uint64_t* seen, const Episodes& episodes, Poll& poll);

}  // namespace polvet
