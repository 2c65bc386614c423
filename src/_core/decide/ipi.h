// iPI: improved policy iteration, and nPI: the naive one.
//
// Source   Schmalz and Jain, Algorithms for Deciding the Safety of States in FOND Problems, 2026: Algorithm 4 is
//          `ImprovedPolicyIteration::is_unsafe` (main loop) and `pass` (rec-iPI with explicit frames); Algorithm 3 is
//          `NaivePolicyIteration`, with `mark_unsafe` and `greedy`
// Differs  Algorithm 4 as printed sets saw-unsafe also when it meets a state already known to be unsafe; with actions
//          a0 -> fail, a1 -> itself it never ends. Here the flag is set only when a pass changes V: a pass without a
//          change leaves every visited state with an action among states of V = 0. The outcomes of an action are no
//          longer visited once one of them is unsafe. A state without actions is an ended run, hence safe
// Cost     O(b m n)
#pragma once
#include "decide/game.h"

namespace polvet {

template <class Game> class ImprovedPolicyIteration : public Passes<Game> {
public:
    using Passes<Game>::Passes;

    size_t bytes() const override { return Passes<Game>::bytes() + frames_.capacity() * sizeof(Frame); }

private:
    struct Frame {
        uint32_t state, action, place, end;
    };

    bool enter(uint32_t s) {  // false where rec-iPI returns at once: not a state to be opened
        if (!this->visit(s)) return false;
        frames_.push_back({s, NONE, 0, 0});
        return true;
    }

    bool pass(uint32_t start) override {
        bool changed = false;
        Game& game = this->game_;
        frames_.clear();
        enter(start);
        while (!frames_.empty()) {
            Frame& frame = frames_.back();
            const uint32_t s = frame.state;
            if (frame.action != NONE) {
                bool entered = false, unsafe = false;
                for (; frame.place < frame.end; ++frame.place) {  // after a child's return its outcome is met again
                    const uint32_t t = game.target(frame.place);
                    if ((unsafe = game.known(t) == UNSAFE) || (entered = enter(t))) break;
                }
                if (entered) continue;
                if (!unsafe) {
                    game.succeeded(s, frame.action);
                    frames_.pop_back();
                    continue;
                }
            }
            const uint32_t count = game.actions(s);
            if (count == 0) {
                frames_.pop_back();
                continue;
            }  // an ended run: maybe safe
            if (++frame.action == count) {  // NONE + 1 == 0
                game.learn(s, UNSAFE);
                changed = true;
                frames_.pop_back();
                continue;
            }
            game.look();
            const Outcomes outcomes = game.outcomes(s, frame.action);
            frame.place = outcomes.begin;
            frame.end = outcomes.end;
        }
        return changed;
    }

    std::vector<Frame> frames_;
};

template <class Game> class NaivePolicyIteration : public Algorithm<Game> {
public:
    using Algorithm<Game>::Algorithm;

    bool is_unsafe(uint32_t start) override {
        Game& game = this->game_;
        if (game.known(start) != UNDECIDED) return game.known(start) == UNSAFE;
        for (;;) {
            ++this->passes;
            const bool saw_unsafe = mark_unsafe(start);
            if (game.known(start) == UNSAFE) return true;
            if (!saw_unsafe) break;
            greedy(start);
        }
        // SOUND: no state of the policy's graph is unsafe, and the graph is closed.
        for (uint32_t s : order_) game.learn(s, SAFE);
        return false;
    }

    void forget() override {
        policy_.clear();
        seen_.clear();
        epoch_ = 0;
    }
    size_t bytes() const override {
        return (policy_.capacity() + seen_.capacity() + order_.capacity()) * 4 + frames_.capacity() * sizeof(Frame);
    }

private:
    struct Frame {
        uint32_t state, place, end;
    };

    void fit() {
        if (policy_.size() >= this->game_.size()) return;
        policy_.resize(this->game_.size(), 0);  // the first action of the order is the initial policy
        seen_.resize(this->game_.size(), 0);
    }

    bool is_rejected(uint32_t s, uint32_t k) {  // Q(s, a) = 1
        Game& game = this->game_;
        game.look();
        const Outcomes outcomes = game.outcomes(s, k);
        fit();
        for (uint32_t i = outcomes.begin; i < outcomes.end; ++i)
            if (game.known(game.target(i)) == UNSAFE) return true;
        return false;
    }

    // The states of the policy's graph from `start` in DFS post order; whether a known unsafe one is met.
    template <class Enter> bool walk(uint32_t start, Enter choose) {
        Game& game = this->game_;
        bool met_unsafe = false;
        ++epoch_;
        order_.clear();
        frames_.clear();
        const auto enter = [&](uint32_t s) {
            fit();
            if (game.known(s) == UNSAFE) met_unsafe = true;
            if (game.known(s) != UNDECIDED || seen_[s] == epoch_) return;
            seen_[s] = epoch_;
            if (game.actions(s) == 0) {
                order_.push_back(s);
                return;
            }
            choose(s);
            game.look();
            const Outcomes outcomes = game.outcomes(s, policy_[s]);
            frames_.push_back({s, outcomes.begin, outcomes.end});
        };
        enter(start);
        while (!frames_.empty()) {
            if (frames_.back().place < frames_.back().end) enter(game.target(frames_.back().place++));
            else {
                order_.push_back(frames_.back().state);
                frames_.pop_back();
            }
        }
        return met_unsafe;
    }

    bool mark_unsafe(uint32_t start) {
        bool saw_unsafe = walk(start, [](uint32_t) {});
        for (uint32_t s : order_) {
            const uint32_t count = this->game_.actions(s);
            uint32_t k = 0;
            while (k < count && is_rejected(s, k)) ++k;
            if (k == count && count > 0) {
                this->game_.learn(s, UNSAFE);
                saw_unsafe = true;
            }
        }
        return saw_unsafe;
    }

    void greedy(uint32_t start) {
        walk(start, [&](uint32_t s) {
            const uint32_t count = this->game_.actions(s);
            uint32_t k = 0;
            while (k < count && is_rejected(s, k)) ++k;
            policy_[s] = k < count ? k : 0;
        });
    }

    std::vector<uint32_t> policy_, seen_, order_;
    std::vector<Frame> frames_;
    uint32_t epoch_ = 0;
};

}  // namespace polvet
