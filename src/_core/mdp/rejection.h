// Options that are rejected without a trial: a worst run comes to their state so often that what they add there exceeds the bound.
//
// Idea     performance difference (Kakade & Langford, Approximately Optimal Approximate Reinforcement Learning, ICML 2002): what a scheduler
//          gains by another choice is what the choice adds in its state times how often it comes there. Here both are bounds from below.
// Cost     one pass over all states after a change, made once the trials have cost as much.
#pragma once
#include <vector>

#include "mdp/risk_values.h"

namespace polvet {

class Rejection {
public:
    explicit Rejection(RiskValues& risk);
    // Whether the initial value surely exceeds the bound once the option is permitted, too.
    bool excludes(uint32_t option, double bound);

private:
    void follow_worst();

    RiskValues& risk_;
    std::vector<uint8_t> once_;  // a run visits the state at most once
    std::vector<double> arrival_;
    double loss_ = 0;
    uint64_t followed_ = 0, generation_ = UINT64_MAX;  // branches looked at before the last pass; what the pass speaks of
};

}  // namespace polvet
