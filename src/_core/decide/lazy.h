// lazy: a local fixpoint on the fly with watched actions.
//
// Every state holds one current action and watches the outcomes of that action only. When an outcome turns unsafe, its
// watchers move on to their next action without a known unsafe outcome; a state out of actions is unsafe and wakes its
// own watchers. The search stops when the question is answered or nothing is left to visit: then all visited states
// hold an action whose outcomes are visited and hold one too, which is a closed safe policy.
//
// What is visited next decides how much is wasted. Mostly the newest state is taken (deep: safe loops close soon), every
// fourth time the oldest (wide: a failure near the question is found although the newest leads far away). When actions
// are abandoned early, current actions are followed from the start again, so that nothing is expanded for their sake.
//
// The newest state may lead ever further away where another action would have closed a loop. A question that is asked in the model's
// order of actions is therefore asked in a random one after some looks (the patience), then in the model's again, and so on, each pair of turns with
// twice the looks; what was proved unsafe stays so. The next question begins in the order that answered the last.
//
// Source   Liu and Smolka, Simple linear-time algorithms for minimal fixed points, 1998, made lazy over actions
// Cost     O(b m) in one order: a state's action pointer only moves forward, so no (state, action) pair is looked at twice; a round
//          is started again only while it has walked over nothing but states that it opened itself. Orders that take turns cost at most
//          about seven times the looks of the better one
// Evidence `action(s)` of safe states, `rank(s)` (the order of killing) of unsafe ones; both stay valid for ever
#pragma once
#include "decide/game.h"

