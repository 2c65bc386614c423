// Transitions for learning: lanes of episodes that go on from call to call while the policy changes.
//
// With probability epsilon a lane takes a random output (an applicable one where the policy is filtered) instead of the
// policy's. A transition leads from one decision to the next: states with silent operators only are passed through.
#pragma once
#include "runs/simulate.h"

namespace polvet {

struct Transitions {
    std::vector<float> rows, next_rows;
    std::vector<uint8_t> masks, next_masks, end;  // end: RUNNING where the episode goes on
    std::vector<int32_t> action;                  // the output taken
    std::vector<uint64_t> states, next_states;
    std::vector<uint8_t> episodes;  // how each episode that finished ended
    std::vector<uint32_t> lengths;
    Simulated problems;
};

class Rollout {
public:
    Rollout(std::shared_ptr<const Program> program, std::vector<uint64_t> starts, int32_t fail, int32_t goal, size_t lanes,
            uint64_t max_steps, uint64_t seed);
    Transitions collect(const BoundPolicy& policy, size_t steps, double epsilon);

private:
    struct Lane {
        uint64_t episode, step;
        bool pending;
        int32_t action;
    };

    void begin_episode(size_t lane);
    void arrive(size_t lane, const BoundPolicy& policy, RowReader& reader, const uint8_t* mask, End end, Transitions& out);

    std::shared_ptr<const Program> program_;
    std::vector<uint64_t> starts_;
    int32_t fail_, goal_;
    uint64_t max_steps_, seed_, next_episode_ = 0;
    size_t words_;
    Machine machine_;
    std::vector<Lane> lanes_;
    std::vector<uint64_t> states_, decided_;  // where each lane is; where its last decision was
    std::vector<uint8_t> decided_masks_;
};

}  // namespace polvet
