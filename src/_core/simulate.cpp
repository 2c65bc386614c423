// Batch simulation: lanes of runs step together, so that the policy sees many rows at once; see simulate.h.
#include "simulate.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace polvet {

Taken take(const Expansion& e, uint32_t begin, uint32_t end, int32_t chosen, Draw chance) {
    uint32_t first = begin;
    while (first < end && e.moves[first].label != chosen) ++first;                 // moves of a label stand together
    uint32_t after = first;
    while (after < end && e.moves[after].label == chosen) ++after;
    uint32_t silent = end;
    if (chosen >= 0) while (silent > after && e.moves[silent - 1].label < 0) --silent;   // silent ones stand last
    const uint32_t own = after - first;
    const uint32_t pick = uint32_t(below(chance.first, own + (end - silent)));
    const uint32_t v = pick < own ? first + pick : silent + (pick - own);
    const MoveRecord& move = e.moves[v];
    double rest = unit(chance.second);
    uint32_t b = move.begin;
    // Branches have probability > 0; what rounding leaves over falls to the last.
    while (b + 1 < move.end && rest >= e.probability[b]) rest -= e.probability[b++];
    return {v, b};
}

namespace {

constexpr size_t LANES = 128;
constexpr uint64_t PORTION = 256;

class Worker {
public:
    Worker(const BoundPolicy& policy, const SimulateOptions& options)
        : policy_(policy), options_(options), machine_(policy.program), chooser_(policy), words_(policy.program->words) {}

    // Simulate the runs [begin, end), counted from 0; false where something broke (see fault, faulty, broken).
    bool runs(const uint64_t* starts, uint64_t begin, uint64_t end, Simulated& out) {
        lanes_.clear();
        states_.clear();
        uint64_t next = begin;
        while (next < end || !lanes_.empty()) {
            while (next < end && lanes_.size() < LANES) {
                const uint64_t* start = starts + next / options_.runs_per_start * words_;
                lanes_.push_back({next++, 0});
                states_.insert(states_.end(), start, start + words_);
            }
            if (!step(out)) return false;
            if (++looks_ % 64 == 0 && !alive()) return true;
        }
        return true;
    }

    std::function<bool()> alive;              // whether to go on; asked every few thousand steps
    uint64_t steps = 0;
    Fault fault = Fault::NONE;
    bool broken = false;
    std::vector<uint64_t> faulty;

private:
    struct Lane { uint64_t run; uint64_t step; };

    bool fail_at(const uint64_t* state, bool policy) {
        fault = machine_.fault;
        broken = policy;
        faulty.assign(state, state + words_);
        return false;
    }

    void finish(size_t lane, End end, Simulated& out) {
        const uint64_t run = lanes_[lane].run;
        out.end[run] = end;
        out.length[run] = uint32_t(lanes_[lane].step);
        std::copy_n(states_.data() + lane * words_, words_, out.last.data() + run * words_);
    }

    void remove(size_t lane) {                // the last lane takes its place
        lanes_[lane] = lanes_.back();
        lanes_.pop_back();
        std::copy_n(states_.end() - words_, words_, states_.begin() + lane * words_);
        states_.resize(states_.size() - words_);
    }

    bool step(Simulated& out) {
        for (size_t k = 0; k < lanes_.size();) {
            const uint64_t* state = states_.data() + k * words_;
            // SOUND: fail beats goal.
            End end = RUNNING;
            if (options_.fail >= 0 && machine_.holds(size_t(options_.fail), state)) end = END_FAIL;
            else if (options_.goal >= 0 && machine_.holds(size_t(options_.goal), state)) end = END_GOAL;
            else if (lanes_[k].step >= options_.max_steps) end = END_LIMIT;
            if (machine_.fault != Fault::NONE) return fail_at(state, false);
            if (end == RUNNING) { ++k; continue; }
            finish(k, end, out);
            remove(k);
        }
        e_.clear(); move_end_.clear(); chooser_.clear();
        for (size_t k = 0; k < lanes_.size(); ++k) {
            const uint64_t* state = states_.data() + k * words_;
            const size_t first = e_.moves.size();
            if (!machine_.expand(state, e_)) return fail_at(state, false);
            move_end_.push_back(uint32_t(e_.moves.size()));
            chooser_.add(state, e_.moves.data() + first, e_.moves.data() + e_.moves.size());
        }
        chooser_.decide();
        ended_.clear();
        for (size_t k = 0; k < lanes_.size(); ++k) {
            const int32_t chosen = chooser_.chosen[k];
            if (chosen == BROKEN) return fail_at(states_.data() + k * words_, true);
            if (chosen < PSEUDO_ACTION) {
                finish(k, chosen == STUCK ? END_STUCK : END_DEADLOCK, out);
                ended_.push_back(k);
                continue;
            }
            const uint64_t number = options_.first_run + lanes_[k].run;
            const Taken taken = take(e_, k ? move_end_[k - 1] : 0, move_end_[k], chosen, draw(options_.seed, number, lanes_[k].step));
            std::copy_n(e_.words.data() + taken.branch * words_, words_, states_.data() + k * words_);
            ++lanes_[k].step;
            ++steps;
        }
        for (size_t i = ended_.size(); i-- > 0;) remove(ended_[i]);
        return true;
    }

