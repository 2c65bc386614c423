// need: by how much a counted variable must grow, whatever happens; one answer for every bound that `fail` may put on it.
//
// `fail` is (besides what does not read it) that a counter v, which never falls, reaches a bound. The need of a state *without*
// v is the least k such that some policy keeps the growth of v on all runs from there at or below k; LOST where there is none
// below the ceiling. A state with v is safe iff v plus its need stays below the bound, and what is left over is its margin.
// Needs are the least solution of  need(s) = min over actions of max over outcomes t of (growth to t + need(t)).
//
// Every state holds a value (0 at first, or what `Floor` says) that is never above its need, one action, and watches the outcomes of that action only.
// Where an outcome's value rises, its watchers look for another action that is no worse than their own value; a state without
// one takes the least of what its actions cost as its value, which may wake its own watchers. When nothing is left to visit, every
// visited state holds an action that costs no more than its value, all of whose outcomes are visited: following these actions
// shows that no need is above its value. So values are needs then, for good (`settled`).
//
// Floors are never above needs where runs that are safe for ever end in the goal (safety/journeys.py says why). Elsewhere values
// may be too great: margins that are told are there to be kept, but there may be greater ones.
// Source   `lazy` (decide/lazy.h) with values 0, 1, ..., LOST instead of safe and unsafe
// Cost     O(b m c) for values up to c; what one question settles, others need not ask
#pragma once
#include <memory>

#include "decide/game.h"

namespace polvet {

// Where the counter stands in a packed state; one that falls counts how far it is below its upper bound.
struct Counter {
    uint32_t word, shift;
    uint64_t mask, range;
    bool falls;
    uint16_t ceiling;  // so much growth is too much from the counter's first value on

