// Biased runs in lanes, as in runs/simulate.cpp, with the whole run kept until it is known not to fail. See fuzz.h.
#include "runs/fuzz.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "runs/portions.h"
#include "runs/walk.h"

namespace polvet {

namespace {

constexpr double FAR_AWAY = 1e9;  // where the distance cannot be computed

struct Node {
    uint8_t kind = UNSEEN;
    bool expanded = false, queued = false;
    uint32_t begin = 0, end = 0, cell = 0;
    double distance = 0;
};

struct UnsafeRun {
    uint64_t row;
    std::vector<uint64_t> states;
    std::vector<int32_t> labels;
};

class Worker : public Walk<Node> {
public:
    Worker(const BoundPolicy& policy, const FuzzRows& rows, const FuzzOptions& options, const Visits* visits)
        : Walk(policy, options.fail, options.goal), rows_(rows), options_(options), visits_(visits) {
        if (visits_) met.assign(visits_->count.size(), 0);
    }

    bool runs(size_t begin, size_t end, Fuzzed& out) {
        size_t next = begin;
        while (next < end || !lanes_.empty()) {
            while (next < end && lanes_.size() < LANES) enter(next++);
            if (!step(out)) return false;
            if (is_full()) forget();
            if (++looks_ % patience_ == 0 && !alive()) return true;
        }
        return true;
    }

    std::vector<UnsafeRun> unsafe;
    std::vector<uint32_t> met;  // visits of this worker, to be added when the call ends

private:
    // `saved` is a state met before, and no step since had a choice: Brent's way to notice a cycle.
    struct Lane {
        uint64_t row = 0, step = 0;
        uint32_t id = 0, saved = 0, choices = 0;
        uint64_t since = 0, power = 1;
        double nearest = FAR_AWAY;
        std::vector<uint64_t> states;
        std::vector<int32_t> labels;
    };

    static uint32_t cell_of(uint64_t hash) { return uint32_t(hash >> (64 - Visits::BITS)); }

    void enter(size_t row) {
        Lane lane;
        if (!spare_.empty()) {
            lane = std::move(spare_.back());
            spare_.pop_back();
            lane.states.clear();
            lane.labels.clear();
        }
        lane.row = row;
        lane.step = lane.since = lane.choices = 0;
        lane.power = 1;
        lane.nearest = FAR_AWAY;
        lane.id = lane.saved = find(rows_.starts + row * words_);
        lane.states.insert(lane.states.end(), rows_.starts + row * words_, rows_.starts + (row + 1) * words_);
        lanes_.push_back(std::move(lane));
    }

    void forget() {
        std::vector<uint64_t> kept;
        for (const Lane& lane : lanes_)
            for (uint32_t id : {lane.id, lane.saved}) kept.insert(kept.end(), state(id), state(id) + words_);
        forget_states();
        lean_.clear();
        label_.clear();
        cell_.clear();
        for (size_t k = 0; k < lanes_.size(); ++k) {
            lanes_[k].id = find(kept.data() + 2 * k * words_);
            lanes_[k].saved = find(kept.data() + (2 * k + 1) * words_);
        }
    }

    double distance(const uint64_t* words) {
        const double measured = as_real(machine_.value(machine_.program->state_rewards[size_t(options_.distance)], words));
        // Where the distance cannot be computed (it looks at all of `fail`, which itself stops early), nothing is known.
        const bool bad = machine_.fault != Fault::NONE || !std::isfinite(measured);
        machine_.fault = Fault::NONE;
        return bad ? FAR_AWAY : measured;
    }

    void finish(size_t k, uint8_t end, Fuzzed& out) {
        Lane& lane = lanes_[k];
        out.end[lane.row] = end;
        out.length[lane.row] = uint32_t(lane.step);
        out.choices[lane.row] = lane.choices;
        out.nearest[lane.row] = end == END_FAIL ? 0.0 : lane.nearest;
        if (end == END_FAIL) unsafe.push_back({lane.row, lane.states, lane.labels});
        spare_.push_back(std::move(lane));
        if (k + 1 < lanes_.size()) lanes_[k] = std::move(lanes_.back());
        lanes_.pop_back();
    }

