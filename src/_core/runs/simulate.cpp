// Batch simulation: lanes of runs step together, so that the policy sees many rows at once; what it chose in a state, and
// where that leads, is remembered for all later runs that come by. Where hardly any run comes by again, remembering costs
// more than it saves: then lanes step without it, and only the branch that is taken is built. See simulate.h.
#include <algorithm>

#include "runs/portions.h"
#include "runs/walk.h"

namespace polvet {

Taken take(const Expansion& e, uint32_t begin, uint32_t end, int32_t chosen, Draw chance) {
    uint32_t first = begin;
    while (first < end && e.moves[first].label != chosen) ++first;  // moves of a label stand together
    uint32_t after = first;
    while (after < end && e.moves[after].label == chosen) ++after;
    uint32_t silent = end;
    if (chosen >= 0)
        while (silent > after && e.moves[silent - 1].label < 0) --silent;  // silent ones stand last
    const uint32_t own = after - first;
    const uint32_t pick = uint32_t(below(chance.first, own + (end - silent)));
    const uint32_t v = pick < own ? first + pick : silent + (pick - own);
    return {v, draw_branch(e.probability.data(), e.moves[v].begin, e.moves[v].end, unit(chance.second))};
}

namespace {

constexpr uint64_t PORTION = 4096;
constexpr uint64_t TRIAL = 1 << 13, WITHOUT = 1 << 18;  // steps with memory before it is judged, steps without before it is tried again

// What is remembered of a state: how runs end there, or the operators that a step draws from.
struct Node {
    uint8_t kind = UNSEEN;
    bool expanded = false, queued = false;
    uint32_t operator_begin = 0, operators = 0;
};
struct Operator {
    uint32_t begin, end;
};

class Worker : public Walk<Node> {
public:
    Worker(const BoundPolicy& policy, const SimulateOptions& options)
        : Walk(policy, options.fail, options.goal), options_(options), simple_(policy.program->is_simple()) {}

    // Simulate the runs [begin, end), counted from 0; false where something broke (see fault, faulty, broken).
    bool runs(const uint64_t* starts, uint64_t begin, uint64_t end, Simulated& out) {
        lanes_.clear();
        states_.clear();
        uint64_t next = begin;
        while (next < end || !lanes_.empty()) {
            while (next < end && lanes_.size() < LANES) {
                const uint64_t* start = starts + next / options_.runs_per_start * words_;
                lanes_.push_back({next++, 0, remembers_ ? find(start) : 0});
                if (!remembers_) states_.insert(states_.end(), start, start + words_);
            }
            if (!(remembers_ ? step(out) : step_without(out))) return false;
            if (is_full()) forget();
            judge();
            if (++looks_ % patience_ == 0 && !alive()) return true;
        }
        return true;
    }

private:
    struct Lane {
        uint64_t run;
        uint64_t step;
        uint32_t id;
    };

    // Drop all that is remembered; the lanes stay where they are.
    void forget() {
        std::vector<uint64_t> kept;
        for (const Lane& lane : lanes_) kept.insert(kept.end(), state(lane.id), state(lane.id) + words_);
        forget_states();
        operators_.clear();
        for (size_t k = 0; k < lanes_.size(); ++k) lanes_[k].id = find(kept.data() + k * words_);
    }

    void finish(const Lane& lane, uint8_t end, const uint64_t* last, Simulated& out) {
        out.end[lane.run] = end;
        out.length[lane.run] = uint32_t(lane.step);
        std::copy_n(last, words_, out.last.data() + lane.run * words_);
    }

    void remove(size_t lane) {
        lanes_[lane] = lanes_.back();
        lanes_.pop_back();
    }

