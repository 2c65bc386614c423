// Runs of a policy, many at once; chance is counter-based, so a run depends on (seed, its number) and on nothing else.
//
// A step: the policy takes a label; one operator is drawn uniformly among the enabled ones of that label and the silent
// ones (the environment moves when it likes); one of its branches is drawn by its probability.
#pragma once
#include <cstdint>
#include <vector>

#include "policies/bound_policy.h"
#include "store/limits.h"
#include "store/portable.h"

namespace polvet {

enum End : uint8_t { END_FAIL, END_GOAL, END_STUCK, END_DEADLOCK, END_LIMIT, RUNNING };
inline End end_of(const Ends& ends) { return ends.fail ? END_FAIL : ends.goal ? END_GOAL : RUNNING; }

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3, SC 2011).
struct Draw {
    uint64_t first, second;
};
inline Draw draw(uint64_t seed, uint64_t run, uint64_t step) {
    uint32_t c0 = uint32_t(step), c1 = uint32_t(step >> 32), c2 = uint32_t(run), c3 = uint32_t(run >> 32);
    uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
    for (int round = 0; round < 10; ++round) {
        const uint64_t p0 = uint64_t(0xD2511F53u) * c0, p1 = uint64_t(0xCD9E8D57u) * c2;
        const uint32_t n0 = uint32_t(p1 >> 32) ^ c1 ^ k0, n2 = uint32_t(p0 >> 32) ^ c3 ^ k1;
        c1 = uint32_t(p1);
        c3 = uint32_t(p0);
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return {uint64_t(c1) << 32 | c0, uint64_t(c3) << 32 | c2};
}
inline uint64_t below(uint64_t bits, uint64_t n) { return uint64_t((Uint128(bits) * n) >> 64); }
inline double unit(uint64_t bits) { return double(bits >> 11) * 0x1p-53; }

// The branch that a step takes among the moves [begin, end) of the chosen label and the silent ones.
struct Taken {
    uint32_t move, branch;
};
Taken take(const Expansion& e, uint32_t begin, uint32_t end, int32_t chosen, Draw chance);

struct SimulateOptions {
    int32_t fail = -1, goal = -1;  // conditions of the program
    uint64_t seed = 0, first_run = 0, max_steps = 10000;
    unsigned threads = 1;
    uint64_t runs_per_start = 1;  // run number r starts in state (r - first_run) / runs_per_start
};

struct Simulated {
    std::vector<uint8_t> end;
    std::vector<uint32_t> length;
    std::vector<uint64_t> last;  // packed: where each run ended
    uint64_t steps = 0;
    Status status = Status::DONE;
    Fault fault = Fault::NONE;
    std::vector<uint64_t> faulty;  // the state in which the model or the policy broke a rule
    bool policy_broken = false;    // a score was not a number
};

Simulated simulate(const BoundPolicy& policy, const uint64_t* starts, size_t count, const SimulateOptions& options, Limits& limits);

struct Trace {
    std::vector<uint64_t> states;
    std::vector<int32_t> labels;
    uint8_t end = RUNNING;
};
// One run again, with all its states and the labels of the operators that moved (-1: silent).
Trace trace(const BoundPolicy& policy, const uint64_t* start, uint64_t run, const SimulateOptions& options, Simulated& problems);

}  // namespace polvet