    uint64_t stored(const uint64_t* state) const { return state[word] >> shift & mask; }
    uint64_t count(const uint64_t* state) const { return falls ? range - stored(state) : stored(state); }
    void reset(uint64_t* state) const { state[word] = (state[word] & ~(mask << shift)) | (falls ? range : 0) << shift; }
};

// What the journey of one variable costs at least, by its value: a part of the value that states begin with.
struct Floor {
    uint32_t word, shift;
    uint64_t mask;
    std::vector<uint16_t> least;
};

constexpr int32_t NO_MARGIN = -1, UNKNOWN_MARGIN = INT32_MIN;

// What is known about states and their labels: margins, and which labels have the greatest.
struct Margins {
    std::vector<int32_t> margin;  // NO_MARGIN: unsafe; UNKNOWN_MARGIN: a limit came first
    std::vector<uint8_t> labels;  // [states, labels]: 0 not applicable, or the run ends here; 1 applicable; 2 keeps the margin
    Status status = Status::DONE;
};

class NeedSearch {
public:
    virtual ~NeedSearch() = default;
    // With labels > 0 the labels that keep the margin are told, too.
    virtual Margins ask(const uint64_t* states, size_t count, uint32_t labels, Watch& watch) = 0;
    virtual uint64_t bytes() const = 0;
    virtual uint64_t size() const = 0;
};

std::unique_ptr<NeedSearch> make_need_search(std::shared_ptr<const Program> program, int32_t fail, int32_t goal, const Counter& counter,
                                             const std::vector<Floor>& floors);

template <int W> class Needs : public NeedSearch {
public:
    Needs(std::shared_ptr<const Program> program, int32_t fail, int32_t goal, const Counter& counter, const std::vector<Floor>& floors)
        : machine_(program),
          store_(program->words),
          fail_(fail),
          goal_(goal),
          counter_(counter),
          floors_(floors),
          lost_(counter.ceiling),
          scratch_(program->words) {}

    Margins ask(const uint64_t* states, size_t count, uint32_t labels, Watch& watch) override {
        watch_ = &watch;
        Margins result;
        result.margin.assign(count, UNKNOWN_MARGIN);
        result.labels.assign(count * labels, 0);
        for (size_t k = 0; k < count && result.status == Status::DONE; ++k) try {
                judge(states + k * store_.words(), labels, result.margin[k], result.labels.data() + k * labels);
            } catch (const Stop& stop) {
                // SOUND: values are never above needs, and what is settled is; only the round that was stopped is lost.
                result.margin[k] = UNKNOWN_MARGIN;
                std::fill_n(result.labels.data() + k * labels, labels, 0);
                result.status = stop.status;
            }
        return result;
    }

    uint64_t size() const override { return nodes_.size(); }
    uint64_t bytes() const override {
        return store_.bytes() + nodes_.capacity() * sizeof(Node) + actions_.capacity() * sizeof(Action) + targets_.capacity() * 4 +
               growth_.capacity() * 2 + links_.capacity() * sizeof(Link) + (queue_.capacity() + trail_.capacity()) * 4;
    }

private:
    struct Node {
        uint32_t first = NONE, action = NONE, visited = 0, watchers = NONE;
        uint16_t value = 0, actions = 0;
        bool settled = false, rising = false;
    };
    struct Action {
        int32_t label;
        uint32_t begin, end;
    };
    struct Link {
        uint32_t watcher, action, next;
        uint16_t growth;
    };

    void judge(const uint64_t* state, uint32_t labels, int32_t& margin, uint8_t* told) {
        const uint64_t spent = counter_.count(state);
        const uint32_t s = add(state);
        if (spent >= lost_ || !is_at_most(s, uint32_t(lost_ - 1 - spent))) {
            margin = NO_MARGIN;
            return;
        }
        const uint16_t need = nodes_[s].value;
        margin = int32_t(lost_ - 1 - spent - need);
        if (labels == 0 || ends_here(s)) return;
        if (nodes_[s].first == NONE) expand(s);
        for (uint32_t a = nodes_[s].first; a < nodes_[s].first + nodes_[s].actions; ++a) {
            bool good = true;
            for (uint32_t i = actions_[a].begin; i < actions_[a].end && good; ++i)
                good = growth_[i] <= need && is_at_most(targets_[i], uint32_t(need - growth_[i]));
            if (actions_[a].label >= 0) told[actions_[a].label] = good ? 2 : 1;
        }
    }

    // Whether the need of the state is at most k; then it is settled.
    bool is_at_most(uint32_t start, uint32_t k) {
        start_ = start;
        if (!nodes_[start].settled) begin_round();
        while (!nodes_[start].settled && nodes_[start].value <= k) {
            if (queue_.empty()) {
                // SOUND: nothing is left to visit, so the visited states are closed under actions that cost no more than their values.
                for (uint32_t s : trail_) nodes_[s].settled = true;
                break;
            }
            if (abandoned_ && opened_ >= trail_.size()) begin_round();
            const uint32_t s = queue_.back();
            queue_.pop_back();
            if (!nodes_[s].settled && nodes_[s].visited != round_ && is_needed(s)) visit(s);
        }
        return nodes_[start].value <= k;
    }

    void begin_round() {
        ++round_;
        queue_.assign(1, start_);
        trail_.clear();
        abandoned_ = false;
        opened_ = 0;
    }

    void visit(uint32_t s) {
        nodes_[s].visited = round_;
        trail_.push_back(s);
        if (nodes_[s].action != NONE) {
            const Action& action = actions_[nodes_[s].action];
            for (uint32_t i = action.begin; i < action.end; ++i) push(targets_[i]);
            return;
        }
        ++opened_;
        if (nodes_[s].first == NONE) expand(s);
        if (nodes_[s].actions == 0) {  // the run ends here, outside `fail`
            nodes_[s].value = 0;
            nodes_[s].settled = true;
        } else if (hold(s)) wake(s);
    }

    void push(uint32_t t) {
        if (!nodes_[t].settled && nodes_[t].visited != round_) queue_.push_back(t);
    }

    // Give s an action that costs no more than its value, raised where it has none; whether it was raised.
    bool hold(uint32_t s) {
        Node& node = nodes_[s];
        bool raised = false;
        for (;;) {
            uint32_t open = NONE;
            uint16_t least = lost_;
            for (uint32_t a = node.first; a < node.first + node.actions; ++a) {
                uint32_t cost = 0;
                bool settled = true;
                for (uint32_t i = actions_[a].begin; i < actions_[a].end && (cost <= node.value || cost < least); ++i) {
                    const Node& t = nodes_[targets_[i]];
                    cost = std::max<uint32_t>(cost, uint32_t(growth_[i]) + t.value);
                    settled = settled && t.settled;
                }
                if (cost <= node.value && settled) {
                    // SOUND: the value is no more than the need, and this action needs no more than the value.
                    node.action = a;
                    node.settled = true;
                    return raised;
                }
                if (cost <= node.value && open == NONE) open = a;
                least = uint16_t(std::min<uint32_t>(least, cost));
            }
            if (open != NONE) {
                take_up(s, open);
                return raised;
            }
            node.value = least;
            raised = true;
            if (least >= lost_) {
                node.settled = true;
                return true;
            }
        }
    }

    void take_up(uint32_t s, uint32_t a) {
        Node& node = nodes_[s];
        abandoned_ = abandoned_ || node.action != NONE;
        node.action = a;
        for (uint32_t i = actions_[a].begin; i < actions_[a].end; ++i) {
            const uint32_t t = targets_[i];
            if (nodes_[t].settled || t == s) continue;
            uint32_t l = free_;
            if (l == NONE) {
                l = uint32_t(links_.size());
                links_.emplace_back();
            } else free_ = links_[l].next;
            links_[l] = {s, a, nodes_[t].watchers, growth_[i]};
            nodes_[t].watchers = l;
            if (node.visited == round_) push(t);
        }
    }

    // The value of s has risen: watchers whose action costs more than their value now look for another.
    void wake(uint32_t s) {
        rising_.assign(1, s);
        nodes_[s].rising = true;
        while (!rising_.empty()) {
            const uint32_t t = rising_.back();
            rising_.pop_back();
            nodes_[t].rising = false;
            uint32_t l = nodes_[t].watchers;
            nodes_[t].watchers = NONE;
            while (l != NONE) {
                const Link link = links_[l];
                Node& watcher = nodes_[link.watcher];
                const bool holds = watcher.action == link.action && !watcher.settled;
                if (holds && uint32_t(link.growth) + nodes_[t].value <= watcher.value) {
                    links_[l].next = nodes_[t].watchers;
                    nodes_[t].watchers = l;
                } else {
                    links_[l].next = free_;
                    free_ = l;
                    if (holds && hold(link.watcher) && !watcher.rising) {
                        watcher.rising = true;
                        rising_.push_back(link.watcher);
                    }
                }
                l = link.next;
            }
        }
    }

    // Whether some state holds the action that led to s. Links of abandoned actions are dropped on the way.
    bool is_needed(uint32_t s) {
        if (s == start_) return true;
        for (uint32_t l = nodes_[s].watchers; l != NONE; l = nodes_[s].watchers) {
            const Node& watcher = nodes_[links_[l].watcher];
            if (watcher.action == links_[l].action && !watcher.settled) return true;
            nodes_[s].watchers = links_[l].next;
            links_[l].next = free_;
            free_ = l;
        }
        return false;
    }

    uint32_t add(const uint64_t* state) {
        std::copy_n(state, store_.words(), scratch_.data());
        counter_.reset(scratch_.data());
        const auto [s, fresh] = store_.insert(scratch_.data());
        if (fresh) {
            nodes_.emplace_back();
            const Ends ends = machine_.ends(fail_, goal_, scratch_.data());
            if (machine_.fault != Fault::NONE) broken(s);
            nodes_[s].settled = ends.fail || ends.goal;
            nodes_[s].value = ends.fail ? lost_ : ends.goal ? 0 : floor_of(scratch_.data());
            if (nodes_[s].value >= lost_) nodes_[s].settled = true;
        }
        return s;
    }

    uint16_t floor_of(const uint64_t* state) const {
        uint64_t sum = 0;
        for (const Floor& f : floors_) sum += f.least[state[f.word] >> f.shift & f.mask];
        return uint16_t(std::min<uint64_t>(sum, lost_));
    }

    bool ends_here(uint32_t s) {
        if (!nodes_[s].settled || nodes_[s].first != NONE) return false;
        const Ends ends = machine_.ends(fail_, goal_, store_.state(s));
        return ends.fail || ends.goal;
    }

    POLVET_NOINLINE void expand(uint32_t s) {
        if ((++expanded_ & 255) == 0)
            if (const Status status = watch_->check(bytes(), size()); status != Status::DONE) throw Stop{status};
        expansion_.clear();
        if (!machine_.expand(store_.state(s), expansion_)) broken(s);
        if (targets_.size() + expansion_.branches() * 8 >= NONE) throw Stop{Status::STATES};
        const uint32_t first = uint32_t(actions_.size());
        size_t silent = 0;
        while (silent < expansion_.moves.size() && expansion_.moves[silent].label != SILENT) ++silent;
        const auto take = [&](const MoveRecord& move) {
            for (uint32_t b = move.begin; b < move.end; ++b) {
                const uint64_t* outcome = expansion_.words.data() + size_t(b) * store_.words();
                const uint64_t growth = std::min<uint64_t>(counter_.count(outcome), lost_);
                targets_.push_back(add(outcome));
                growth_.push_back(uint16_t(growth));
            }
        };
        for (size_t m = 0; m < silent;) {  // grouped by label, silent ones last
            const int32_t label = expansion_.moves[m].label;
            actions_.push_back({label, uint32_t(targets_.size()), 0});
            for (; m < silent && expansion_.moves[m].label == label; ++m) take(expansion_.moves[m]);
            for (size_t n = silent; n < expansion_.moves.size(); ++n) take(expansion_.moves[n]);
            actions_.back().end = uint32_t(targets_.size());
        }
        if (silent == 0 && !expansion_.moves.empty()) {  // where only the environment moves there is one pseudo-action
            actions_.push_back({SILENT, uint32_t(targets_.size()), 0});
            for (const MoveRecord& move : expansion_.moves) take(move);
            actions_.back().end = uint32_t(targets_.size());
        }
        nodes_[s].first = first;
        nodes_[s].actions = uint16_t(actions_.size() - first);
    }

    [[noreturn]] void broken(uint32_t s) {
        throw BrokenModel{machine_.fault, std::vector<uint64_t>(store_.state(s), store_.state(s) + store_.words())};
    }

    Machine machine_;
    Store<W> store_;
    int32_t fail_, goal_;
    Counter counter_;
    std::vector<Floor> floors_;
    uint16_t lost_;
    Watch* watch_ = nullptr;
    Expansion expansion_;
    std::vector<uint64_t> scratch_;
    std::vector<Node> nodes_;
    std::vector<Action> actions_;
    std::vector<uint32_t> targets_, queue_, trail_, rising_;
    std::vector<uint16_t> growth_;
    std::vector<Link> links_;
    uint32_t round_ = 0, free_ = NONE, start_ = 0;
    size_t opened_ = 0;
    uint64_t expanded_ = 0;
    bool abandoned_ = false;
};

}  // namespace polvet