    // Whether to remember: not where more than four of five steps of a trial led to states never seen before.
    void judge() {
        if (!simple_ || steps - judged_ < (remembers_ ? TRIAL : WITHOUT)) return;
        const bool wanted = !remembers_ || (opened_ - opened_before_) * 5 < (steps - judged_) * 4;
        judged_ = steps;
        opened_before_ = opened_;
        if (wanted == remembers_) return;
        remembers_ = wanted;
        if (wanted)
            for (size_t k = 0; k < lanes_.size(); ++k) lanes_[k].id = find(states_.data() + k * words_);
        states_.clear();
        if (!wanted)
            for (const Lane& lane : lanes_) states_.insert(states_.end(), state(lane.id), state(lane.id) + words_);
    }

    // One step of every lane without remembering anything.
    bool step_without(Simulated& out) {
        chooser_.clear();
        moves_.clear();
        move_end_.clear();
        const auto drop = [&](size_t k, uint8_t end) {
            finish(lanes_[k], end, states_.data() + k * words_, out);
            std::copy_n(states_.end() - std::ptrdiff_t(words_), words_, states_.begin() + std::ptrdiff_t(k * words_));
            states_.resize(states_.size() - words_);
            remove(k);
        };
        const auto broke = [&](size_t k, bool policy) {
            fault = machine_.fault;
            broken = policy;
            faulty.assign(states_.begin() + std::ptrdiff_t(k * words_), states_.begin() + std::ptrdiff_t((k + 1) * words_));
            return false;
        };
        for (size_t k = 0; k < lanes_.size();) {
            const uint64_t* state = states_.data() + k * words_;
            uint8_t end = end_of(machine_.ends(options_.fail, options_.goal, state));
            if (machine_.fault != Fault::NONE) return broke(k, false);
            if (end == RUNNING && lanes_[k].step >= options_.max_steps) end = END_LIMIT;
            if (end != RUNNING) {
                drop(k, end);
                continue;
            }
            const size_t first = moves_.size();
            if (!machine_.enabled(state, moves_)) return broke(k, false);
            move_end_.push_back(uint32_t(moves_.size()));
            chooser_.add(state, moves_.data() + first, moves_.data() + moves_.size());
            ++k;
        }
        chooser_.decide();
        next_states_.resize(words_);
        ended_.clear();
        for (size_t k = 0; k < lanes_.size(); ++k) {
            const int32_t chosen = chooser_.chosen[k];
            if (chosen == BROKEN) return broke(k, true);
            if (chosen < PSEUDO_ACTION) {
                ended_.push_back(k);
                continue;
            }
            const uint32_t begin = k ? move_end_[k - 1] : 0, end = move_end_[k];
            uint32_t count = 0;
            for (uint32_t v = begin; v < end; ++v) count += moves_[v].label < 0 || moves_[v].label == chosen;
            const Draw chance = draw(options_.seed, options_.first_run + lanes_[k].run, lanes_[k].step);
            uint64_t left = below(chance.first, count);
            uint32_t v = begin;
            for (;; ++v)
                if ((moves_[v].label < 0 || moves_[v].label == chosen) && left-- == 0) break;
            if (!machine_.take(states_.data() + k * words_, moves_[v].begin, unit(chance.second), next_states_.data()))
                return broke(k, false);
            std::copy_n(next_states_.data(), words_, states_.data() + k * words_);
            ++lanes_[k].step;
            ++steps;
        }
        for (size_t i = ended_.size(); i-- > 0;)  // from behind: dropping moves the last lane into the gap
            drop(ended_[i], chooser_.chosen[ended_[i]] == STUCK ? END_STUCK : END_DEADLOCK);
        return true;
    }

