// An MDP whose choices are grouped by what a policy may choose: an *option* is a label, and the environment picks among its choices.
#pragma once
#include "mdp/mdp.h"

namespace polvet {

struct OptionModel {
    View mdp;
    const uint64_t* option_start;   // per state its first option; a state without options ends runs
    const uint64_t* option_choice;  // per option its first choice

    uint64_t first(uint32_t s) const { return option_start[s]; }
    bool ends(uint32_t s) const { return first(s) == first(s + 1); }
    uint64_t options() const { return option_start[mdp.states]; }
    uint64_t choices() const { return option_choice[options()]; }
    template <class F> void each_target(uint64_t o, F&& f) const {
        for (uint64_t b = mdp.branch_start[option_choice[o]]; b < mdp.branch_start[option_choice[o + 1]]; ++b) f(mdp.target[b]);
    }
};

}  // namespace polvet
