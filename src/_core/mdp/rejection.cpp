// A worst run, and what an option adds to it; see mdp/rejection.h.
#include "mdp/rejection.h"

#include <algorithm>

namespace polvet {
namespace {

constexpr double MARGIN = 1e-9;
constexpr double TIE = 1e-14;  // choices so near (relatively) to the worst one are followed, too

}  // namespace

Rejection::Rejection(RiskValues& risk) : risk_(risk), once_(risk.model.mdp.states, 1), arrival_(risk.model.mdp.states, 0.0) {
    const View& mdp = risk.model.mdp;
    const std::vector<uint32_t>& order = risk.top_down;
    for (uint32_t i = 0; i + 1 < mdp.states; ++i)
        if (risk.rank[order[i]] == risk.rank[order[i + 1]]) once_[order[i]] = once_[order[i + 1]] = 0;
    for (uint32_t s = 0; s < mdp.states; ++s)
        for (uint64_t b = mdp.first_branch(s); b < mdp.last_branch(s); ++b)
            if (mdp.target[b] == s) once_[s] = 0;
}

// A lower bound on the probability that a worst scheduler comes to each state, counted along states that a run visits once at most. Where several
// permitted choices are about as bad, it takes each as often: so it comes to all states that a worst scheduler may come to. `loss_` is what that costs.
void Rejection::follow_worst() {
    const OptionModel& model = risk_.model;
    const std::vector<double>& value = risk_.value;
    loss_ = 0;
    std::fill(arrival_.begin(), arrival_.end(), 0.0);
    uint32_t start = risk_.initial[0];
    for (const uint32_t s : risk_.initial)
        if (value[s] > value[start]) start = s;
    arrival_[start] = 1 - MARGIN;
    std::vector<std::pair<double, uint64_t>> choices;
    for (const uint32_t s : risk_.top_down) {
        if (arrival_[s] == 0 || model.ends(s) || !once_[s]) continue;
        choices.clear();
        double high = -1;
        for (uint64_t o = model.first(s); o < model.first(s + 1); ++o)
            for (uint64_t c = model.option_choice[o]; risk_.permitted[o] && c < model.option_choice[o + 1]; ++c)
                if (const double x = risk_.expected(c); x >= high * (1 - TIE)) choices.push_back({x, c}), high = std::max(high, x);
        std::erase_if(choices, [&](const auto& one) { return one.first < high * (1 - TIE); });
        const double share = arrival_[s] / double(choices.size());
        for (const auto& [x, c] : choices) {
            loss_ += share * std::max(0.0, value[s] - x);
            for (uint64_t b = model.mdp.branch_start[c]; b < model.mdp.branch_start[c + 1]; ++b)
                arrival_[model.mdp.target[b]] += share * model.mdp.probability[b];
        }
    }
}

// SOUND: along those choices the values fall by `loss_` on average in all, and what the option adds in its state, to which they come with at least
// `arrival_`, counts that much. The margins are far above what rounding may take in so many steps.
bool Rejection::excludes(uint32_t o, double bound) {
    if (generation_ != risk_.generation) {
        const uint64_t branches = risk_.model.mdp.branch_start[risk_.model.choices()];
        if (risk_.spent < followed_ + branches) return false;  // following costs as much as it saves
        follow_worst();
        followed_ = risk_.spent;
        generation_ = risk_.generation;
    }
    const uint32_t s = risk_.owner(o);
    const double more = risk_.worth(o) - risk_.value[s];
    return more > 0 && risk_.initial_value() * (1 - 1e-2 * MARGIN) - loss_ * (1 + MARGIN) + arrival_[s] * more * (1 - MARGIN) > bound;
}

}  // namespace polvet
