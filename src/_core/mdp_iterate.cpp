// Sound bounds for one component: propose a solution by whatever converges fast, then prove bounds around it.
//
// Source   Hartmanns & Kaminski, Optimistic Value Iteration, CAV 2020: guess the upper bound, verify it by induction.
// Differs  both bounds are guessed and verified, so the proposal may come from anywhere (Gauss-Seidel sweeps, extrapolation, policy iteration
//          with a Krylov solver). The guess is the proposal plus a multiple of a drift vector y = x + P y where convergence is slow, so one
//          sweep proves it. Where no guess can be proved, interval iteration from trivial bounds takes over.
// SOUND    (1) u with F(u) <= u bounds the least fixed point from above (Park). (2) l with F(l) >= l bounds the greatest fixed point from below;
//          the system has one fixed point only, because the caller removed end components (for minimal rewards: those of reward 0).
//          (3) A sweep in place that only lowers u proves (1) for the final u, since F is monotone; dually for l. (4) F is evaluated with
//          outward widening (mdp.hpp), so the inequalities hold in exact arithmetic.
// Cost     one sweep = one pass over the branches; the number of sweeps is in Statistics.
#include <algorithm>
#include <cmath>

#include "mdp.hpp"

namespace polvet::mdp {

void System::clear() {
    choice_start.assign(1, 0);
    branch_start.assign(1, 0);
    target.clear();
    origin.clear();
    probability.clear();
    middle.clear();
    terms.clear();
    constant.clear();
}

namespace {

template <bool MAX>
class Component {
  public:
    Component(const System& system, double gap, double ceiling, Statistics& statistics, Poll& poll)
        : s_(system), n_(system.nodes()), gap_(gap), ceiling_(ceiling), statistics_(statistics), poll_(poll) {}

    bool solve(std::vector<Bounds>& value, std::vector<u32>& best) {
        best.resize(n_);
        for (u32 v = 0; v < n_; ++v) best[v] = s_.choice_start[v];
        value.assign(n_, {0, ceiling_});
        for (const Bounds& c : s_.constant)
            if (c.hi == INFINITE) return give_up();  // a limit was reached below
        if (poll_.over()) return give_up();
        double exits = 0;  // relative gap of what lies below
        for (const Bounds& c : s_.constant)
            if (c.hi > 0 && c.lo > 0) exits = std::max(exits, (c.hi - c.lo) / c.lo);
        const double wanted = exits + gap_;
        double tolerance = gap_ / 128;
        bool slow = false;
        x_.assign(n_, 0.0);
        for (int attempt = 0; attempt < 4; ++attempt) {
            slow |= propose(tolerance, best);
            if (poll_.over()) break;
            guess(exits, slow, value, best);
            if (prove(value, best, wanted, attempt == 3 ? 400 : slow ? 12 : 40)) return true;
            if (poll_.over()) break;
            tolerance /= 16;
        }
        value.assign(n_, {0, ceiling_});
        if (poll_.over() || ceiling_ == INFINITE) return give_up();
        if (interval(value, best, wanted)) return true;
        return give_up();
    }

  private:
    bool give_up() {
        ++statistics_.unsolved;
        return false;
    }

    double row(u32 c, const std::vector<double>& x) const {
        double sum = s_.middle[c];
        for (u32 b = s_.branch_start[c]; b < s_.branch_start[c + 1]; ++b) sum += s_.probability[b] * x[s_.target[b]];
        return sum;
    }

