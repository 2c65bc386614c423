// Values within a bound: so many steps, or so much reward.
//
// Source   Baier & Katoen, Principles of Model Checking, section 10.6 (step bounds); Hartmanns, Junges, Katoen & Quatmann, Multi-cost Bounded
//          Reachability in MDP, TACAS 2018: remaining reward levels are solved one after the other instead of unfolding the model.
// Differs  both bounds are carried along with outward widening, so k steps are exactly k steps; a level whose steps without reward are
//          acyclic is solved in one pass in a remembered order.
// Cost     steps: one pass per step. Reward: one pass per level, and (largest reward + 1) vectors of 16 bytes per state.
#include <algorithm>
#include <cstring>

#include "mdp/bounded.h"

namespace polvet {
namespace {

Bounds worth(const View& m, uint64_t c, double reward, const Bounds* x) {
    const uint64_t first = m.branch_start[c], last = m.branch_start[c + 1];
    if (last - first == 1) {
        const Bounds v = x[m.target[first]];
        return reward == 0.0 ? v : Bounds{down(v.lo + reward, 1), up(v.hi + reward, 1)};
    }
    double lo = reward, hi = reward;
    for (uint64_t b = first; b < last; ++b) {
        const Bounds v = x[m.target[b]];
        lo += m.probability[b] * v.lo;
        hi += m.probability[b] * v.hi;
    }
    if (hi == 0.0) {
        bool zero = true;
        for (uint64_t b = first; b < last; ++b) zero &= x[m.target[b]].hi == 0.0;
        if (zero) return {0, 0};
    }
    const double terms = double(last - first);
    return {down(lo, terms), up(hi, terms)};
}

void better(Bounds& best, const Bounds& v, bool maximise, bool first) {
    if (first) best = v;
    else if (maximise) best = {std::max(best.lo, v.lo), std::max(best.hi, v.hi)};
    else best = {std::min(best.lo, v.lo), std::min(best.hi, v.hi)};
}

}  // namespace

uint64_t solve_steps(const Problem& problem, uint64_t steps, Bounds* value, Poll& poll) {
    const View& m = problem.model;
    std::vector<Bounds> other(value, value + m.states);
    std::vector<uint32_t> open;
    for (uint32_t s = 0; s < m.states; ++s)
        if (problem.stop[s] == 0 && m.choice_start[s] < m.choice_start[s + 1]) open.push_back(s);
    Bounds *now = value, *next = other.data();
    uint64_t done = 0;
    for (; done < steps; ++done) {
        bool changed = false;
        for (uint32_t s : open) {
            Bounds best{};
            for (uint64_t c = m.choice_start[s]; c < m.choice_start[s + 1]; ++c)
                better(best, worth(m, c, problem.reward ? problem.reward[c] : 0.0, now), problem.maximise, c == m.choice_start[s]);
            if (problem.reward == nullptr && best.hi > 1.0) best.hi = 1.0;
            changed |= best.lo != now[s].lo || best.hi != now[s].hi;
            next[s] = best;
        }
        std::swap(now, next);
        poll.expired(1 + m.branch_start[m.choice_start[m.states]]);
        if (!changed) {
            done = steps;  // SOUND: a pass without change repeats itself for all remaining steps
            break;
        }
        if (poll.over()) {
            ++done;
            break;
        }
    }
    if (now != value) std::memcpy(value, now, sizeof(Bounds) * m.states);
    return done;
}

// Level j is the reward that is left to spend ("at most") or still to be earned ("at least"). At most: level j looks at level j - amount, and a
// choice that costs more is worth 0. At least: level j looks at level max(0, j - amount); on level 0 the goal counts, above it does not.
uint64_t solve_reward_bounded(const Problem& problem, const uint8_t* stop, const uint32_t* amount, uint64_t bound, bool at_least,
                              Bounds* value, Statistics& statistics, Poll& poll) {
    const View& m = problem.model;
    const uint64_t choices = m.choice_start[m.states];
    uint64_t largest = 0;
    for (uint64_t c = 0; c < choices; ++c) largest = std::max<uint64_t>(largest, amount[c]);
    const uint64_t ring = std::min<uint64_t>(largest, bound) + 1;
    // The model of one level: choices without reward keep their branches, the others are cut off and get their worth from lower levels.
    std::vector<uint64_t> branch_start(choices + 1, 0);
    std::vector<uint32_t> target;
    std::vector<double> probability;
    for (uint64_t c = 0; c < choices; ++c) {
        if (amount[c] == 0)
            for (uint64_t b = m.branch_start[c]; b < m.branch_start[c + 1]; ++b) {
                target.push_back(m.target[b]);
                probability.push_back(m.probability[b]);
            }
        branch_start[c + 1] = target.size();
    }
    target.push_back(0);
    probability.push_back(0);
    std::vector<Bounds> cut(choices, Bounds{-1, -1});
    Problem level = problem;
    level.model = {m.states, m.choice_start, branch_start.data(), target.data(), probability.data()};
    level.cut = cut.data();
    level.stop = stop;
    level.reward = nullptr;
    level.gap = problem.gap / double(bound + 1);
    std::vector<uint32_t> roots(m.states), choice(m.states), order;
    for (uint32_t s = 0; s < m.states; ++s) roots[s] = s;
    std::vector<std::vector<Bounds>> history(ring);
    const auto search = [&](const Problem& here, std::vector<Bounds>& x) {
        Statistics figures;
        x.assign(m.states, Bounds{0, 1});
        solve_topologically(here, roots.data(), roots.size(), x.data(), choice.data(), figures, poll);
        statistics.sweeps += figures.sweeps;
        statistics.components += figures.components;
        statistics.unsolved += figures.unsolved;
        statistics.largest = std::max(statistics.largest, figures.largest);
        return figures.components == 0 && !figures.loops;
    };
    uint64_t j = 0;
    if (at_least) {
        Problem plain = problem;
        plain.gap = level.gap;
        search(plain, history[0]);
        j = 1;
    }
    bool acyclic = false, first = true;
    for (; j <= bound && !poll.over(); ++j) {
        std::vector<Bounds>& x = history[j % ring];
        for (uint32_t s = 0; s < m.states; ++s) {
            if (stop[s] != 0) continue;
            for (uint64_t c = m.choice_start[s]; c < m.choice_start[s + 1]; ++c) {
                if (amount[c] == 0) continue;
                if (amount[c] > j && !at_least) {
                    cut[c] = {0, 0};
                } else {
                    const uint64_t below = amount[c] > j ? 0 : j - amount[c];
                    cut[c] = worth(m, c, 0.0, history[below % ring].data());
                    if (cut[c].hi > 1) cut[c].hi = 1;
                }
            }
            poll.expired(4);
        }
        if (acyclic) {
            x.resize(m.states);
            for (uint32_t s = 0; s < m.states; ++s)
                if (stop[s] != 0) x[s] = stop[s] == 1 ? Bounds{1, 1} : Bounds{0, 0};
            for (uint32_t s : order) {
                Bounds best{0, 0};
                for (uint64_t c = m.choice_start[s]; c < m.choice_start[s + 1]; ++c)
                    better(best, amount[c] ? cut[c] : worth(level.model, c, 0.0, x.data()), problem.maximise, c == m.choice_start[s]);
                if (best.hi > 1) best.hi = 1;
                x[s] = best;
            }
        } else {
            if (first) level.order = &order;
            acyclic = search(level, x) && first;
            level.order = nullptr;
            first = false;
        }
    }
    if (poll.over()) {
        statistics.limit = true;
        return j;
    }
    std::memcpy(value, history[bound % ring].data(), sizeof(Bounds) * m.states);
    return bound + 1;
}

}  // namespace polvet
