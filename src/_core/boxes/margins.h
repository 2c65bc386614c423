// Margins between scores as linear functions of the variables, over a box and rows: what bounds of networks share; see boxes.h.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "boxes/boxes.h"

namespace polvet {

class MarginBounds : public PolicyBounds {
public:
    explicit MarginBounds(size_t variables) : variables_(variables) {}

    void judge(Box& box, const std::vector<const Row*>& rows, int32_t output, const std::vector<Relation>& rivals,
               NodeVerdict& out) override {
        bool know = recall(out.known);
        for (int round = 0; round < 3; ++round) {
            set(box, rows);
            bound_hidden(know);
            know = true;
            remember(out.known);
            const double before = box.count();
            double worst = std::numeric_limits<double>::infinity();
            out.beaten_by = -1;
            out.split_variable = -1;
            for (size_t m = 0; m < rivals.size(); ++m) {
                if (int32_t(m) == output || rivals[m] == Relation::OUTSIDE) continue;
                if (!is_heard(m, rivals)) continue;
                const double slack = margin(size_t(output), m);
                double shift = constant_;
                const double upper = maximise(coefficients_.data(), shift, reduced_.data()) + constant_;
                // SOUND: the rival's score is greater in every evaluation order, in all states of the box that satisfy the rows.
                if (upper + slack < 0) {
                    if (rivals[m] == Relation::INSIDE) {
                        out.excluded = true;
                        return;
                    }
                    out.beaten_by = int32_t(m);
                    continue;
                }
                if (rivals[m] != Relation::INSIDE) continue;
                if (upper < worst) {
                    worst = upper;
                    remember_corner(box, reduced_.data(), out);
                }
                if (!shrink(box, reduced_.data(), shift + slack)) {
                    out.excluded = true;
                    return;
                }
            }
            if (box.count() > 0.7 * before) return;
            std::vector<const Row*> all(rows);
            if (!contract(box, all)) {
                out.excluded = true;
                return;
            }
        }
    }

    bool wins(const Box& box, const std::vector<const Row*>& rows, int32_t output, const std::vector<Relation>& rivals) override {
        const size_t mine = size_t(output);
        set(box, rows);
        bound_hidden(false);
        if (!is_heard(mine, rivals)) return false;
        for (size_t m = 0; m < rivals.size(); ++m) {
            if (m == mine || rivals[m] == Relation::OUTSIDE) continue;
            const double slack = margin(m, mine);
            double shift = 0;
            // SOUND: as in `judge`, with the roles exchanged.
            if (!(maximise(coefficients_.data(), shift, reduced_.data()) + constant_ + slack < 0)) return false;
        }
        return true;
    }

protected:
    // Bound what is hidden, over the box that was set; with `known`, bounds that hold already are there.
    virtual void bound_hidden(bool known) = 0;
    // Fill `coefficients_` and `constant_`: score(a) - score(b) is at most that linear function of the variables, plus what is returned.
    virtual double margin(size_t a, size_t b) = 0;
    // Whether a softmax behind the scores surely keeps the output's order: no output that may be inapplicable is too far above it.
    // SOUND: an applicable one that is far above it is better than whatever the output is compared with, too.
    virtual bool is_heard(size_t output, const std::vector<Relation>& rivals) = 0;
    // PolicyBounds of hidden values, from and to a node of the search: what holds in a box holds in its parts.
    virtual bool recall(const std::vector<double>& known) = 0;
    virtual void remember(std::vector<double>& known) const = 0;

    struct PlainRow {
        std::vector<std::pair<size_t, double>> terms;
        double lower, upper;
    };