    // One Gauss-Seidel sweep over the proposal; returns the greatest relative change.
    double sweep(bool forward) {
        double change = 0;
        for (u32 i = 0; i < n_; ++i) {
            const u32 v = forward ? i : n_ - 1 - i;
            u32 c = s_.choice_start[v];
            const u32 last = s_.choice_start[v + 1];
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

    // Sets the proposal x; returns whether sweeps converged slowly (then `policy` is the one the proposal belongs to).
    // Sweeps go back and forth in pairs; every eighth pair the dominant mode is extrapolated (Aitken). Where even that would take longer than
    // policy iteration, that takes over.
    bool propose(double tolerance, std::vector<u32>& policy) {
        const double patience = s_.origin.size() > n_ ? 80 : 12;  // cycles of eight pairs that cost as much as policy iteration does
        double before = INFINITE, cycle = INFINITE;
        std::vector<double> first, second;
        int calm = 0;
        for (int k = 1;; ++k) {
            const int phase = k % 8;
            if (phase == 6) first = x_;
            if (phase == 7) second = x_;
            const double change = std::max(sweep(false), sweep(true));
            if (poll_.over() || change == 0) return false;
            const double rate = before < INFINITE ? std::min(change / before, 0.9999999) : 0.5;
            before = change;
            calm = change * std::max(rate / (1 - rate), 0.1) < tolerance ? calm + 1 : 0;
            if (calm >= 2) {
                greedy(policy, 0);
                return k > 40;
            }
            if (phase == 7 && k > 8 && calm == 0) {
                // x_ holds pair 7, second pair 6, first pair 5
                double old = 0, both = 0;
                for (u32 v = 0; v < n_; ++v) {
                    const double a = second[v] - first[v], b = x_[v] - second[v];
                    old += a * a;
                    both += a * b;
                }
                const double mode = old > 0 ? both / old : 0;
                if (mode > 0.3 && mode < 1 - 1e-9) {
                    const double step = mode / (1 - mode);
                    for (u32 v = 0; v < n_; ++v) x_[v] = std::max(0.0, x_[v] + step * (x_[v] - second[v]));
                }
                const double progress = std::log(cycle / change), left = std::log(change / tolerance) / std::max(progress, 1e-9);
                if ((k > 24 && left > patience) || k > 16 * patience) {
                    if (improve(policy)) return true;
                    if (poll_.over()) return false;
                }
                cycle = change;
                before = INFINITE;
            }
        }
    }

    // Moves to better choices, where they are better by the margin; returns how many states moved.
    u32 greedy(std::vector<u32>& policy, double margin) const {
        u32 moved = 0;
        for (u32 v = 0; v < n_; ++v) {
            double best = row(policy[v], x_);
            const u32 old = policy[v];
            for (u32 c = s_.choice_start[v]; c < s_.choice_start[v + 1]; ++c) {
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
    bool improve(std::vector<u32>& policy) {
        greedy(policy, 0);
        std::vector<double> right(n_), x = x_;
        double precision = 1e-5;
        for (int round = 0; round < 200; ++round) {
            for (u32 v = 0; v < n_; ++v) right[v] = s_.middle[policy[v]];
            if (!propose_solution(s_, policy, right, precision, x, poll_)) return false;
            for (double y : x)
                if (!(y >= 0) || y > 1e300) return false;
            x_ = x;
            for (int i = 0; i < 10; ++i) sweep(i % 2 == 0);  // several states improve before the next solution is needed
            const u32 moved = greedy(policy, precision < 1e-8 ? 1e-11 : precision);
            x = x_;
            if (moved == 0) {
                if (precision < 1e-12) break;
                precision = 1e-13;
            }
        }
        for (int i = 0; i < 2; ++i) sweep(i % 2 == 0);
        return true;
    }

    void guess(double exits, bool slow, std::vector<Bounds>& value, const std::vector<u32>& policy) {
        const double spread = exits / 2 * (1 + 1e-6);
        if (slow) {
            std::vector<double> y = x_;
            std::vector<double> right(n_);
            double largest = 0;
            for (u32 v = 0; v < n_; ++v) right[v] = x_[v];
            bool good = propose_solution(s_, policy, right, 1e-3, y, poll_);
            for (u32 v = 0; v < n_ && good; ++v) {
                good = y[v] >= x_[v] * 0.5 && y[v] < 1e300;
                if (x_[v] > 0) largest = std::max(largest, y[v] / x_[v]);
            }
            if (good && largest > 0) {
                const double scale = gap_ / 3 / largest;
                for (u32 v = 0; v < n_; ++v) value[v] = {x_[v] * (1 - spread) - scale * y[v], x_[v] * (1 + spread) + scale * y[v]};
                return;
            }
        }
        const double e = spread + gap_ / 3;
        for (u32 v = 0; v < n_; ++v) value[v] = {x_[v] * (1 - e), x_[v] * (1 + e)};
    }

    // Sweeps both guesses until each is proved and they are close. Bounds that are proved only get better.
    bool prove(std::vector<Bounds>& value, std::vector<u32>& best, double wanted, int sweeps) {
        bool low = false, high = false, forward = false;
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

    double pair_sweep(bool forward, std::vector<Bounds>& value, std::vector<u32>& best, bool low, bool high, bool& rises, bool& falls) {
        double width = 0;
        for (u32 i = 0; i < n_; ++i) {
            const u32 v = forward ? i : n_ - 1 - i;
            Bounds opt{};
            u32 chosen = NONE;
            for (u32 c = s_.choice_start[v]; c < s_.choice_start[v + 1]; ++c) {
                double lo = s_.constant[c].lo, hi = s_.constant[c].hi;
                for (u32 b = s_.branch_start[c]; b < s_.branch_start[c + 1]; ++b) {
                    const Bounds x = value[s_.target[b]];
                    lo += s_.probability[b] * x.lo;
                    hi += s_.probability[b] * x.hi;
                }
                lo = down(lo, s_.terms[c]);
                hi = up(hi, s_.terms[c]);
                if (chosen == NONE) {
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

    bool interval(std::vector<Bounds>& value, std::vector<u32>& best, double wanted) {
        bool forward = false;
        double before = INFINITE;
        int stuck = 0;
        for (;; forward = !forward) {
            bool rises = true, falls = true;
            const double width = pair_sweep(forward, value, best, true, true, rises, falls);
            if (width <= wanted) return true;
            if (poll_.over()) return false;
            stuck = width < before ? 0 : stuck + 1;
            if (stuck > 20000) return false;  // rounding eats the rest: the bounds are sound, the gap is not reached
            before = width;
        }
    }

    const System& s_;
    const u32 n_;
    const double gap_, ceiling_;
    Statistics& statistics_;
    Poll& poll_;
    std::vector<double> x_;
};

}  // namespace

bool iterate(const System& system, bool maximise, double gap, double ceiling, std::vector<Bounds>& value, std::vector<u32>& best, Statistics& statistics, Poll& poll) {
    return maximise ? Component<true>(system, gap, ceiling, statistics, poll).solve(value, best)
                    : Component<false>(system, gap, ceiling, statistics, poll).solve(value, best);
}

// Preconditioned BiCGStab (van der Vorst 1992) on I - P for one policy; the preconditioner is an incomplete LU factorisation without fill-in,
// which exists for such M-matrices. Rows are stored without the unit diagonal, columns ascending.
bool propose_solution(const System& s, const std::vector<u32>& policy, const std::vector<double>& right, double tolerance, std::vector<double>& x, Poll& poll) {
    const u32 n = s.nodes();
    std::vector<u32> start(n + 1, 0), column;
    std::vector<double> entry;
    std::vector<std::pair<u32, double>> row;
    for (u32 v = 0; v < n; ++v) {
        row.clear();
        for (u32 b = s.branch_start[policy[v]]; b < s.branch_start[policy[v] + 1]; ++b) row.emplace_back(s.target[b], -s.probability[b]);
        std::sort(row.begin(), row.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
        for (const auto& [t, q] : row) {
            if (column.size() > start[v] && column.back() == t) {
                entry.back() += q;
            } else {
                column.push_back(t);
                entry.push_back(q);
            }
        }
        start[v + 1] = static_cast<u32>(column.size());
    }
    // ILU(0), rows top down: `factor` holds L (strictly lower, unit diagonal) and U (strictly upper), `pivot` the diagonal of U.
    std::vector<double> factor = entry, pivot(n, 1.0), work(n, 0.0);
    std::vector<u32> where(n, NONE);
    for (u32 v = 0; v < n; ++v) {
        for (u32 b = start[v]; b < start[v + 1]; ++b) where[column[b]] = b;
        for (u32 b = start[v]; b < start[v + 1] && column[b] < v; ++b) {
            const u32 k = column[b];
            const double l = factor[b] / pivot[k];
            factor[b] = l;
            for (u32 d = start[k]; d < start[k + 1]; ++d) {
                if (column[d] <= k) continue;
                if (column[d] == v)
                    pivot[v] -= l * factor[d];
                else if (where[column[d]] != NONE)
                    factor[where[column[d]]] -= l * factor[d];
            }
        }
        for (u32 b = start[v]; b < start[v + 1]; ++b) where[column[b]] = NONE;
        if (!(std::abs(pivot[v]) > 1e-14)) pivot[v] = 1e-14;
    }
    const auto precondition = [&](const std::vector<double>& in, std::vector<double>& out) {
        for (u32 v = 0; v < n; ++v) {
            double sum = in[v];
            for (u32 b = start[v]; b < start[v + 1] && column[b] < v; ++b) sum -= factor[b] * out[column[b]];
            out[v] = sum;
        }
        for (u32 v = n; v-- > 0;) {
            double sum = out[v];
            for (u32 b = start[v + 1]; b-- > start[v] && column[b] > v;) sum -= factor[b] * out[column[b]];
            out[v] = sum / pivot[v];
        }
    };
    const auto multiply = [&](const std::vector<double>& in, std::vector<double>& out) {
        for (u32 v = 0; v < n; ++v) {
            double sum = in[v];
            for (u32 b = start[v]; b < start[v + 1]; ++b) sum += entry[b] * in[column[b]];
            out[v] = sum;
        }
    };
    const auto dot = [n](const std::vector<double>& a, const std::vector<double>& b) {
        double sum = 0;
        for (u32 v = 0; v < n; ++v) sum += a[v] * b[v];
        return sum;
    };
    std::vector<double> r(n), p(n, 0.0), q(n, 0.0), y(n), z(n), t(n);
    multiply(x, r);
    for (u32 v = 0; v < n; ++v) r[v] = right[v] - r[v];
    const std::vector<double> shadow = r;
    const double goal = tolerance * std::sqrt(dot(right, right));
    double rho = 1, alpha = 1, omega = 1, smallest = INFINITE;
    int since = 0;
    for (int k = 0; k < 5000; ++k) {
        const double norm = std::sqrt(dot(r, r));
        if (norm <= goal) return true;
        if (!(norm < INFINITE)) return false;
        if (norm < 0.9 * smallest) {
            smallest = norm;
            since = 0;
        } else if (++since > 300) {
            return smallest <= goal * 1e3;
        }
        const double previous = rho;
        rho = dot(shadow, r);
        if (rho == 0) return false;
        const double beta = k == 0 ? 0 : rho / previous * (alpha / omega);
        for (u32 v = 0; v < n; ++v) p[v] = r[v] + beta * (p[v] - omega * q[v]);
        precondition(p, y);
        multiply(y, q);
        alpha = rho / dot(shadow, q);
        for (u32 v = 0; v < n; ++v) r[v] -= alpha * q[v];
        precondition(r, z);
        multiply(z, t);
        const double tt = dot(t, t);
        omega = tt > 0 ? dot(t, r) / tt : 0;
        for (u32 v = 0; v < n; ++v) {
            x[v] += alpha * y[v] + omega * z[v];
            r[v] -= omega * t[v];
        }
        if (omega == 0) return std::sqrt(dot(r, r)) <= goal;
        if (poll.expired(4 * column.size() + 8 * n)) return false;
    }
    return false;
}

}  // namespace polvet::mdp