    bool step(Fuzzed& out) {
        missing_.clear();
        for (size_t k = 0; k < lanes_.size();) {
            Lane& lane = lanes_[k];
            Node& node = nodes_[lane.id];
            if (node.kind == UNSEEN) {
                if (!classify(lane.id)) return false;
                const uint64_t* words = state(lane.id);
                if (options_.distance >= 0) node.distance = distance(words);
                node.cell = cell_of(hash(words));
            }
            lane.nearest = std::min(lane.nearest, node.distance);
            if (visits_) ++met[node.cell];
            uint8_t end = node.kind;
            if (end != END_FAIL && end != END_GOAL && lane.step >= options_.max_steps) end = END_LIMIT;
            if (end == RUNNING && lane.since > 0 && lane.id == lane.saved) end = END_LOOP;
            if (end != RUNNING) {
                finish(k, end, out);
                continue;
            }
            if (lane.since == lane.power) {
                lane.saved = lane.id;
                lane.power *= 2;
                lane.since = 0;
            }
            want(lane.id);
            ++k;
        }
        if (!missing_.empty() && !open_missing()) return false;
        for (size_t k = 0; k < lanes_.size();) {
            Lane& lane = lanes_[k];
            const Node& node = nodes_[lane.id];
            if (node.kind != RUNNING) {
                finish(k, node.kind, out);
                continue;
            }
            const uint32_t branch = node.end - node.begin == 1 ? node.begin : choose(node, lane);
            const bool forced = node.end - node.begin == 1;
            lane.id = follow(branch);
            lane.labels.push_back(label_[branch]);
            lane.states.insert(lane.states.end(), branch_words_.begin() + branch * words_, branch_words_.begin() + (branch + 1) * words_);
            if (forced) ++lane.since;
            else {
                lane.saved = lane.id;
                lane.since = 0;
                lane.power = 1;
                ++lane.choices;
            }
            ++lane.step;
            ++steps;
            ++k;
        }
        return true;
    }

    uint32_t choose(const Node& node, const Lane& lane) {
        const double temperature = rows_.temperature[lane.row];
        const uint64_t run = rows_.runs[lane.row];
        double total = 0;
        weight_.clear();
        for (uint32_t b = node.begin; b < node.end; ++b) {
            double weight = probability_[b];
            if (options_.distance >= 0 && lean_[b] > 0) weight *= std::exp(-lean_[b] / temperature);
            if (visits_ && options_.novelty > 0) weight *= std::pow(1.0 + visits_->count[cell_[b]], -options_.novelty);
            // SOUND: no branch is ever given up, however far or familiar.
            weight = std::max(weight, probability_[b] * 1e-6);
            weight_.push_back(total += weight);
        }
        const double at = unit(draw(options_.seed, run, lane.step).first) * total;
        const size_t place = size_t(std::upper_bound(weight_.begin(), weight_.end(), at) - weight_.begin());
        return node.begin + uint32_t(std::min(place, weight_.size() - 1));
    }

    bool open_missing() {
        uint32_t operators = 0;
        return expand(
            [&](Node& node) {
                node.begin = uint32_t(target_.size());
                operators = 0;
            },
            [&](Node& node, const MoveRecord& move) {
                ++operators;
                for (uint32_t b = move.begin; b < move.end; ++b)
                    add_branch(node, move.label, e_.probability[b], e_.words.data() + b * words_);
            },
            [&](Node& node) {
                node.end = uint32_t(target_.size());
                for (uint32_t b = node.begin; b < node.end; ++b) probability_[b] /= operators;
                if (options_.distance >= 0 && node.end - node.begin > 1) rank_branches(node);
            });
    }

    // Branches that lead to the same state under the same label are one.
    void add_branch(const Node& node, int32_t label, double probability, const uint64_t* words) {
        for (uint32_t b = node.begin; b < target_.size(); ++b)
            if (label_[b] == label && std::equal(words, words + words_, branch_words_.begin() + b * words_)) {
                probability_[b] += probability;
                return;
            }
        probability_.push_back(probability);
        lean_.push_back(0);
        label_.push_back(label);
        cell_.push_back(cell_of(hash(words)));
        target_.push_back(NOT_TAKEN);
        branch_words_.insert(branch_words_.end(), words, words + words_);
    }

    void rank_branches(const Node& node) {
        double least = FAR_AWAY, most = 0;
        for (uint32_t b = node.begin; b < node.end; ++b) {
            lean_[b] = distance(branch_words_.data() + b * words_);
            least = std::min(least, lean_[b]);
            most = std::max(most, lean_[b]);
        }
        for (uint32_t b = node.begin; b < node.end; ++b) lean_[b] = most > least ? (lean_[b] - least) / (most - least) : 0;
    }