    void set(const Box& box, const std::vector<const Row*>& rows) {
        const size_t n = variables_;
        lower_.resize(n);
        upper_.resize(n);
        for (size_t v = 0; v < n; ++v) {
            lower_[v] = double(box.lower[v]);
            upper_[v] = double(box.upper[v]);
        }
        rows_.clear();
        for (const Row* row : rows) {
            if (row->terms.size() < 2) continue;
            PlainRow made{{}, -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
            Int128 least = 0, most = 0;
            Row marks;
            marks.marks = row->marks;
            span(marks, box, least, most);
            // SOUND: a bound is moved outwards by what marks can add; integers up to 2^52 are exact in double.
            if (row->lower != NO_LOWER) made.lower = double(row->lower - most);
            if (row->upper != NO_UPPER) made.upper = double(row->upper - least);
            if (std::fabs(made.lower) != std::numeric_limits<double>::infinity() && std::fabs(made.lower) > 0x1p50) continue;
            if (std::fabs(made.upper) != std::numeric_limits<double>::infinity() && std::fabs(made.upper) > 0x1p50) continue;
            for (const Summand& term : row->terms) made.terms.emplace_back(size_t(term.variable), double(term.coefficient));
            rows_.push_back(std::move(made));
        }
        coefficients_.resize(n);
        reduced_.resize(n);
    }

    // An upper bound on c x over the box and rows; `reduced` gets c minus the rows' multiples, and `shift` grows by what they add:
    // c x <= reduced x + (growth of shift) wherever the rows hold.
    double maximise(const double* c, double& shift, double* reduced) {
        const size_t n = variables_;
        std::copy(c, c + n, reduced);
        double added = 0, scale = 0;
        for (const PlainRow& row : rows_) {
            double sum = 0;
            bool above = false, below = false;
            // The sum at the maximiser, ties resolved towards the row.
            double least = 0, most = 0;
            for (const auto& [v, a] : row.terms) {
                const double x = a * lower_[v], y = a * upper_[v];
                if (reduced[v] == 0) {
                    least += std::min(x, y);
                    most += std::max(x, y);
                } else {
                    const double at = reduced[v] > 0 ? y : x;
                    least += at;
                    most += at;
                }
            }
            if (least > row.upper) {
                above = true;
                sum = least;
            } else if (most < row.lower) {
                below = true;
                sum = most;
            } else continue;
            // Walk the breakpoints c/a away from zero until the sum meets the bound.
            points_.clear();
            for (const auto& [v, a] : row.terms) {
                const double width = upper_[v] - lower_[v];
                if (width <= 0 || reduced[v] == 0) continue;
                const double at = reduced[v] / a;
                if (above ? at > 0 : at < 0) points_.emplace_back(std::fabs(at), std::fabs(a) * width);
            }
            std::sort(points_.begin(), points_.end());
            double multiplier = 0;
            const double gap = above ? sum - row.upper : row.lower - sum;
            double covered = 0;
            for (const auto& [at, drop] : points_) {
                multiplier = at;
                covered += drop;
                if (covered >= gap) break;
            }
            if (multiplier == 0) continue;
            if (below) multiplier = -multiplier;
            for (const auto& [v, a] : row.terms) {
                scale += std::fabs(multiplier * a) * std::max(std::fabs(lower_[v]), std::fabs(upper_[v]));
                reduced[v] -= multiplier * a;
            }
            const double gain = multiplier * (above ? row.upper : row.lower);
            scale += std::fabs(gain);
            added += gain;
        }
        double best = added;
        for (size_t v = 0; v < n; ++v) {
            const double r = reduced[v];
            scale += std::fabs(r) * std::max(std::fabs(lower_[v]), std::fabs(upper_[v]));
            best += r > 0 ? r * upper_[v] : r * lower_[v];
        }
        // SOUND: any multipliers give a bound; what double arithmetic loses on the way is at most this.
        const double lost = scale * double(n + 8) * 0x1p-50;
        shift += added + lost;
        return best + lost;
    }

    void remember_corner(const Box& box, const double* reduced, NodeVerdict& out) {
        const size_t n = variables_;
        out.candidate.resize(n);
        double best = 0;
        for (size_t v = 0; v < n; ++v) {
            out.candidate[v] = reduced[v] > 0   ? box.upper[v]
                               : reduced[v] < 0 ? box.lower[v]
                                                : box.lower[v] + (box.upper[v] - box.lower[v]) / 2;
            const double weight = std::fabs(reduced[v]) * (upper_[v] - lower_[v]);
            if (weight > best && box.upper[v] > box.lower[v]) {
                best = weight;
                out.split_variable = int32_t(v);
                out.split_value = box.lower[v] + (box.upper[v] - box.lower[v]) / 2;
            }
        }
        // Where a row is met with equality all its variables have weight zero: then their own coefficients tell.
        for (size_t v = 0; v < n && best == 0; ++v) {
            const double weight = std::fabs(coefficients_[v]) * (upper_[v] - lower_[v]);
            if (weight > 0) {
                best = weight;
                out.split_variable = int32_t(v);
                out.split_value = box.lower[v] + (box.upper[v] - box.lower[v]) / 2;
            }
        }
    }

    // Keep only what c x + shift >= 0 leaves of the box. SOUND: quotients are moved outwards by more than they can be off.
    static bool shrink(Box& box, const double* c, double shift) {
        double most = shift;
        double scale = std::fabs(shift);
        const size_t n = box.lower.size();
        for (size_t v = 0; v < n; ++v) {
            const double at = c[v] > 0 ? c[v] * double(box.upper[v]) : c[v] * double(box.lower[v]);
            most += at;
            scale += std::fabs(at);
        }
        most += scale * 0x1p-40;
        if (!(most < std::numeric_limits<double>::infinity())) return true;
        if (most < 0) return false;
        for (size_t v = 0; v < n; ++v) {
            if (c[v] == 0) continue;
            const double room = std::floor(most / std::fabs(c[v]) * (1 + 0x1p-40) + 0x1p-40);
            if (!(room < double(box.upper[v] - box.lower[v]))) continue;
            const int64_t steps = int64_t(room);
            if (c[v] > 0) box.lower[v] = std::max(box.lower[v], box.upper[v] - steps);
            else box.upper[v] = std::min(box.upper[v], box.lower[v] + steps);
        }
        return true;
    }

    const size_t variables_;
    std::vector<double> lower_, upper_, coefficients_, reduced_;
    std::vector<PlainRow> rows_;
    std::vector<std::pair<double, double>> points_;
    double constant_ = 0;
};

// target += factor * source. Lanes are different entries, never parts of one sum, and nothing is fused: the same bits everywhere.
void add_multiple(double* target, const double* source, double factor, size_t count);

}  // namespace polvet
