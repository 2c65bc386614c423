// Sound bounds for one component: propose a solution by whatever converges fast, then prove bounds around it.
//
// Source   Hartmanns & Kaminski, Optimistic Value Iteration, CAV 2020: guess the upper bound, verify it by induction.
// Differs  both bounds are guessed and verified, so the proposal may come from anywhere (Gauss-Seidel sweeps, extrapolation, policy iteration
//          with a Krylov solver). The guess is the proposal plus a multiple of a drift vector y = x + P y where convergence is slow, so one
//          sweep proves it. Where no guess can be proved, interval iteration from trivial bounds takes over.
// SOUND    (1) u with F(u) <= u bounds the least fixed point from above (Park). (2) l with F(l) >= l bounds the greatest fixed point from below;
//          the system has one fixed point only, because the caller removed end components (for minimal rewards: those of reward 0).
//          (3) A sweep in place that only lowers u proves (1) for the final u, since F is monotone; dually for l. (4) F is evaluated with
//          outward widening (mdp/mdp.h), so the inequalities hold in exact arithmetic.
// Cost     one sweep = one pass over the branches; the number of sweeps is in Statistics.
#include <algorithm>
#include <cmath>

#include "mdp/mdp.h"

namespace polvet {

void Equations::clear() {
    choice_start.assign(1, 0);
    branch_start.assign(1, 0);
    target.clear();
    origin.clear();
    probability.clear();
    middle.clear();
    terms.clear();
    leave.clear();
    constant.clear();
}

namespace {

template <bool MAX> class Component {
public:
    Component(const Equations& system, double gap, double ceiling, Statistics& statistics, Poll& poll)
        : s_(system), n_(system.nodes()), gap_(gap), ceiling_(ceiling), statistics_(statistics), poll_(poll) {}

    bool solve(std::vector<Bounds>& value, std::vector<uint32_t>& best) {
        best.resize(n_);
        for (uint32_t v = 0; v < n_; ++v) best[v] = s_.choice_start[v];
        value.assign(n_, {0, ceiling_});
        for (const Bounds& c : s_.constant)
            if (c.hi == INFINITE) return give_up();  // a limit was reached below
        if (poll_.over()) return give_up();
        double exits = 0;  // relative gap of what lies below
        for (const Bounds& c : s_.constant)
            if (c.hi > 0 && c.lo > 0) exits = std::max(exits, (c.hi - c.lo) / c.lo);
        const double wanted = exits + gap_;
        double tolerance = gap_ / 128;
        x_.assign(n_, 0.0);
        for (int attempt = 0; attempt < 4; ++attempt) {
            propose(tolerance, best);
            if (poll_.over()) break;
            guess(exits, value, best);
            if (prove(value, best, wanted, attempt == 3 ? 400 : 12)) return true;
            if (poll_.over()) break;
            tolerance /= 16;
        }
        value.assign(n_, {0, ceiling_});
        if (poll_.over()) return give_up();
        if (ceiling_ == INFINITE && !widen(value, best)) return give_up();
        return interval(value, best, wanted) || give_up();
    }

private:
    bool give_up() {
        ++statistics_.unsolved;
        return false;
    }

    double row(uint32_t c, const std::vector<double>& x) const {
        double sum = s_.middle[c];
        for (uint32_t b = s_.branch_start[c]; b < s_.branch_start[c + 1]; ++b) sum += s_.probability[b] * x[s_.target[b]];
        return sum;
    }

    // One Gauss-Seidel sweep over the proposal; returns the greatest relative change.
    double sweep(bool forward) {
        double change = 0;
        for (uint32_t i = 0; i < n_; ++i) {
            const uint32_t v = forward ? i : n_ - 1 - i;
            uint32_t c = s_.choice_start[v];
            const uint32_t last = s_.choice_start[v + 1];
            double best = row(c, x_);
            while (++c < last) {
                const double y = row(c, x_);
                if (MAX ? y > best : y < best) best = y;
            }
            const double d = std::abs(best - x_[v]);
            if (d > change * best) change = best > 0 ? d / best : INFINITE;
            x_[v] = best;
        }
        ++statistics_.sweeps;
        poll_.expired(s_.target.size() + n_);
        return change;
    }

    // Sets the proposal x and the policy it belongs to. Sweeps come in pairs; every eighth pair the dominant mode is extrapolated (Aitken). Where
    // even that would take longer than policy iteration, that takes over.
    void propose(double tolerance, std::vector<uint32_t>& policy) {
        // How many cycles of eight pairs cost about as much as policy iteration does.
        double patience = s_.origin.size() > n_ ? 80 : 12;
        if (n_ <= DIRECT) patience = std::min(patience, 2 + patience / 12 * n_ * n_ * n_ / (192.0 * double(s_.target.size() + n_)));
        double before = INFINITE, cycle = INFINITE;
        std::vector<double> first, second;
        int calm = 0;
        for (int k = 1;; ++k) {
            const int phase = k % 8;
            if (phase == 6) first = x_;
            if (phase == 7) second = x_;
            const double change = std::max(sweep(true), sweep(true));
            if (poll_.over()) return;
            const double rate = before < INFINITE ? std::min(change / before, 0.9999999) : 0.5;
            before = change;
            calm = change * std::max(rate / (1 - rate), 0.1) < tolerance ? calm + 1 : 0;
            // At rounding level, or after very many sweeps, the proposal is as good as it gets; the proof decides.
            if (calm >= 2 || change < 1e-14 || k > 20000) {
                greedy(policy, 0);
                return;
            }
            if (phase == 7 && k > 8 && calm == 0) {
                // x_ holds pair 7, second pair 6, first pair 5
                double old = 0, both = 0;
                for (uint32_t v = 0; v < n_; ++v) {
                    const double a = second[v] - first[v], b = x_[v] - second[v];
                    old += a * a;
                    both += a * b;
                }
                const double mode = old > 0 ? both / old : 0;
                if (mode > 0.3 && mode < 1 - 1e-9) {
                    const double step = mode / (1 - mode);
                    for (uint32_t v = 0; v < n_; ++v) x_[v] = std::max(0.0, x_[v] + step * (x_[v] - second[v]));
                }
                const double progress = std::log(cycle / change), left = std::log(change / tolerance) / std::max(progress, 1e-9);
                if ((k > 24 && left > patience) || k > 16 * patience) {
                    if (improve(policy) || poll_.over()) return;
                }
                cycle = change;
                before = INFINITE;
            }
        }
    }

    // Moves to better choices, where they are better by the margin; returns how many states moved.
    uint32_t greedy(std::vector<uint32_t>& policy, double margin) const {
        uint32_t moved = 0;
        for (uint32_t v = 0; v < n_; ++v) {
            double best = row(policy[v], x_);
            const uint32_t old = policy[v];
            for (uint32_t c = s_.choice_start[v]; c < s_.choice_start[v + 1]; ++c) {
                const double y = row(c, x_);
                if (MAX ? y > best * (1 + margin) : y < best * (1 - margin)) {
                    best = y;
                    policy[v] = c;
                }
            }
            moved += policy[v] != old;
        }
        return moved;
    }

    // Policy iteration from the current proposal, each policy solved by a Krylov method: roughly first, then exactly. Fails where the solver does.
    bool improve(std::vector<uint32_t>& policy) {
        greedy(policy, 0);
        std::vector<double> right(n_), x = x_;
        double precision = 1e-5;
        for (int round = 0; round < 200; ++round) {
            for (uint32_t v = 0; v < n_; ++v) right[v] = s_.middle[policy[v]];
            if (!propose_solution(s_, policy, right, precision, x, poll_)) return false;
            for (double y : x)
                if (!(y >= 0) || y > 1e300) return false;
            x_ = x;
            for (int i = 0; i < 10; ++i) sweep(true);  // several states improve before the next solution is needed
            const uint32_t moved = greedy(policy, precision < 1e-8 ? 1e-11 : precision);
            x = x_;
            if (moved == 0) {
                if (precision < 1e-12) break;
                precision = 1e-13;
            }
        }
        for (int i = 0; i < 2; ++i) sweep(true);
        return true;
    }

    // A vector y with y >= P y + x / 2 for the policy and, where sweeps suffice, for every choice that is nearly as good.
    bool drift(const std::vector<uint32_t>& policy, std::vector<double>& y) {
        std::vector<uint32_t> start(1, 0), near;
        for (uint32_t v = 0; v < n_; ++v) {
            near.push_back(policy[v]);
            for (uint32_t c = s_.choice_start[v]; c < s_.choice_start[v + 1]; ++c)
                if (c != policy[v] && std::abs(row(c, x_) - x_[v]) <= 1e-4 * x_[v]) near.push_back(c);
            start.push_back(uint32_t(near.size()));
        }
        y.assign(n_, 0.0);
        for (int k = 0; k < 64; ++k) {
            double change = 0;
            for (uint32_t v = 0; v < n_; ++v) {
                double most = 0;
                for (uint32_t i = start[v]; i < start[v + 1]; ++i) {
                    double sum = 0;
                    for (uint32_t b = s_.branch_start[near[i]]; b < s_.branch_start[near[i] + 1]; ++b)
                        sum += s_.probability[b] * y[s_.target[b]];
                    most = std::max(most, sum);
                }
                const double now = x_[v] + most;
                if (now - y[v] > change * x_[v]) change = (now - y[v]) / x_[v];
                y[v] = now;
            }
            poll_.expired(s_.target.size() / 2 + n_);
            if (k > 0 && change <= 0.4) return true;
        }
        return propose_solution(s_, policy, x_, 1e-3, y, poll_);
    }

    void guess(double exits, std::vector<Bounds>& value, const std::vector<uint32_t>& policy) {
        const double spread = exits / 2 * (1 + 1e-6);
        std::vector<double> y;
        double largest = 0;
        bool good = drift(policy, y);
        for (uint32_t v = 0; v < n_ && good; ++v) {
            good = y[v] >= x_[v] * 0.5 && y[v] < 1e300;
            if (x_[v] > 0) largest = std::max(largest, y[v] / x_[v]);
        }
        if (good && largest > 0) {
            const double scale = gap_ / 3 / largest;
            for (uint32_t v = 0; v < n_; ++v) value[v] = {x_[v] * (1 - spread) - scale * y[v], x_[v] * (1 + spread) + scale * y[v]};
            return;
        }
        const double e = spread + gap_ / 3;
        for (uint32_t v = 0; v < n_; ++v) value[v] = {x_[v] * (1 - e), x_[v] * (1 + e)};
    }

    // Sweeps both guesses until each is proved and they are close. Bounds that are proved only get better.
    bool prove(std::vector<Bounds>& value, std::vector<uint32_t>& best, double wanted, int sweeps) {
        bool low = false, high = false, forward = true;
        for (Bounds& b : value) b = {std::max(0.0, b.lo), std::min(b.hi, ceiling_)};
        for (int k = 0; k < sweeps; ++k, forward = !forward) {
            bool rises = true, falls = true;
            const double width = pair_sweep(forward, value, best, low, high, rises, falls);
            low |= rises;
            high |= falls;
            if (low && high && width <= wanted) return true;
            if (poll_.over()) return false;
        }
        return false;
    }

    double pair_sweep(bool forward, std::vector<Bounds>& value, std::vector<uint32_t>& best, bool low, bool high, bool& rises,
                      bool& falls) {
        double width = 0;
        for (uint32_t i = 0; i < n_; ++i) {
            const uint32_t v = forward ? i : n_ - 1 - i;
            Bounds opt{};
            uint32_t chosen = UNSET;
            for (uint32_t c = s_.choice_start[v]; c < s_.choice_start[v + 1]; ++c) {
                double lo = s_.constant[c].lo, hi = s_.constant[c].hi;
                for (uint32_t b = s_.branch_start[c]; b < s_.branch_start[c + 1]; ++b) {
                    const Bounds x = value[s_.target[b]];
                    lo += s_.probability[b] * x.lo;
                    hi += s_.probability[b] * x.hi;
                }
                lo = down(lo, s_.terms[c]);
                hi = up(hi, s_.terms[c]);
                if (chosen == UNSET) {
                    opt = {lo, hi};
                    chosen = c;
                } else if (MAX) {
                    if (lo > opt.lo) opt.lo = lo, chosen = c;
                    opt.hi = std::max(opt.hi, hi);
                } else {
                    if (hi < opt.hi) opt.hi = hi, chosen = c;
                    opt.lo = std::min(opt.lo, lo);
                }
            }
            if (opt.hi > ceiling_) opt.hi = ceiling_;
            Bounds& x = value[v];
            // SOUND: the recorded choice is the one whose row proved the bound on the optimising side, so the scheduler attains it.
            if (opt.lo >= x.lo) {
                if (MAX) best[v] = chosen;
                x.lo = opt.lo;
            } else {
                rises = false;
                if (!low) x.lo = opt.lo;
            }
            if (opt.hi <= x.hi) {
                if (!MAX) best[v] = chosen;
                x.hi = opt.hi;
            } else {
                falls = false;
                if (!high) x.hi = opt.hi;
            }
            if (x.hi > 1e-290) {
                const double d = x.hi - x.lo;
                if (d > width * x.lo) width = x.lo > 0 ? d / x.lo : INFINITE;
            }
        }
        ++statistics_.sweeps;
        poll_.expired(2 * s_.target.size() + n_);
        return width;
    }

    // Rewards have no upper bound to start from: try ever larger multiples of the proposal until one is proved.
    bool widen(std::vector<Bounds>& value, std::vector<uint32_t>& best) {
        for (double factor = 1 + 64 * gap_; factor < 1e9; factor = 1 + 8 * (factor - 1)) {
            for (uint32_t v = 0; v < n_; ++v) value[v] = {0, x_[v] * factor};
            bool high = false;
            for (int k = 0; k < 100 && !high; ++k) {
                bool rises = true, falls = true;
                pair_sweep(true, value, best, true, false, rises, falls);
                high = falls;
                if (poll_.over()) break;
            }
            if (high) return true;
        }
        value.assign(n_, {0, INFINITE});
        return false;
    }

    // Interval iteration: sound from the first sweep on, but as slow as the component; given up where it would take too long.
    bool interval(std::vector<Bounds>& value, std::vector<uint32_t>& best, double wanted) {
        double before = INFINITE;
        for (uint64_t k = 1;; ++k) {
            bool rises = true, falls = true;
            const double width = pair_sweep(k % 2 == 1, value, best, true, true, rises, falls);
            if (width <= wanted) return true;
            if (poll_.over()) return false;
            if (k % 4096 == 0) {
                if (before < INFINITE && std::log(width / wanted) > 1000 * std::log(before / width)) return false;
                before = width;
            }
        }
    }

    const Equations& s_;
    const uint32_t n_;
    const double gap_, ceiling_;
    Statistics& statistics_;
    Poll& poll_;
    std::vector<double> x_;
};

}  // namespace

bool iterate(const Equations& system, bool maximise, double gap, double ceiling, std::vector<Bounds>& value, std::vector<uint32_t>& best,
             Statistics& statistics, Poll& poll) {
    return maximise ? Component<true>(system, gap, ceiling, statistics, poll).solve(value, best)
                    : Component<false>(system, gap, ceiling, statistics, poll).solve(value, best);
}

}  // namespace polvet