    const BoundPolicy& policy_;
    const SimulateOptions& options_;
    Machine machine_;
    Chooser chooser_;
    const size_t words_;
    std::vector<Lane> lanes_;
    std::vector<uint64_t> states_;
    Expansion e_;
    std::vector<uint32_t> move_end_;
    std::vector<size_t> ended_;
    uint64_t looks_ = 0;
};

}  // namespace

Simulated simulate(const BoundPolicy& policy, const uint64_t* starts, size_t count, const SimulateOptions& options, Limits& limits) {
    const uint64_t total = count * options.runs_per_start;
    Simulated out;
    out.end.assign(total, RUNNING);
    out.length.assign(total, 0);
    out.last.assign(total * policy.program->words, 0);
    const unsigned threads = policy.threads ? unsigned(std::clamp<uint64_t>(std::min<uint64_t>(options.threads, total / PORTION + 1), 1, 64)) : 1;
    std::atomic<uint64_t> next{0}, done{0};
    std::atomic<Status> stop{Status::DONE};
    std::mutex mutex;
    std::condition_variable finished;
    unsigned running = threads;
    std::exception_ptr failure;
    const auto work = [&](bool alone) {
        Worker worker(policy, options);
        worker.alive = [&] {
            if (alone && stop == Status::DONE) stop = limits.poll(0, done, 0);
            return stop == Status::DONE;
        };
        try {
            for (uint64_t begin; (begin = next.fetch_add(PORTION)) < total && stop == Status::DONE;) {
                const uint64_t end = std::min(begin + PORTION, total);
                if (!worker.runs(starts, begin, end, out)) {
                    std::lock_guard lock(mutex);
                    // The first broken run by number would need all runs before it; any one explains the fault.
                    if (stop != Status::FAULT) { out.fault = worker.fault; out.faulty = worker.faulty; out.policy_broken = worker.broken; }
                    stop = Status::FAULT;
                    break;
                }
                done += end - begin;
                if (!worker.alive()) break;
            }
        } catch (...) {
            std::lock_guard lock(mutex);
            if (!failure) failure = std::current_exception();
            stop = Status::FAULT;
        }
        std::lock_guard lock(mutex);
        out.steps += worker.steps;
        --running;
        finished.notify_one();
    };
    if (threads == 1) work(true);
    else {
        std::vector<std::thread> pool;
        for (unsigned k = 0; k < threads; ++k) pool.emplace_back(work, false);
        {
            std::unique_lock lock(mutex);
            while (running > 0) {
                finished.wait_for(lock, std::chrono::milliseconds(20));
                if (running == 0 || stop != Status::DONE) continue;
                lock.unlock();
                const Status status = limits.poll(0, done, 0);
                if (status != Status::DONE) stop = status;
                lock.lock();
            }
        }
        for (std::thread& thread : pool) thread.join();
    }
    if (failure) std::rethrow_exception(failure);
    out.status = stop;
    return out;
}

Trace trace(const BoundPolicy& policy, const uint64_t* start, uint64_t run, const SimulateOptions& options, Simulated& problems) {
    const size_t words = policy.program->words;
    Machine machine(policy.program);
    Chooser chooser(policy);
    Expansion e;
    Trace result;
    result.states.assign(start, start + words);
    for (uint64_t step = 0; result.end == RUNNING; ++step) {
        const uint64_t* state = result.states.data() + step * words;
        if (options.fail >= 0 && machine.holds(size_t(options.fail), state)) { result.end = END_FAIL; break; }
        if (options.goal >= 0 && machine.holds(size_t(options.goal), state)) { result.end = END_GOAL; break; }
        if (step >= options.max_steps) { result.end = END_LIMIT; break; }
        e.clear(); chooser.clear();
        if (machine.fault != Fault::NONE || !machine.expand(state, e)) {
            problems.status = Status::FAULT; problems.fault = machine.fault; problems.faulty.assign(state, state + words);
            return result;
        }
        chooser.add(state, e.moves.data(), e.moves.data() + e.moves.size());
        chooser.decide();
        const int32_t chosen = chooser.chosen[0];
        if (chosen == BROKEN) {
            problems.status = Status::FAULT; problems.policy_broken = true; problems.faulty.assign(state, state + words);
            return result;
        }
        if (chosen < PSEUDO_ACTION) { result.end = chosen == STUCK ? END_STUCK : END_DEADLOCK; break; }
        const Taken taken = take(e, 0, uint32_t(e.moves.size()), chosen, draw(options.seed, run, step));
        result.labels.push_back(e.moves[taken.move].label);
        result.states.insert(result.states.end(), e.words.begin() + taken.branch * words, e.words.begin() + (taken.branch + 1) * words);
    }
    return result;
}

}  // namespace polvet
