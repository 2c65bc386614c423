// What the permitted options risk in every state, and how that grows: values from below over predecessors, with an undo log.
//
// Source   Junges, Jansen, Dehnert, Topcu & Katoen, Safety-Constrained Reinforcement Learning for MDPs, TACAS 2016: `value` are the variables
//          p_s of constraint 4, `permitted` the variables y_s,a.
// Differs  a fresh state, which no permitted option reaches yet, is worth its least option, so that an addition is judged by what would come
//          with it. First it rushes: increases go first that count most at the initial states, so that a rejection seldom looks at more than
//          a few paths.
// Cost     a propagation costs what the increase touches, at most `cap` branches.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "mdp/bounded.h"
#include "mdp/options.h"

namespace polvet {

class RiskValues {
public:
    // `rank`: what lies further down has less; values of equal rank may wait for each other.
    RiskValues(const OptionModel& model, std::vector<uint32_t> initial, const uint32_t* rank);

    enum class Flow { SETTLED, ABOVE, CAP };
    // Evaluate what was pushed, and what that raises, until all is settled, an initial value is above the bound, or the cap is reached.
    Flow propagate(double bound, uint64_t cap, Poll& poll);
    void push(uint32_t s) {
        if (queued_[s]) return;
        queued_[s] = 1;
        queue_.push_back({rank[s], turn_++, s});
        std::push_heap(queue_.begin(), queue_.end(), later);
    }
    // What changes from here on is undone by `undo(mark())`; `forget` keeps all changes.
    size_t mark() {
        ++epoch_;
        return log_.size();
    }
    void undo(size_t to);
    void forget();

    double initial_value() const {
        double worst = 0;
        for (const uint32_t s : initial) worst = std::max(worst, value[s]);
        return worst;
    }
    uint32_t owner(uint64_t o) const { return back_.owner[model.option_choice[o]]; }
    // SOUND: rounded down, so by induction every value stays at or below the least fixed point.
    double worth(uint64_t o) {
        double worst = 0;
        for (uint64_t c = model.option_choice[o]; c < model.option_choice[o + 1]; ++c) worst = std::max(worst, expected(c));
        return worst;
    }
    double expected(uint64_t c) {
        double sum = 0;
        const uint64_t begin = model.mdp.branch_start[c], end = model.mdp.branch_start[c + 1];
        for (uint64_t b = begin; b < end; ++b) sum += model.mdp.probability[b] * value[model.mdp.target[b]];
        work_ += end - begin;
        return down(sum, double(end - begin));
    }

    const OptionModel model;
    const std::vector<uint32_t> initial;
    const uint32_t* rank;
    std::vector<uint32_t> top_down;                  // the states by descending rank
    std::vector<uint8_t> permitted, reached, fresh;  // per option; per state
    std::vector<double> value;
    double settled = 1e-13;              // relative: a smaller increase is not followed
    uint64_t spent = 0, generation = 0;  // branches looked at in all; how often changes were kept

private:
    struct Waiting {
        uint32_t rank;
        uint64_t turn;
        uint32_t state;
    };
    static bool later(const Waiting& a, const Waiting& b) { return a.rank != b.rank ? a.rank > b.rank : a.turn > b.turn; }
    uint32_t pop();
    double backup(uint32_t s);
    double lift(uint32_t s);
    template <class F> void each_user(uint32_t s, F&& f);
    void weigh();
    bool rushes_above(double bound);
    bool sweeps_above(double bound, Poll& poll);

    const BackwardIndex back_;
    const uint64_t rush_;
    uint64_t work_ = 0, epoch_ = 1, turn_ = 0;
    std::vector<uint32_t> option_of_, touched_, again_;
    std::vector<uint8_t> queued_, is_initial_, times_;
    std::vector<double> weight_, hope_;
    std::vector<std::pair<double, uint32_t>> hot_;  // a heap: what promises most goes first
    std::vector<uint64_t> stamp_;                   // the last part of the undo log that holds the state
    std::vector<std::pair<uint32_t, double>> log_;
    std::vector<Waiting> queue_;  // a heap: what lies further down settles first, the order of arrival among equals
};

}  // namespace polvet
