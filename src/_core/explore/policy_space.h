// Which start states are unsafe under a policy: exhaustive reachability, shared across starts.
//
// Every state is expanded at most once: its successors under the policy stay in memory, with the label that led there
// and whether the step is the reference choice or one that only another float32 evaluation order takes (a near tie).
// When a fail state is met, everything known to lead there is marked, backwards: `UNSAFE` along reference steps, `DOUBTFUL`
// along others. A search from a start ends when the start is marked unsafe, or when nothing new is left.
// SOUND: then each visited state without a mark has only successors that are such states, ended, or known safe.
// Cost     linear in the policy's part of the state space for starts that are safe; an unsafe start stops early
#pragma once
#include <cstdint>
#include <vector>

#include "explore/explore.h"
#include "policies/bound_policy.h"
#include "store/limits.h"

namespace polvet {

enum Judgement : uint8_t { OPEN, POLICY_SAFE, POLICY_DOUBTFUL, POLICY_UNSAFE };

class Inspector {
public:
    Inspector(const BoundPolicy& policy, int32_t fail, int32_t goal);

    // The judgement on each start; OPEN where a limit came first.
    std::vector<uint8_t> inspect(const uint64_t* starts, size_t count, Limits& limits);
    // From a state judged unsafe or doubtful to fail: packed states, the labels in between, and the first near tie (-1: none).
    void witness(const uint64_t* start, std::vector<uint64_t>& states, std::vector<int32_t>& labels, int64_t& tie) const;

    size_t size() const {
        return std::visit([](const auto& s) { return s.size(); }, store_);
    }
    const uint64_t* state(size_t n) const {
        return std::visit([n](const auto& s) { return s.state(n); }, store_);
    }
    uint64_t bytes() const;

    const BoundPolicy& policy;
    Status status = Status::DONE;
    Fault fault = Fault::NONE;
    bool policy_broken = false;
    std::vector<uint64_t> faulty;
    uint64_t expanded = 0, transitions = 0, branching = 0, near_ties = 0, ends[4] = {0, 0, 0, 0};  // fail, goal, stuck, deadlock

private:
    struct Step {
        uint32_t target;
        int32_t label;
        uint32_t next_of_target;
        uint32_t source;
        bool reference;
    };
    struct Node {
        uint32_t begin = 0, end = 0, incoming = UINT32_MAX, toward = UINT32_MAX;
        uint8_t judgement = OPEN, mark = 0;
        bool expanded = false, final = false;
    };

    uint32_t add(const uint64_t* state);
    bool expand(const std::vector<uint32_t>& batch);
    void flood(uint32_t from);
    uint8_t mark_along(const Step& step) const;
    void set_mark(uint32_t id, uint32_t toward, uint8_t mark);
    bool broke(const uint64_t* state, bool by_policy);

    int32_t fail_, goal_;
    Machine machine_;
    Chooser chooser_;
    AnyStore store_;
    std::vector<Node> nodes_;
    std::vector<Step> steps_;
    std::vector<uint32_t> seen_;
    uint32_t epoch_ = 0;
    Expansion e_;
};

}  // namespace polvet
