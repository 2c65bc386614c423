// Linear systems (I - P) x = b of one policy: proposals for mdp/iterate.cpp, so nothing here needs to be sound.
//
// Source   Grassmann, Taksar & Heyman, Regenerative Analysis and Steady State Distributions, OR 33, 1985: `eliminate` never subtracts, so it keeps
//          relative precision however slowly the component is left. van der Vorst, Bi-CGSTAB, 1992: `krylov`, preconditioned by ILU(0).
// Cost     eliminate: cubic, used up to DIRECT nodes. krylov: some passes per iteration, refined with the true residual.
#include <algorithm>
#include <cmath>

#include "mdp/mdp.h"

namespace polvet::mdp {
namespace {

bool eliminate(const System& s, const std::vector<u32>& policy, const std::vector<double>& right, std::vector<double>& x) {
    const u32 n = s.nodes();
    std::vector<double> p(static_cast<std::size_t>(n) * n, 0.0), leave(n), b = right, pivot(n);
    for (u32 v = 0; v < n; ++v) {
        leave[v] = s.leave[policy[v]];
        for (u32 i = s.branch_start[policy[v]]; i < s.branch_start[policy[v] + 1]; ++i) p[v * n + s.target[i]] += s.probability[i];
    }
    for (u32 k = n; k-- > 0;) {
        const double* from = &p[static_cast<std::size_t>(k) * n];
        double out = leave[k];
        for (u32 j = 0; j < k; ++j) out += from[j];
        if (!(out > 0)) return false;  // the policy never leaves
        pivot[k] = out;
        for (u32 i = 0; i < k; ++i) {
            double* to = &p[static_cast<std::size_t>(i) * n];
            if (to[k] == 0) continue;
            const double f = to[k] / out;
            for (u32 j = 0; j < k; ++j) to[j] += f * from[j];
            leave[i] += f * leave[k];
            b[i] += f * b[k];
        }
    }
    for (u32 k = 0; k < n; ++k) {
        double sum = b[k];
        for (u32 j = 0; j < k; ++j) sum += p[static_cast<std::size_t>(k) * n + j] * x[j];
        x[k] = sum / pivot[k];
    }
    return true;
}

// Rows are stored without the unit diagonal, columns ascending. The preconditioner exists for such M-matrices.
bool krylov(const System& s, const std::vector<u32>& policy, const std::vector<double>& right, double tolerance, std::vector<double>& x,
            Poll& poll) {
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
                if (column[d] == v) pivot[v] -= l * factor[d];
                else if (where[column[d]] != NONE) factor[where[column[d]]] -= l * factor[d];
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
    std::vector<double> shadow;
    const double goal = tolerance * std::sqrt(dot(right, right));
    double rho = 1, alpha = 1, omega = 1, smallest = INFINITE;
    int since = 0, restarts = 0;
    bool fresh = true;
    for (int k = 0; k < 5000; ++k) {
        if (fresh) {
            for (u32 v = 0; v < n; ++v) {
                long double sum = static_cast<long double>(right[v]) - x[v];
                for (u32 b = start[v]; b < start[v + 1]; ++b) sum -= static_cast<long double>(entry[b]) * x[column[b]];
                r[v] = static_cast<double>(sum);
            }
            shadow = r;
            smallest = INFINITE;
            since = 0;
        }
        const double norm = std::sqrt(dot(r, r));
        if (norm <= goal) {
            if (fresh || tolerance > 1e-10) return true;  // else look at the true residual once more
            if (++restarts > 6) return true;
            fresh = true;
            continue;
        }
        if (!(norm < INFINITE)) return false;
        if (norm < 0.9 * smallest) {
            smallest = norm;
            since = 0;
        } else if (++since > 300) {
            if (++restarts > 6) return smallest <= goal * 1e3;
            fresh = true;
            continue;
        }
        const double previous = rho;
        rho = dot(shadow, r);
        if (rho == 0) return false;
        const double beta = fresh ? 0 : rho / previous * (alpha / omega);
        fresh = false;
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

}  // namespace

bool propose_solution(const System& s, const std::vector<u32>& policy, const std::vector<double>& right, double tolerance,
                      std::vector<double>& x, Poll& poll) {
    return s.nodes() <= DIRECT ? eliminate(s, policy, right, x) : krylov(s, policy, right, tolerance, x, poll);
}

}  // namespace polvet::mdp
