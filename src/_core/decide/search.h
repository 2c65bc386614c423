// LAO* and LRTDP: heuristic search for MDPs, with V = 0 as the optimistic start and values 0 or 1.
//
// Source   Hansen and Zilberstein, LAO*, AIJ 2001 (`HeuristicSearch` without trials: the best partial policy graph is
//          expanded and backed up in post order until nothing changes); Bonet and Geffner, Labeled RTDP, ICAPS 2003
//          (`LabelledTrials`: random trials of the greedy policy, then `check_solved`)
// Differs  a trial ends when it meets a state of the same trial again: safe policies may run for ever
// Cost     O(b m n) in the worst case
#pragma once
#include <random>

#include "decide/game.h"

namespace polvet {

// The first action whose Q-value is 0, or NONE.
template <class Game> uint32_t greedy_action(Game& game, uint32_t s) {
    const uint32_t count = game.actions(s);
    for (uint32_t k = 0; k < count; ++k) {
        game.look();
        const Outcomes outcomes = game.outcomes(s, k);
        bool good = true;
        for (uint32_t i = outcomes.begin; i < outcomes.end && good; ++i) good = game.known(game.target(i)) != UNSAFE;
        if (good) return k;
    }
    return NONE;
}

// V(s) := min over actions of Q.
template <class Game> void backup(Game& game, uint32_t s) {
    if (game.known(s) == UNDECIDED && game.actions(s) > 0 && greedy_action(game, s) == NONE) game.learn(s, UNSAFE);
}

template <class Game> class HeuristicSearch : public Passes<Game> {
public:
    using Passes<Game>::Passes;

    size_t bytes() const override { return Passes<Game>::bytes() + frames_.capacity() * sizeof(Frame); }

private:
    struct Frame {
        uint32_t state, place, end;
    };

    // The greedy policy's graph, expanded and backed up in post order: complete where nothing changes.
    bool pass(uint32_t start) override {
        Game& game = this->game_;
        bool changed = false;
        frames_.clear();
        const auto enter = [&](uint32_t s) {
            if (!this->visit(s) || game.actions(s) == 0) return;
            const uint32_t k = greedy_action(game, s);
            if (k == NONE) {
                game.learn(s, UNSAFE);
                changed = true;
                return;
            }
            const Outcomes outcomes = game.outcomes(s, k);
            frames_.push_back({s, outcomes.begin, outcomes.end});
        };
        enter(start);
        while (!frames_.empty()) {
            if (frames_.back().place < frames_.back().end) {
                enter(game.target(frames_.back().place++));
                continue;
            }
            const uint32_t s = frames_.back().state;
            frames_.pop_back();
            if (changed) backup(game, s);  // nothing below changed: the greedy action stands
        }
        return changed;
    }

    std::vector<Frame> frames_;
};

template <class Game> class LabelledTrials : public Algorithm<Game> {
public:
    LabelledTrials(Game& game, uint64_t seed) : Algorithm<Game>(game), random_(seed) {}

    bool is_unsafe(uint32_t start) override {
        Game& game = this->game_;
        while (game.known(start) == UNDECIDED) {
            ++this->passes;
            trial(start);
            while (!visited_.empty()) {
                const uint32_t s = visited_.back();
                visited_.pop_back();
                if (!check_solved(s)) break;
            }
        }
        return game.known(start) == UNSAFE;
    }

    void forget() override {
        seen_.clear();
        epoch_ = 0;
    }
    size_t bytes() const override { return (seen_.capacity() + visited_.capacity() + open_.capacity() + closed_.capacity()) * 4; }

private:
    void trial(uint32_t s) {
        Game& game = this->game_;
        ++epoch_;
        visited_.clear();
        for (;;) {
            seen_.resize(game.size(), 0);
            if (game.known(s) != UNDECIDED || seen_[s] == epoch_) return;
            seen_[s] = epoch_;
            visited_.push_back(s);
            if (game.actions(s) == 0) return;
            const uint32_t k = greedy_action(game, s);
            if (k == NONE) {
                game.learn(s, UNSAFE);
                return;
            }
            const Outcomes outcomes = game.outcomes(s, k);
            s = game.target(outcomes.begin + uint32_t(random_() % (outcomes.end - outcomes.begin)));
        }
    }

    bool check_solved(uint32_t start) {
        Game& game = this->game_;
        if (game.known(start) != UNDECIDED) return true;
        ++epoch_;
        open_.assign(1, start);
        closed_.clear();
        seen_.resize(game.size(), 0);
        seen_[start] = epoch_;
        bool solved = true;
        while (!open_.empty()) {
            const uint32_t s = open_.back();
            open_.pop_back();
            closed_.push_back(s);
            if (game.actions(s) == 0) continue;
            const uint32_t k = greedy_action(game, s);
            if (k == NONE) {
                solved = false;
                continue;
            }  // the value of s is to change
            const Outcomes outcomes = game.outcomes(s, k);
            seen_.resize(game.size(), 0);
            for (uint32_t i = outcomes.begin; i < outcomes.end; ++i) {
                const uint32_t t = game.target(i);
                if (game.known(t) != UNDECIDED || seen_[t] == epoch_) continue;
                seen_[t] = epoch_;
                open_.push_back(t);
            }
        }
        if (solved)
            // SOUND: the greedy policy's graph from `start` is complete and no value in it can change.
            for (uint32_t s : closed_) game.learn(s, SAFE);
        else
            for (size_t k = closed_.size(); k-- > 0;) backup(game, closed_[k]);
        return solved;
    }

    std::mt19937_64 random_;
    std::vector<uint32_t> seen_, visited_, open_, closed_;
    uint32_t epoch_ = 0;
};

}  // namespace polvet