namespace polvet {

template <class Game> class Lazy : public Algorithm<Game> {
public:
    Lazy(Game& game, uint64_t patience) : Algorithm<Game>(game), patience_(patience) {}

    bool is_unsafe(uint32_t start) override {
        Game& game = this->game_;
        fit();
        if (game.known(start) != UNDECIDED) return game.known(start) == UNSAFE;
        start_ = start;
        begin_round();
        uint64_t patience = patience_, until = game.looks + patience;
        while (head_ < queue_.size()) {
            if (game.looks >= until && may_start_over()) {
                patience += start_over() ? 0 : patience;
                until = game.looks + patience;
            }
            if (abandoned_ && opened_ >= trail_.size()) begin_round();  // nothing but new states so far: that is cheap
            const uint32_t s = take();
            if (game.known(s) != UNDECIDED || is_visited(s) || !is_needed(s)) continue;
            visit(s);
            if (game.known(start) == UNSAFE) return true;
        }
        // SOUND: nothing is left to visit, so every visited state that was not killed holds an action all of whose
        // outcomes are visited or known to be safe: the visited states are closed.
        for (uint32_t s : trail_)
            if (game.known(s) == UNDECIDED) game.learn(s, SAFE);
        return false;
    }

    void forget() override {
        nodes_.clear();
        links_.clear();
        if (is_shuffled_) this->game_.order = Order::APP;
        is_shuffled_ = false;
        query_ = 0;
        killed_ = 0;
        free_ = NONE;
    }
    size_t bytes() const override {
        return nodes_.capacity() * sizeof(Node) + links_.capacity() * sizeof(Link) +
               (queue_.capacity() + trail_.capacity() + dying_.capacity()) * 4;
    }

    uint32_t action(uint32_t s) const { return nodes_[s].action; }                      // of a safe state; NONE where the run ends
    uint32_t rank(uint32_t s) const { return s < nodes_.size() ? nodes_[s].rank : 0; }  // of an unsafe state; fail states have 0

protected:
    struct Node {
        uint32_t action = NONE, visited = 0, watchers = NONE, rank = 0;
    };
    struct Link {
        uint32_t watcher, action, next;
    };

    static constexpr size_t DEEP = 3;                 // newest states taken for each oldest one
    static constexpr uint32_t PROMISED = UINT32_MAX;  // visited for good, whatever happens to the question at hand

    // Whether actions may be tried in another order: the order is the model's, or a random one that was taken in its place.
    virtual bool may_start_over() const { return is_shuffled_ || this->game_.order == Order::APP; }
    virtual void was_killed(uint32_t) {}
    virtual void has_moved(uint32_t) {}

    bool is_visited(uint32_t s) const { return nodes_[s].visited == query_ || nodes_[s].visited == PROMISED; }

    void visit(uint32_t s) {
        Game& game = this->game_;
        nodes_[s].visited = query_;
        trail_.push_back(s);
        if (nodes_[s].action != NONE) {
            push_outcomes(s);
            return;
        }
        ++opened_;
        if (game.actions(s) == 0) game.learn(s, SAFE);  // the run ends here, outside `fail`
        else if (!advance(s)) kill(s);
    }

    uint32_t take() {
        if (turn_++ % (DEEP + 1) == 0) return queue_[head_++];
        const uint32_t s = queue_.back();
        queue_.pop_back();
        return s;
    }

    // Follow the current actions from the start again: what only abandoned actions led to is left behind.
    void begin_round() {
        ++query_;
        ++this->passes;
        queue_.assign(1, start_);
        head_ = 0;
        trail_.clear();
        abandoned_ = false;
        opened_ = turn_ = 0;
    }

    // Take a random order where it was the model's, and the other way round; return whether it is random now. What was killed
    // stays killed; all other states hold no action, and nobody watches anything.
    bool start_over() {
        is_shuffled_ = !is_shuffled_;
        for (uint32_t s = 0; s < nodes_.size(); ++s) {
            nodes_[s].watchers = NONE;
            if (this->game_.known(s) == UNDECIDED) nodes_[s].action = NONE;
        }
        links_.clear();
        free_ = NONE;
        this->game_.shuffle(is_shuffled_);
        begin_round();
        return is_shuffled_;
    }

    void fit() {
        if (nodes_.size() < this->game_.size()) nodes_.resize(this->game_.size());
    }

    // Whether some state that was not killed still holds the action that led to s. Links of abandoned actions are dropped
    // on the way: actions are never taken up again.
    bool is_needed(uint32_t s) {
        if (s == start_) return true;
        for (uint32_t l = nodes_[s].watchers; l != NONE; l = nodes_[s].watchers) {
            const Link& link = links_[l];
            if (nodes_[link.watcher].action == link.action && this->game_.known(link.watcher) != UNSAFE) return true;
            nodes_[s].watchers = link.next;
            links_[l].next = free_;
            free_ = l;
        }
        return false;
    }

    // Move s to its next action without a known unsafe outcome and watch that action's outcomes.
    bool advance(uint32_t s) {
        Game& game = this->game_;
        const uint32_t count = game.actions(s);
        for (uint32_t k = nodes_[s].action + 1; k < count; ++k) {  // NONE + 1 == 0
            game.look();
            const Outcomes outcomes = game.outcomes(s, k);
            fit();
            nodes_[s].action = k;
            bool good = true;
            for (uint32_t i = outcomes.begin; i < outcomes.end && good; ++i) good = game.known(game.target(i)) != UNSAFE;
            if (!good) continue;
            for (uint32_t i = outcomes.begin; i < outcomes.end; ++i) {
                const uint32_t t = game.target(i);
                if (t == s || game.known(t) == SAFE) continue;
                watch(s, k, t);
                if (is_visited(s) && !is_visited(t)) queue_.push_back(t);
            }
            game.succeeded(s, k);
            return true;
        }
        return false;
    }

    void push_outcomes(uint32_t s) {
        Game& game = this->game_;
        const Outcomes outcomes = game.outcomes(s, nodes_[s].action);
        for (uint32_t i = outcomes.begin; i < outcomes.end; ++i)
            if (const uint32_t t = game.target(i); game.known(t) == UNDECIDED && !is_visited(t)) queue_.push_back(t);
    }

    void kill(uint32_t victim) {
        Game& game = this->game_;
        dying_.assign(1, victim);
        while (!dying_.empty()) {
            const uint32_t s = dying_.back();
            dying_.pop_back();
            if (game.known(s) == UNSAFE) continue;
            // SOUND: each of its actions had a known unsafe outcome when the pointer moved past it, hence of lower rank.
            game.learn(s, UNSAFE);
            nodes_[s].rank = ++killed_;
            was_killed(s);
            for (uint32_t l = nodes_[s].watchers; l != NONE;) {
                const Link link = links_[l];
                links_[l].next = free_;
                free_ = l;
                l = link.next;
                const uint32_t w = link.watcher;
                if (nodes_[w].action == link.action && game.known(w) == UNDECIDED) {
                    abandoned_ = true;
                    if (!advance(w)) dying_.push_back(w);
                    else has_moved(w);
                }
            }
            nodes_[s].watchers = NONE;
        }
    }

    void watch(uint32_t s, uint32_t k, uint32_t t) {
        uint32_t l = free_;
        if (l == NONE) {
            l = uint32_t(links_.size());
            links_.emplace_back();
        } else free_ = links_[l].next;
        links_[l] = {s, k, nodes_[t].watchers};
        nodes_[t].watchers = l;
    }

    std::vector<Node> nodes_;
    std::vector<Link> links_;
    std::vector<uint32_t> queue_, trail_, dying_;
    uint32_t query_ = 0, killed_ = 0, free_ = NONE, start_ = 0;
    size_t head_ = 0, opened_ = 0, turn_ = 0;
    uint64_t patience_;  // looks before a question is asked in another order
    bool abandoned_ = false, is_shuffled_ = false;
};

}  // namespace polvet
