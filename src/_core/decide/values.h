// Whole-space methods: they explore everything reachable from the question first, then compute values.
//
// Source   Schmalz and Jain 2026: Algorithm 2 (Prop-U) is `Propagate`; `ValueIteration` is section 2's Bellman backups, with
//          `topological` after Dai et al., Topological Value Iteration Algorithms, JAIR 2011
// Differs  Prop-U starts from the fail states that are reachable, not from all there are; it stops when the question's
//          state is reached
// Cost     Prop-U: O(b m); value iteration: O(b m n) in the worst case; topological: the same within each component
#pragma once
#include "decide/game.h"

namespace polvet {

// Everything reachable from a state through undecided states, in breadth-first order.
template <class Game> class Reachable {
public:
    void explore(Game& game, uint32_t start, std::vector<uint32_t>& seen, uint32_t epoch) {
        states.assign(1, start);
        seen.resize(game.size(), 0);
        seen[start] = epoch;
        for (size_t head = 0; head < states.size(); ++head) {
            const uint32_t s = states[head];
            const uint32_t count = game.actions(s);
            for (uint32_t k = 0; k < count; ++k) {
                game.look();
                const Outcomes outcomes = game.outcomes(s, k);
                seen.resize(game.size(), 0);
                for (uint32_t i = outcomes.begin; i < outcomes.end; ++i) {
                    const uint32_t t = game.target(i);
                    if (seen[t] == epoch || game.known(t) != UNDECIDED) continue;
                    seen[t] = epoch;
                    states.push_back(t);
                }
            }
        }
    }
    std::vector<uint32_t> states;
};

template <class Game> class Propagate : public Algorithm<Game> {
public:
    using Algorithm<Game>::Algorithm;

    bool is_unsafe(uint32_t start) override {
        Game& game = this->game_;
        if (game.known(start) != UNDECIDED) return game.known(start) == UNSAFE;
        ++this->passes;
        reachable_.explore(game, start, seen_, ++epoch_);
        // Predecessors as (state, action), counted first, then filled in; Q(s, a) as a bit per pair, actions left per state.
        const std::vector<uint32_t>& states = reachable_.states;
        before_.assign(game.size() + 1, 0);
        each_transition([&](uint32_t, uint32_t, uint32_t t) { ++before_[t + 1]; });
        for (size_t t = 1; t < before_.size(); ++t) before_[t] += before_[t - 1];
        pairs_.resize(before_.back());
        std::vector<uint64_t> fill(before_.begin(), before_.end() - 1);
        first_pair_.assign(game.size(), 0);
        left_.assign(game.size(), 0);
        uint32_t pairs = 0;
        for (uint32_t s : states) {
            first_pair_[s] = pairs;
            left_[s] = game.actions(s);
            pairs += left_[s];
        }
        each_transition([&](uint32_t s, uint32_t k, uint32_t t) { pairs_[fill[t]++] = {s, k}; });
        rejected_.assign(pairs, 0);
        queue_.clear();
        for (uint32_t t = 0; t < game.size(); ++t)
            if (game.known(t) == UNSAFE && before_[t] < before_[t + 1]) queue_.push_back(t);
        while (!queue_.empty() && game.known(start) != UNSAFE) {
            const uint32_t t = queue_.back();
            queue_.pop_back();
            for (uint64_t p = before_[t]; p < before_[t + 1]; ++p) {
                const auto [s, k] = pairs_[p];
                uint8_t& rejected = rejected_[first_pair_[s] + k];
                if (rejected) continue;
                rejected = 1;
                if (--left_[s] == 0) {
                    game.learn(s, UNSAFE);
                    queue_.push_back(s);
                }
            }
        }
        if (game.known(start) == UNSAFE) return true;
        // SOUND: what the attractor of the unsafe states leaves behind has an action that stays there.
        for (uint32_t s : states)
            if (game.known(s) == UNDECIDED) game.learn(s, SAFE);
        return false;
    }

    void forget() override {
        seen_.clear();
        epoch_ = 0;
    }
    size_t bytes() const override {
        return (seen_.capacity() + left_.capacity() + first_pair_.capacity() + queue_.capacity() + reachable_.states.capacity()) * 4 +
               before_.capacity() * 8 + pairs_.capacity() * 8 + rejected_.capacity();
    }

private:
    struct Pair {
        uint32_t state, action;
    };

    template <class Visit> void each_transition(Visit visit) {
        Game& game = this->game_;
        for (uint32_t s : reachable_.states) {
            const uint32_t count = game.actions(s);
            for (uint32_t k = 0; k < count; ++k) {
                const Outcomes outcomes = game.outcomes(s, k);
                for (uint32_t i = outcomes.begin; i < outcomes.end; ++i) visit(s, k, game.target(i));
            }
        }
    }

    Reachable<Game> reachable_;
    std::vector<uint32_t> seen_, left_, first_pair_, queue_;
    std::vector<uint64_t> before_;
    std::vector<Pair> pairs_;
    std::vector<uint8_t> rejected_;
    uint32_t epoch_ = 0;
};

template <class Game> class ValueIteration : public Algorithm<Game> {
public:
    ValueIteration(Game& game, bool topological) : Algorithm<Game>(game), topological_(topological) {}

    bool is_unsafe(uint32_t start) override {
        Game& game = this->game_;
        if (game.known(start) != UNDECIDED) return game.known(start) == UNSAFE;
        reachable_.explore(game, start, seen_, ++epoch_);
        if (topological_) {
            find_components(start);
            uint32_t begin = 0;
            for (uint32_t end : ends_) {
                sweep(order_.data() + begin, order_.data() + end);
                begin = end;
            }
        } else {
            sweep(reachable_.states.data(), reachable_.states.data() + reachable_.states.size());
        }
        // SOUND: no backup changes a value any more, so every state left at 0 has an action into states at 0.
        for (uint32_t s : reachable_.states)
            if (game.known(s) == UNDECIDED) game.learn(s, SAFE);
        return game.known(start) == UNSAFE;
    }

    void forget() override {
        seen_.clear();
        epoch_ = 0;
    }
    size_t bytes() const override {
        return (seen_.capacity() + reachable_.states.capacity() + order_.capacity() + ends_.capacity() + stack_.capacity()) * 4 +
               nodes_.capacity() * 8 + frames_.capacity() * sizeof(Frame);
    }

private:
    struct Frame {
        uint32_t state, action, place, end;
    };
    struct Node {
        uint32_t index = NONE, low = 0;
    };

    void sweep(const uint32_t* begin, const uint32_t* end) {
        Game& game = this->game_;
        for (bool changed = true; changed;) {
            changed = false;
            ++this->passes;
            for (const uint32_t* p = begin; p < end; ++p) {
                const uint32_t s = *p, count = game.actions(s);
                if (game.known(s) != UNDECIDED || count == 0) continue;
                uint32_t k = 0;
                while (k < count && is_rejected(s, k)) ++k;
                if (k == count) {
                    game.learn(s, UNSAFE);
                    changed = true;
                }
            }
        }
    }

    bool is_rejected(uint32_t s, uint32_t k) {
        Game& game = this->game_;
        game.look();
        const Outcomes outcomes = game.outcomes(s, k);
        for (uint32_t i = outcomes.begin; i < outcomes.end; ++i)
            if (game.known(game.target(i)) == UNSAFE) return true;
        return false;
    }

    // Strongly connected components over all actions, successors first (Tarjan 1972 with explicit frames).
    void find_components(uint32_t start) {
        Game& game = this->game_;
        nodes_.assign(game.size(), Node{});
        order_.clear();
        ends_.clear();
        stack_.clear();
        frames_.clear();
        uint32_t next = 0;
        const auto enter = [&](uint32_t s) {
            nodes_[s] = {next, next};
            ++next;
            stack_.push_back(s);
            frames_.push_back({s, NONE, 0, 0});
        };
        constexpr uint32_t DONE = NONE - 1;
        enter(start);
        while (!frames_.empty()) {
            Frame& frame = frames_.back();
            const uint32_t s = frame.state;
            if (frame.place < frame.end) {
                const uint32_t t = game.target(frame.place);
                if (game.known(t) != UNDECIDED) {
                    ++frame.place;
                    continue;
                }
                if (nodes_[t].index == NONE) {
                    enter(t);
                    continue;
                }
                if (nodes_[t].index != DONE) nodes_[s].low = std::min(nodes_[s].low, nodes_[t].low);
                ++frame.place;
                continue;
            }
            if (++frame.action < game.actions(s)) {
                const Outcomes outcomes = game.outcomes(s, frame.action);
                frame.place = outcomes.begin;
                frame.end = outcomes.end;
                continue;
            }
            if (nodes_[s].low == nodes_[s].index) {
                for (uint32_t t = NONE; t != s;) {
                    t = stack_.back();
                    stack_.pop_back();
                    nodes_[t].index = DONE;
                    order_.push_back(t);
                }
                ends_.push_back(uint32_t(order_.size()));
            }
            frames_.pop_back();
        }
    }

    bool topological_;
    Reachable<Game> reachable_;
    std::vector<uint32_t> seen_, order_, ends_, stack_;
    std::vector<Node> nodes_;
    std::vector<Frame> frames_;
    uint32_t epoch_ = 0;
};

}  // namespace polvet