    bool step(Simulated& out) {
        missing_.clear();
        for (size_t k = 0; k < lanes_.size();) {
            const Lane& lane = lanes_[k];
            if (nodes_[lane.id].kind == UNSEEN && !classify(lane.id)) return false;
            uint8_t end = nodes_[lane.id].kind;
            if (end != END_FAIL && end != END_GOAL && lane.step >= options_.max_steps) end = END_LIMIT;
            if (end != RUNNING) {
                finish(lane, end, state(lane.id), out);
                remove(k);
                continue;
            }
            want(lane.id);
            ++k;
        }
        if (!missing_.empty() && !open_missing()) return false;
        for (size_t k = 0; k < lanes_.size();) {
            Lane& lane = lanes_[k];
            const Node& node = nodes_[lane.id];
            if (node.kind != RUNNING) {
                finish(lane, node.kind, state(lane.id), out);
                remove(k);
                continue;
            }
            const Draw chance = draw(options_.seed, options_.first_run + lane.run, lane.step);
            const Operator chosen = operators_[node.operator_begin + below(chance.first, node.operators)];
            lane.id = follow(draw_branch(probability_.data(), chosen.begin, chosen.end, unit(chance.second)));
            ++lane.step;
            ++steps;
            ++k;
        }
        return true;
    }

    bool open_missing() {
        opened_ += missing_.size();
        return expand([&](Node& node) { node.operator_begin = uint32_t(operators_.size()); },
                      [&](Node&, const MoveRecord& move) {
                          const uint32_t begin = uint32_t(target_.size());
                          operators_.push_back({begin, begin + (move.end - move.begin)});
                          probability_.insert(probability_.end(), e_.probability.begin() + move.begin, e_.probability.begin() + move.end);
                          branch_words_.insert(branch_words_.end(), e_.words.begin() + move.begin * words_,
                                               e_.words.begin() + move.end * words_);
                          target_.resize(target_.size() + (move.end - move.begin), NOT_TAKEN);
                      },
                      [&](Node& node) { node.operators = uint32_t(operators_.size()) - node.operator_begin; });
    }

    const SimulateOptions& options_;
    std::vector<Lane> lanes_;
    std::vector<Operator> operators_;
    uint64_t looks_ = 0;
    const bool simple_;
    bool remembers_ = true;
    uint64_t judged_ = 0, opened_ = 0, opened_before_ = 0;  // steps at the last judgement; states expanded
    std::vector<uint64_t> states_, next_states_;            // without memory: the state of each lane
    std::vector<MoveRecord> moves_;
    std::vector<size_t> ended_;
};

}  // namespace

Simulated simulate(const BoundPolicy& policy, const uint64_t* starts, size_t count, const SimulateOptions& options, Limits& limits) {
    const uint64_t total = count * options.runs_per_start;
    Simulated out;
    out.end.assign(total, RUNNING);
    out.length.assign(total, 0);
    out.last.assign(total * policy.program->words, 0);
    run_portions(
        {total, PORTION, options.threads, 0}, policy, limits, out, [&] { return Worker(policy, options); },
        [&](Worker& worker, uint64_t begin, uint64_t end) { return worker.runs(starts, begin, end, out); },
        [&](Worker& worker) { out.steps += worker.steps; });
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
        result.end = end_of(machine.ends(options.fail, options.goal, state));
        if (result.end == RUNNING && machine.fault == Fault::NONE && step >= options.max_steps) result.end = END_LIMIT;
        if (result.end != RUNNING) break;
        e.clear();
        chooser.clear();
        if (machine.fault != Fault::NONE || !machine.expand(state, e)) {
            problems.status = Status::FAULT;
            problems.fault = machine.fault;
            problems.faulty.assign(state, state + words);
            return result;
        }
        chooser.add(state, e.moves.data(), e.moves.data() + e.moves.size());
        chooser.decide();
        const int32_t chosen = chooser.chosen[0];
        if (chosen == BROKEN) {
            problems.status = Status::FAULT;
            problems.policy_broken = true;
            problems.faulty.assign(state, state + words);
            return result;
        }
        if (chosen < PSEUDO_ACTION) {
            result.end = chosen == STUCK ? END_STUCK : END_DEADLOCK;
            break;
        }
        const Taken taken = take(e, 0, uint32_t(e.moves.size()), chosen, draw(options.seed, run, step));
        result.labels.push_back(e.moves[taken.move].label);
        result.states.insert(result.states.end(), e.words.begin() + taken.branch * words, e.words.begin() + (taken.branch + 1) * words);
    }
    return result;
}

}  // namespace polvet