    const FuzzRows& rows_;
    const FuzzOptions& options_;
    const Visits* visits_;
    std::vector<Lane> lanes_, spare_;
    std::vector<double> lean_, weight_;  // per branch
    std::vector<int32_t> label_;
    std::vector<uint32_t> cell_;
    uint64_t looks_ = 0;
};

void gather(std::vector<UnsafeRun>& unsafe, size_t words, Fuzzed& out) {
    std::sort(unsafe.begin(), unsafe.end(), [](const UnsafeRun& x, const UnsafeRun& y) { return x.row < y.row; });
    for (UnsafeRun& one : unsafe) {
        out.unsafe.push_back(one.row);
        out.states.insert(out.states.end(), one.states.begin(), one.states.end());
        out.labels.insert(out.labels.end(), one.labels.begin(), one.labels.end());
        out.state_start.push_back(out.states.size() / words);
        std::vector<uint64_t>().swap(one.states);
    }
}

}  // namespace

Fuzzed fuzz(const BoundPolicy& policy, const FuzzRows& rows, const FuzzOptions& options, Visits* visits, Limits& limits) {
    Fuzzed out;
    out.end.assign(rows.count, RUNNING);
    out.length.assign(rows.count, 0);
    out.choices.assign(rows.count, 0);
    out.nearest.assign(rows.count, FAR_AWAY);
    std::vector<UnsafeRun> unsafe;
    std::vector<uint32_t> met;
    run_portions(
        {rows.count, 4096, options.threads, rows.count}, policy, limits, out.problems,
        [&] { return Worker(policy, rows, options, visits); },
        [&](Worker& worker, size_t begin, size_t end) { return worker.runs(begin, end, out); },
        [&](Worker& worker) {
            out.steps += worker.steps;
            std::move(worker.unsafe.begin(), worker.unsafe.end(), std::back_inserter(unsafe));
            if (met.empty()) met = std::move(worker.met);
            else
                for (size_t k = 0; k < met.size(); ++k) met[k] += worker.met[k];
        });
    if (visits)
        for (size_t k = 0; k < met.size(); ++k) visits->count[k] += met[k];
    gather(unsafe, policy.program->words, out);
    return out;
}

PolicySteps policy_steps(const BoundPolicy& policy, const uint64_t* states, size_t count, int32_t fail, int32_t goal) {
    const size_t words = policy.program->words;
    Machine machine(policy.program);
    Chooser chooser(policy);
    Expansion e;
    PolicySteps out;
    out.end.assign(count, RUNNING);
    out.label.assign(count, DEADLOCK);
    const auto broke = [&](const uint64_t* state, bool by_policy) {
        out.problems.status = Status::FAULT;
        out.problems.fault = machine.fault;
        out.problems.policy_broken = by_policy;
        out.problems.faulty.assign(state, state + words);
    };
    std::vector<uint32_t> move_end;
    std::vector<size_t> asked;
    for (size_t begin = 0; begin < count; begin += 256) {
        const size_t end = std::min(begin + 256, count);
        e.clear();
        chooser.clear();
        move_end.clear();
        asked.clear();
        for (size_t k = begin; k < end; ++k) {
            const uint64_t* state = states + k * words;
            out.end[k] = end_of(machine.ends(fail, goal, state));
            const size_t first = e.moves.size();
            if (machine.fault != Fault::NONE || (out.end[k] == RUNNING && !machine.expand(state, e))) {
                broke(state, false);
                return out;
            }
            if (out.end[k] != RUNNING) continue;
            asked.push_back(k);
            move_end.push_back(uint32_t(e.moves.size()));
            chooser.add(state, e.moves.data() + first, e.moves.data() + e.moves.size());
        }
        chooser.decide();
        size_t next = 0;
        for (size_t k = begin; k < end; ++k) {
            if (next < asked.size() && asked[next] == k) {
                const int32_t chosen = out.label[k] = chooser.chosen[next];
                if (chosen == BROKEN) {
                    broke(states + k * words, true);
                    return out;
                }
                if (chosen < PSEUDO_ACTION) out.end[k] = chosen == STUCK ? END_STUCK : END_DEADLOCK;
                const size_t first = out.outcomes.size();
                for (uint32_t v = next ? move_end[next - 1] : 0; v < move_end[next] && out.end[k] == RUNNING; ++v) {
                    const MoveRecord& move = e.moves[v];
                    if (move.label >= 0 && move.label != chosen) continue;
                    for (uint32_t b = move.begin; b < move.end; ++b) {
                        const uint64_t* outcome = e.words.data() + b * words;
                        bool known = false;
                        for (size_t at = first; at < out.outcomes.size() && !known; at += words)
                            known = std::equal(outcome, outcome + words, out.outcomes.begin() + ptrdiff_t(at));
                        if (!known) out.outcomes.insert(out.outcomes.end(), outcome, outcome + words);
                    }
                }
                ++next;
            }
            out.outcome_start.push_back(out.outcomes.size() / words);
        }
    }
    return out;
}

}  // namespace polvet
