// Linear systems (I - P) x = b of one policy: proposals for mdp/iterate.cpp, so nothing here needs to be sound.
//
// Source   Grassmann, Taksar & Heyman, Regenerative Analysis and Steady State Distributions, OR 33, 1985: `eliminate` never subtracts, so it keeps
//          relative precision however slowly the component is left. van der Vorst, Bi-CGSTAB, 1992: `krylov`, preconditioned by ILU(0).
// Cost     eliminate: cubic, used up to DIRECT nodes. krylov: some passes per iteration, refined with the true residual.
#include <algorithm>
#include <cmath>

#include "mdp/mdp.h"

namespace polvet {
namespace {

bool eliminate(const Equations& s, const std::vector<uint32_t>& policy, const std::vector<double>& right, std::vector<double>& x) {
    const uint32_t n = s.nodes();
    std::vector<double> p(size_t(n) * n, 0.0), leave(n), b = right, pivot(n);
    for (uint32_t v = 0; v < n; ++v) {
        leave[v] = s.leave[policy[v]];
        for (uint32_t i = s.branch_start[policy[v]]; i < s.branch_start[policy[v] + 1]; ++i) p[v * n + s.target[i]] += s.probability[i];
    }
    for (uint32_t k = n; k-- > 0;) {
        const double* from = &p[size_t(k) * n];
        double out = leave[k];
        for (uint32_t j = 0; j < k; ++j) out += from[j];
        if (!(out > 0)) return false;  // the policy never leaves
        pivot[k] = out;
        for (uint32_t i = 0; i < k; ++i) {
            double* to = &p[size_t(i) * n];
            if (to[k] == 0) continue;
            const double f = to[k] / out;
            for (uint32_t j = 0; j < k; ++j) to[j] += f * from[j];
            leave[i] += f * leave[k];
            b[i] += f * b[k];
        }
    }
    for (uint32_t k = 0; k < n; ++k) {
        double sum = b[k];
        for (uint32_t j = 0; j < k; ++j) sum += p[size_t(k) * n + j] * x[j];
        x[k] = sum / pivot[k];
    }
    return true;
}

using Vector = std::vector<double>;

double dot(const Vector& a, const Vector& b) {
    double sum = 0;
    for (size_t v = 0; v < a.size(); ++v) sum += a[v] * b[v];
    return sum;
}

// The matrix I - P of a policy: rows without the unit diagonal, columns ascending.
struct Rows {
    std::vector<uint32_t> start{0}, column;
    Vector entry;

    Rows(const Equations& s, const std::vector<uint32_t>& policy) {
        std::vector<std::pair<uint32_t, double>> row;
        for (uint32_t v = 0; v < s.nodes(); ++v) {
            row.clear();
            for (uint32_t b = s.branch_start[policy[v]]; b < s.branch_start[policy[v] + 1]; ++b)
                row.emplace_back(s.target[b], -s.probability[b]);
            std::sort(row.begin(), row.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
            for (const auto& [t, q] : row) {
                if (column.size() > start[v] && column.back() == t) {
                    entry.back() += q;
                } else {
                    column.push_back(t);
                    entry.push_back(q);
                }
            }
            start.push_back(uint32_t(column.size()));
        }
    }

    uint32_t size() const { return uint32_t(start.size() - 1); }

    void multiply(const Vector& in, Vector& out) const {
        for (uint32_t v = 0; v < size(); ++v) {
            double sum = in[v];
            for (uint32_t b = start[v]; b < start[v + 1]; ++b) sum += entry[b] * in[column[b]];
            out[v] = sum;
        }
    }

    // What x leaves of the right side, in long doubles: the true residual.
    void residual(const Vector& right, const Vector& x, Vector& out) const {
        for (uint32_t v = 0; v < size(); ++v) {
            long double sum = static_cast<long double>(right[v]) - x[v];
            for (uint32_t b = start[v]; b < start[v + 1]; ++b) sum -= static_cast<long double>(entry[b]) * x[column[b]];
            out[v] = double(sum);
        }
    }
};

// ILU(0), rows top down: `factor` holds L (strictly lower, unit diagonal) and U (strictly upper), `pivot` the diagonal of U.
// It exists for such M-matrices.
class Preconditioner {
public:
    explicit Preconditioner(const Rows& rows) : rows_(rows), factor_(rows.entry), pivot_(rows.size(), 1.0) {
        const auto& [start, column, entry] = rows;
        std::vector<uint32_t> where(rows.size(), UNSET);
        for (uint32_t v = 0; v < rows.size(); ++v) {
            for (uint32_t b = start[v]; b < start[v + 1]; ++b) where[column[b]] = b;
            for (uint32_t b = start[v]; b < start[v + 1] && column[b] < v; ++b) {
                const uint32_t k = column[b];
                const double l = factor_[b] / pivot_[k];
                factor_[b] = l;
                for (uint32_t d = start[k]; d < start[k + 1]; ++d) {
                    if (column[d] <= k) continue;
                    if (column[d] == v) pivot_[v] -= l * factor_[d];
                    else if (where[column[d]] != UNSET) factor_[where[column[d]]] -= l * factor_[d];
                }
            }
            for (uint32_t b = start[v]; b < start[v + 1]; ++b) where[column[b]] = UNSET;
            if (!(std::abs(pivot_[v]) > 1e-14)) pivot_[v] = 1e-14;
        }
    }

