// Runs in portions: each thread takes the next portion until none is left, a limit is reached, or the model or the policy broke a rule.
#pragma once
#include <algorithm>
#include <atomic>
#include <mutex>

#include "runs/simulate.h"
#include "store/threads.h"

namespace polvet {

struct Portions {
    uint64_t count, largest;  // runs in all; in one portion at most
    unsigned threads;
    uint64_t expected;  // what the listener is told that there will be; 0 where nobody knows
};

// `make()` makes a thread's walk (runs/walk.h), `run(walk, begin, end)` makes the runs of one portion, and `end(walk)`, by one thread at a
// time, takes what the walk has gathered. Any run that breaks a rule explains the fault: the first by number would need all before it.
template <class Make, class Run, class End>
void run_portions(const Portions& portions, const BoundPolicy& policy, Limits& limits, Simulated& problems, const Make& make,
                  const Run& run, const End& end) {
    const uint64_t wanted = std::min<uint64_t>(portions.threads, portions.count / 256 + 1);
    const unsigned threads = policy.threads ? unsigned(std::clamp<uint64_t>(wanted, 1, 64)) : 1;
    const uint64_t portion = std::clamp<uint64_t>(portions.count / (threads * 8), 1, portions.largest);
    std::atomic<uint64_t> next{0}, done{0};
    Crew crew;
    std::atomic<Status>& stop = crew.stop;
    std::mutex mutex;
    const auto poll = [&] { return limits.poll(0, done, portions.expected); };
    const auto work = [&](bool alone) {
        auto walk = make();
        walk.alive = [&] {
            if (alone && stop == Status::DONE) stop = poll();
            return stop == Status::DONE;
        };
        for (uint64_t first; (first = next.fetch_add(portion)) < portions.count && stop == Status::DONE;) {
            const uint64_t last = std::min(first + portion, portions.count);
            if (!run(walk, first, last)) {
                std::lock_guard lock(mutex);
                if (stop != Status::FAULT) {
                    problems.fault = walk.fault;
                    problems.faulty = walk.faulty;
                    problems.policy_broken = walk.broken;
                }
                stop = Status::FAULT;
                break;
            }
            done += last - first;
            if (!walk.alive()) break;
        }
        std::lock_guard lock(mutex);
        end(walk);
    };
    if (threads == 1) work(true);
    else crew.run(threads, [&](size_t) { work(false); }, poll);
    problems.status = stop;
}

}  // namespace polvet
