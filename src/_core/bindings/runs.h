// What the bindings of simulation and of fuzzing share: checks of what is given, and what went wrong.
#pragma once
#include "bindings/arrays.h"
#include "runs/simulate.h"

namespace polvet {

inline void check_words(const BoundPolicy& policy, const Packed& states) {
    if (states.shape(1) != policy.program->words) throw nanobind::value_error("the states have another number of words");
}

inline void check_conditions(const BoundPolicy& policy, int32_t fail, int32_t goal) {
    const int32_t count = int32_t(policy.program->conditions.size());
    if (fail >= count || goal >= count) throw nanobind::value_error("there is no such condition");
}

inline nanobind::dict problems_of(Simulated& runs) {
    nanobind::dict result;
    result["status"] = runs.status;
    result["fault"] = runs.fault;
    result["policy_broken"] = runs.policy_broken;
    result["faulty"] = give_state(std::move(runs.faulty));
    return result;
}

}  // namespace polvet