    void apply(const Vector& in, Vector& out) const {
        const auto& [start, column, entry] = rows_;
        for (uint32_t v = 0; v < rows_.size(); ++v) {
            double sum = in[v];
            for (uint32_t b = start[v]; b < start[v + 1] && column[b] < v; ++b) sum -= factor_[b] * out[column[b]];
            out[v] = sum;
        }
        for (uint32_t v = rows_.size(); v-- > 0;) {
            double sum = out[v];
            for (uint32_t b = start[v + 1]; b-- > start[v] && column[b] > v;) sum -= factor_[b] * out[column[b]];
            out[v] = sum / pivot_[v];
        }
    }

private:
    const Rows& rows_;
    Vector factor_, pivot_;
};

// How the residual falls: when to begin afresh from the true one, and when to give up.
class Progress {
public:
    explicit Progress(double goal) : goal_(goal) {}

    void begin() {
        smallest_ = INFINITE;
        since_ = 0;
    }

    // Whether the residual has not fallen for long.
    bool is_stuck(double norm) {
        if (norm < 0.9 * smallest_) {
            smallest_ = norm;
            since_ = 0;
            return false;
        }
        return ++since_ > 300;
    }

    bool may_restart() { return ++restarts_ <= 6; }
    bool is_near() const { return smallest_ <= goal_ * 1e3; }

private:
    double goal_, smallest_ = INFINITE;
    int since_ = 0, restarts_ = 0;
};

bool krylov(const Equations& s, const std::vector<uint32_t>& policy, const Vector& right, double tolerance, Vector& x, Poll& poll) {
    const Rows rows(s, policy);
    const Preconditioner preconditioner(rows);
    const uint32_t n = rows.size();
    Vector r(n), p(n, 0.0), q(n, 0.0), y(n), z(n), t(n), shadow;
    const double goal = tolerance * std::sqrt(dot(right, right));
    Progress progress(goal);
    double rho = 1, alpha = 1, omega = 1;
    bool fresh = true;
    for (int k = 0; k < 5000; ++k) {
        if (fresh) {
            rows.residual(right, x, r);
            shadow = r;
            progress.begin();
        }
        const double norm = std::sqrt(dot(r, r));
        if (norm <= goal) {
            if (fresh || tolerance > 1e-10 || !progress.may_restart()) return true;  // else look at the true residual once more
            fresh = true;
            continue;
        }
        if (!(norm < INFINITE)) return false;
        if (progress.is_stuck(norm)) {
            if (!progress.may_restart()) return progress.is_near();
            fresh = true;
            continue;
        }
        const double previous = rho;
        rho = dot(shadow, r);
        if (rho == 0) return false;
        const double beta = fresh ? 0 : rho / previous * (alpha / omega);
        fresh = false;
        for (uint32_t v = 0; v < n; ++v) p[v] = r[v] + beta * (p[v] - omega * q[v]);
        preconditioner.apply(p, y);
        rows.multiply(y, q);
        alpha = rho / dot(shadow, q);
        for (uint32_t v = 0; v < n; ++v) r[v] -= alpha * q[v];
        preconditioner.apply(r, z);
        rows.multiply(z, t);
        const double tt = dot(t, t);
        omega = tt > 0 ? dot(t, r) / tt : 0;
        for (uint32_t v = 0; v < n; ++v) {
            x[v] += alpha * y[v] + omega * z[v];
            r[v] -= omega * t[v];
        }
        if (omega == 0) return std::sqrt(dot(r, r)) <= goal;
        if (poll.expired(4 * rows.column.size() + 8 * n)) return false;
    }
    return false;
}

}  // namespace

bool propose_solution(const Equations& s, const std::vector<uint32_t>& policy, const std::vector<double>& right, double tolerance,
                      std::vector<double>& x, Poll& poll) {
    return s.nodes() <= DIRECT ? eliminate(s, policy, right, x) : krylov(s, policy, right, tolerance, x, poll);
}

}  // namespace polvet
