// The queue, the rush and the undo log of mdp/risk_values.h.
#include "mdp/risk_values.h"

#include <numeric>

namespace polvet {
namespace {

constexpr uint64_t RUSH = 4'096;       // branches, and a share of all
constexpr int SWEEPS = 30, TIMES = 3;  // evaluations of one state in one rush: cycles must not keep it

}  // namespace

RiskValues::RiskValues(const OptionModel& model_, std::vector<uint32_t> initial_, const uint32_t* rank_)
    : model(model_),
      initial(std::move(initial_)),
      rank(rank_),
      permitted(model.options(), 0),
      reached(model.mdp.states, 0),
      fresh(model.mdp.states, 0),
      value(model.mdp.states, 0.0),
      back_(model.mdp),
      rush_(RUSH + model.mdp.branch_start[model.choices()] / 16),
      option_of_(model.choices()),
      queued_(model.mdp.states, 0),
      is_initial_(model.mdp.states, 0),
      times_(model.mdp.states, 0),
      hope_(model.mdp.states, 0.0),
      stamp_(model.mdp.states, 0) {
    for (uint64_t o = 0; o < model.options(); ++o)
        for (uint64_t c = model.option_choice[o]; c < model.option_choice[o + 1]; ++c) option_of_[c] = uint32_t(o);
    for (const uint32_t s : initial) is_initial_[s] = 1;
    weigh();
}

inline uint32_t RiskValues::pop() {
    const uint32_t s = queue_.front().state;
    std::pop_heap(queue_.begin(), queue_.end(), later);
    queue_.pop_back();
    queued_[s] = 0;
    return s;
}

inline double RiskValues::backup(uint32_t s) {
    double x = 0;
    if (fresh[s]) {
        x = INFINITE;
        for (uint64_t o = model.first(s); o < model.first(s + 1); ++o) x = std::min(x, worth(o));
        return x == INFINITE ? 0.0 : x;
    }
    for (uint64_t o = model.first(s); o < model.first(s + 1); ++o)
        if (permitted[o]) x = std::max(x, worth(o));
    return x;
}

// About how often a run visits each state that takes any of its options with equal chance: what an increase there may count for at the
// initial states. A guide, not a bound; states are passed through top down, so that without cycles once is enough.
void RiskValues::weigh() {
    weight_.assign(model.mdp.states, 0.0);
    std::vector<double> arriving(model.mdp.states, 0.0);
    top_down.resize(model.mdp.states);
    std::iota(top_down.begin(), top_down.end(), 0u);
    std::stable_sort(top_down.begin(), top_down.end(), [&](uint32_t a, uint32_t b) { return rank[a] > rank[b]; });
    for (const uint32_t s : initial) arriving[s] = 1.0 / double(initial.size());
    double rest = 1;
    for (int sweep = 0; sweep < SWEEPS && rest > 1e-6; ++sweep) {
        rest = 0;
        for (const uint32_t s : top_down) {
            const double here = std::exchange(arriving[s], 0.0);
            if (here == 0) continue;
            weight_[s] += here;
            const double share = here / double(model.mdp.choice_start[s + 1] - model.mdp.choice_start[s]);
            for (uint64_t b = model.mdp.first_branch(s); b < model.mdp.last_branch(s); ++b) {
                arriving[model.mdp.target[b]] += share * model.mdp.probability[b];
                if (rank[model.mdp.target[b]] >= rank[s]) rest += share * model.mdp.probability[b];
            }
        }
    }
    for (double& weight : weight_) weight = std::max(weight, 1e-250);
}

// Evaluate the state again; returns by how much it rose, 0 where that is not worth while.
inline double RiskValues::lift(uint32_t s) {
    const double x = backup(s);
    if (!(x > value[s] + (settled * value[s] + 1e-3 * settled))) return 0;
    if (stamp_[s] != epoch_) {
        stamp_[s] = epoch_;
        log_.push_back({s, value[s]});
    }
    return x - std::exchange(value[s], x);
}

template <class F> void RiskValues::each_user(uint32_t s, F&& f) {
    for (uint64_t i = back_.start[s]; i < back_.start[s + 1]; ++i) {
        const uint32_t c = back_.choice[i], p = back_.owner[c];
        if (fresh[p] || (reached[p] && permitted[option_of_[c]])) f(p, c);
    }
}

// Follow the increases that promise most at the initial states, for a while. What is queued stays queued: nothing is settled by this.
bool RiskValues::rushes_above(double bound) {
    hot_.clear();
    for (const Waiting& one : queue_) hot_.push_back({weight_[one.state], one.state});
    for (const auto& [hope, s] : hot_) hope_[s] = hope;
    std::make_heap(hot_.begin(), hot_.end());
    bool above = false;
    while (!hot_.empty() && work_ < rush_ && !above) {
        const auto [hope, s] = hot_.front();
        std::pop_heap(hot_.begin(), hot_.end());
        hot_.pop_back();
        if (hope < hope_[s]) continue;  // it is there once more, with more hope
        hope_[s] = 0;
        if (model.ends(s) || ++times_[s] > TIMES) continue;
        touched_.push_back(s);
        const double rise = lift(s);
        if (rise == 0) continue;
        above = is_initial_[s] && value[s] > bound;
        each_user(s, [&](uint32_t p, uint32_t c) {
            push(p);
            double chance = 0;
            for (uint64_t b = model.mdp.branch_start[c]; b < model.mdp.branch_start[c + 1]; ++b)
                if (model.mdp.target[b] == s) chance += model.mdp.probability[b];
            const double more = weight_[p] * chance * rise;
            if (more <= hope_[p]) return;
            hope_[p] = more;
            hot_.push_back({more, p});
            std::push_heap(hot_.begin(), hot_.end());
        });
    }
    for (const auto& [hope, s] : hot_) hope_[s] = 0;
    for (const uint32_t s : touched_) times_[s] = 0;
    touched_.clear();
    return above;
}

// Evaluate bottom up, every state once at most: without cycles this settles everything, else it brings the increases up to the initial states.
bool RiskValues::sweeps_above(double bound, Poll& poll) {
    bool above = false;
    while (!queue_.empty() && !above && !poll.expired(1)) {
        const uint32_t s = pop();
        times_[s] = 1;
        touched_.push_back(s);
        if (model.ends(s) || lift(s) == 0) continue;
        above = is_initial_[s] && value[s] > bound;
        each_user(s, [&](uint32_t p, uint32_t) {
            if (times_[p]) again_.push_back(p);
            else push(p);
        });
    }
    for (const uint32_t s : touched_) times_[s] = 0;
    touched_.clear();
    for (const uint32_t s : again_) push(s);
    again_.clear();
    return above;
}

RiskValues::Flow RiskValues::propagate(double bound, uint64_t cap, Poll& poll) {
    work_ = 0;
    Flow flow = rushes_above(bound) || sweeps_above(bound, poll) ? Flow::ABOVE : Flow::SETTLED;
    while (!queue_.empty() && flow == Flow::SETTLED) {
        const uint32_t s = pop();
        if (model.ends(s) || lift(s) == 0) continue;
        each_user(s, [&](uint32_t p, uint32_t) { push(p); });
        if (is_initial_[s] && value[s] > bound) flow = Flow::ABOVE;
        else if (work_ > cap || poll.expired(1)) flow = Flow::CAP;
    }
    for (const Waiting& one : queue_) queued_[one.state] = 0;
    queue_.clear();
    spent += work_;
    return flow;
}

void RiskValues::undo(size_t to) {
    while (log_.size() > to) {
        value[log_.back().first] = log_.back().second;
        log_.pop_back();
    }
    ++epoch_;
}

void RiskValues::forget() {
    ++generation;
    log_.clear();
    ++epoch_;
}

}  // namespace polvet
