// Permissive schedulers by incremental enlargement: add one option after the other while the risk stays below the bound.
//
// Source   Junges, Jansen, Dehnert, Topcu & Katoen, Safety-Constrained Reinforcement Learning for MDPs, TACAS 2016: the order of the additions
//          takes the place of the SMT search over the variables y_s,a.
// Differs  an *option* is what a policy may choose (a label): one or several choices of the MDP among which the environment picks. An addition
//          is undone as soon as an initial value exceeds the bound.
// Cost     each option is tried once (a rejection is final, see `try_add`); a trial costs what its increase touches, at most `cap` branches.
// Limits   doubles: rejections are proofs (rounded down), acceptances are proposals that Python checks exactly.
#pragma once
#include <vector>

#include "mdp/rejection.h"
#include "mdp/risk_values.h"

namespace polvet {

class Enlargement {
public:
    // `minimum`: the least risk of each state in the whole model, `least`: an option that attains it.
    Enlargement(const OptionModel& model, std::vector<uint32_t> initial, const double* minimum, const uint32_t* least, const uint32_t* rank,
                double bound, uint64_t cap);

    // Start again from the given options; states reached without a permitted option take their least risky one.
    // Returns the initial value; it lies above the bound where the seed is not safe.
    double reset(const uint8_t* seed);
    struct Additions {
        std::vector<std::vector<uint32_t>> accepted;  // in order, with the options their new states take, one list per addition
        std::vector<uint32_t> open;                   // what needs an exact test, since it comes nearer to the bound than `slack`
        std::vector<uint32_t> left;                   // not tried before time or work (branches looked at) were up
    };
    // Try every option that is not permitted, by ascending priority (infinite: not at all); states that become reachable bring theirs.
    Additions enlarge(const double* priority, double slack, Poll& poll, uint64_t work);
    // What would come with the option: itself, and one option for every state that it makes reachable. `best`: chosen to keep the risk least
    // given what is permitted now, else the least risky ones of the whole model.
    std::vector<uint32_t> extension(uint32_t option, bool best);
    // Permit the options, whatever the risk, and bring the values up to date; returns the initial value.
    double permit(const std::vector<uint32_t>& options);

    const RiskValues& risk() const { return risk_; }

private:
    using Flow = RiskValues::Flow;
    enum class Trial { ACCEPTED, REJECTED, BORDERLINE, HARD };

    void reach(uint32_t s);
    template <class F> void take(const std::vector<uint32_t>& options, F&& option_of_state);
    void take_least(const std::vector<uint32_t>& options);
    void take_greedy(uint32_t o);
    void drop_added();
    void open_fresh(uint32_t o);
    void close_fresh();
    Trial judge() const;
    Trial try_add(uint32_t o, Poll& poll);
    bool try_group(const std::vector<uint32_t>& options, Poll& poll);
    Trial finish(uint32_t o, Trial result);

    RiskValues risk_;
    Rejection rejection_;
    const OptionModel& model_;
    const double* minimum_;
    const uint32_t* least_;
    const double bound_;
    const uint64_t cap_;
    double slack_ = 0, before_ = 0;  // before_: the initial value before the trial at hand
    std::vector<uint32_t> stack_, added_, newly_, opened_;
};

}  // namespace polvet
