// Fuzzing: runs of a policy whose chance leans towards `fail` and towards states seldom met, kept in full where they fail.
//
// Where a step can end in several branches, branch b with probability p(b) is taken with a weight of
//     p(b) * exp(-z(b) / temperature) * (1 + visits(b)) ^ -novelty
// z(b) in [0, 1] ranks the branches by their distance to `fail` (a reward of the program, see fuzz/distance.py): 0 is the
// nearest, 1 the farthest. visits(b) counts how often earlier calls came by. Every weight is positive, so every run of the
// policy keeps a positive probability; an infinite temperature with novelty 0 is plain simulation.
// A run depends on (seed, its number, its temperature, the visits before the call) and on nothing else: threads do not matter.
#pragma once
#include <cstdint>
#include <vector>

#include "runs/simulate.h"

namespace polvet {

constexpr uint8_t END_LOOP = 6;  // a state came again and no step in between had a choice: it goes on so for ever

// How often states were met, by a hash: two states may share a counter, which only makes both look less new.
struct Visits {
    static constexpr unsigned BITS = 16;
    std::vector<uint32_t> count = std::vector<uint32_t>(size_t(1) << BITS, 0);
};

struct FuzzOptions {
    int32_t fail = -1, goal = -1;  // conditions of the program
    int32_t distance = -1;         // the state reward that measures how far `fail` is
    uint64_t seed = 0, max_steps = 10000;
    unsigned threads = 1;
    double novelty = 0;
};

// One run per row: starts[row], number runs[row], temperature[row].
struct FuzzRows {
    const uint64_t* starts;
    const uint64_t* runs;
    const double* temperature;
    size_t count;
};

struct Fuzzed {
    std::vector<uint8_t> end;  // per row; RUNNING where a limit came first
    std::vector<uint32_t> length;
    std::vector<uint32_t> choices;         // steps that could have gone another way; 0: no other run starts there
    std::vector<double> nearest;           // the least distance to `fail` on the run
    std::vector<uint64_t> unsafe;          // the rows whose runs end in `fail`, ascending
    std::vector<uint64_t> state_start{0};  // per unsafe run, where its states begin
    std::vector<uint64_t> states;          // packed
    std::vector<int32_t> labels;           // state_start[k] - k is where run k's labels begin
    uint64_t steps = 0;
    Simulated problems;  // status, fault, faulty, policy_broken
};

Fuzzed fuzz(const BoundPolicy& policy, const FuzzRows& rows, const FuzzOptions& options, Visits* visits, Limits& limits);

// The step a policy takes in each state: how the run ends there or the label, and all outcomes (silent ones included), each once.
struct PolicySteps {
    std::vector<uint8_t> end;  // RUNNING where a step is taken
    std::vector<int32_t> label;
    std::vector<uint64_t> outcome_start{0};
    std::vector<uint64_t> outcomes;  // packed
    Simulated problems;
};
PolicySteps policy_steps(const BoundPolicy& policy, const uint64_t* states, size_t count, int32_t fail, int32_t goal);

}  // namespace polvet
