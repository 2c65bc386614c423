// TarjanSafe: depth-first search that marks the roots of strongly connected components safe.
//
// Source   Schmalz and Jain 2026, Algorithm 1 (after Jain et al., ECAI 2025, who add the safety radius r)
// Differs  as printed, a state's low link ignores what its children reached, so a state may be marked safe although it
//          leans on an ancestor that later proves unsafe; here a child hands its low link up when it returns.
//          With a radius, `known safe` holds for a number of steps only, and a verdict that leaned on the radius is told
//          apart (`cut`): it is no proof of safety
// Cost     exponential in the worst case: a state popped before its component is closed is searched anew
#pragma once
#include "decide/game.h"

namespace polvet {

template <class Game> class TarjanSafe : public Algorithm<Game> {
public:
    TarjanSafe(Game& game, uint32_t radius) : Algorithm<Game>(game), radius_(radius) {}

    bool is_unsafe(uint32_t start) override {
        Game& game = this->game_;
        cut_ = false;
        if (game.known(start) != UNDECIDED) return game.known(start) == UNSAFE;
        ++this->passes;
        frames_.clear();
        enter(start);
        bool safe = true;  // what the frame above returned
        bool returned = false;
        while (!frames_.empty()) {
            Frame& frame = frames_.back();
            const uint32_t s = frame.state;
            if (returned) {
                returned = false;
                const uint32_t t = game.target(frame.place++);
                // SOUND: a child that leans on a state below s makes s lean on it too.
                if (safe && !is_closed(t, left() - 1)) nodes_[s].low = std::min(nodes_[s].low, nodes_[t].low);
                if (!safe) frame.place = NONE;
            }
            bool entered = false;
            while (frame.action != NONE && frame.place != NONE && frame.place < frame.end) {
                const uint32_t t = game.target(frame.place);
                fit();
                if (game.known(t) == UNSAFE) {
                    frame.place = NONE;
                    break;
                }
                if (is_closed(t, left() - 1)) {
                    ++frame.place;
                    continue;
                }
                if (nodes_[t].index != NONE) {
                    nodes_[s].low = std::min(nodes_[s].low, nodes_[t].low);
                    ++frame.place;
                    continue;
                }
                if (left() <= 1) {
                    cut_ = true;
                    ++frame.place;
                    continue;
                }
                enter(t);
                entered = true;
                break;
            }
            if (entered) continue;
            const uint32_t count = game.actions(s);
            if (count == 0 || (frame.action != NONE && frame.place == frame.end)) {  // some action is safe so far
                if (count > 0) game.succeeded(s, frame.action);
                if (nodes_[s].low == nodes_[s].index) close(s);
                safe = true;
            } else if (++frame.action < count) {
                game.look();
                const Outcomes outcomes = game.outcomes(s, frame.action);
                frame.place = outcomes.begin;
                frame.end = outcomes.end;
                continue;
            } else {
                // SOUND: each action has an outcome from which `fail` is forced, so the radius does not matter.
                game.learn(s, UNSAFE);
                safe = false;
            }
            nodes_[s].index = NONE;
            frames_.pop_back();
            returned = true;
        }
        return !safe;
    }

    void forget() override { nodes_.clear(); }
    bool cut() const override { return cut_; }
    size_t bytes() const override { return nodes_.capacity() * sizeof(Node) + frames_.capacity() * sizeof(Frame); }

private:
    struct Frame {
        uint32_t state, action, place, end;
    };
    struct Node {
        uint32_t index = NONE, low = 0, safe_for = 0;
    };

    void fit() {
        if (nodes_.size() < this->game_.size()) nodes_.resize(this->game_.size());
    }
    void enter(uint32_t s) {
        fit();
        nodes_[s].index = nodes_[s].low = uint32_t(frames_.size());
        frames_.push_back({s, NONE, 0, 0});
    }
    // How many steps the state on top must survive; NONE is for ever.
    uint32_t left() const { return radius_ == NONE ? NONE : radius_ - uint32_t(frames_.size() - 1); }
    bool is_closed(uint32_t s, uint32_t steps) {
        if (this->game_.known(s) == SAFE) return true;
        if (radius_ == NONE || nodes_[s].safe_for == 0 || nodes_[s].safe_for < steps) return false;
        return cut_ = true;
    }
    void close(uint32_t s) {
        if (!cut_) this->game_.learn(s, SAFE);  // the radius played no part so far
        else nodes_[s].safe_for = std::max(nodes_[s].safe_for, left());
    }

    uint32_t radius_;
    std::vector<Node> nodes_;
    std::vector<Frame> frames_;
    bool cut_ = false;
};

}  // namespace polvet
