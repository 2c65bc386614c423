// Backward linear bounds of a network's margins over a box and rows; see boxes.h.
#include <algorithm>
#include <cmath>
#include <limits>

#include "boxes/boxes.h"

namespace polvet::boxes {

struct PlainNetwork {
    struct Layer {
        size_t inputs, outputs;
        std::vector<double> weights, bias;
    };  // weights [outputs][inputs]
    std::vector<Layer> layers;           // the inputs of the first layer are variables
    size_t variables = 0, summands = 0;  // summands: of the longest chain of additions through all layers
};

std::shared_ptr<const PlainNetwork> make_plain(const Mlp& net, const std::vector<int32_t>& inputs, size_t variables) {
    auto plain = std::make_shared<PlainNetwork>();
    plain->variables = variables;
    for (size_t l = 0; l < net.layers.size(); ++l) {
        const Mlp::Layer& layer = net.layers[l];
        PlainNetwork::Layer made{l ? layer.inputs : variables, layer.outputs, {}, {}};
        made.weights.assign(made.inputs * made.outputs, 0.0);
        for (size_t j = 0; j < layer.outputs; ++j) {
            made.bias.push_back(layer.bias[j]);
            for (size_t k = 0; k < layer.inputs; ++k)
                made.weights[j * made.inputs + (l ? k : static_cast<size_t>(inputs[k]))] +=
                    static_cast<double>(layer.weights[k * layer.padded + j]);
        }
        plain->summands += made.inputs + layer.inputs + 4;
        plain->layers.push_back(std::move(made));
    }
    return plain;
}

namespace {

// target += factor * source. Lanes are different entries, never parts of one sum, and nothing is fused: the same bits everywhere.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
__attribute__((target_clones("avx2", "default")))
#endif
void add_multiple(double* target, const double* source, double factor, size_t count) {
    for (size_t k = 0; k < count; ++k) target[k] += factor * source[k];
}

class NetworkBounds final : public Bounds {
public:
    NetworkBounds(const PlainNetwork& net, const Box& root) : net_(net) {
        // How far a float32 evaluation in any order can be from exact arithmetic, per neuron: Higham's gamma over the sum of
        // absolute values. SOUND: `reach` also bounds every path product of the backward pass, a power of two per layer more;
        // that pass is in double, so its errors are a small part of `error`, which `inflate` more than covers.
        const size_t depth = net.layers.size();
        std::vector<double> reach(net.variables), error(net.variables);
        for (size_t v = 0; v < net.variables; ++v) {
            reach[v] = std::max(std::fabs(static_cast<double>(root.lower[v])), std::fabs(static_cast<double>(root.upper[v])));
            error[v] = reach[v] > 0x1p24 ? reach[v] * 0x1p-23 : 0;  // the input is the nearest float32
        }
        const double inflate = 1.01 + static_cast<double>(net.summands) * std::ldexp(1.0, static_cast<int>(depth)) * 0x1p-27;
        for (size_t l = 0; l < depth; ++l) {
            const auto& layer = net.layers[l];
            std::vector<double> next(layer.outputs), wrong(layer.outputs);
            const double m = static_cast<double>(layer.inputs) + 4, gamma = m * 0x1p-24 / (1 - m * 0x1p-24);
            for (size_t j = 0; j < layer.outputs; ++j) {
                double sum = std::fabs(layer.bias[j]), moved = 0;
                const double* w = layer.weights.data() + j * layer.inputs;
                for (size_t k = 0; k < layer.inputs; ++k) {
                    sum += std::fabs(w[k]) * (reach[k] + error[k]);
                    moved += std::fabs(w[k]) * error[k];
                }
                next[j] = sum * (1 + 0x1p-30);
                wrong[j] = (moved + gamma * sum + 64 * m * 0x1p-126) * inflate;
                if (!(next[j] + wrong[j] < 0x1p126) || m > 0x1p20) wrong[j] = std::numeric_limits<double>::infinity();
            }
            errors_.push_back(wrong);
            reach.swap(next);
            error.swap(wrong);
        }
        low_.resize(depth);
        high_.resize(depth);
        for (size_t l = 0; l < depth; ++l) {
            low_[l].resize(net.layers[l].outputs);
            high_[l].resize(net.layers[l].outputs);
        }
    }

    void judge(Box& box, const std::vector<const Row*>& rows, int32_t output, const std::vector<Relation>& rivals, Verdict& out) override {
        const size_t last = net_.layers.size() - 1;
        bool know = recall(out.known);
        for (int round = 0; round < 3; ++round) {
            set(box, rows);
            for (size_t l = 0; l < last; ++l) bound_layer(l, know);
            know = true;
            remember(out.known);
            const double before = box.count();
            double worst = std::numeric_limits<double>::infinity();
            out.beaten_by = -1;
            out.split_variable = -1;
            for (size_t m = 0; m < rivals.size(); ++m) {
                if (static_cast<int32_t>(m) == output || rivals[m] == Relation::OUTSIDE) continue;
                const double slack = errors_[last][static_cast<size_t>(output)] + errors_[last][m];
                margin(static_cast<size_t>(output), m);
                double shift = constant_;
                const double upper = maximise(coefficients_.data(), shift, reduced_.data()) + constant_;
                // SOUND: the rival's score is greater in every evaluation order, in all states of the box that satisfy the rows.
                if (upper + slack < 0) {
                    if (rivals[m] == Relation::INSIDE) {
                        out.excluded = true;
                        return;
                    }
                    out.beaten_by = static_cast<int32_t>(m);
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
        const size_t last = net_.layers.size() - 1, mine = static_cast<size_t>(output);
        set(box, rows);
        for (size_t l = 0; l < last; ++l) bound_layer(l, false);
        for (size_t m = 0; m < rivals.size(); ++m) {
            if (m == mine || rivals[m] == Relation::OUTSIDE) continue;
            margin(m, mine);
            double shift = 0;
            // SOUND: as in `judge`, with the roles exchanged.
            if (!(maximise(coefficients_.data(), shift, reduced_.data()) + constant_ + errors_[last][m] + errors_[last][mine] < 0))
                return false;
        }
        return true;
    }

private:
    struct PlainRow {
        std::vector<std::pair<size_t, double>> terms;
        double lower, upper;
    };

    void set(const Box& box, const std::vector<const Row*>& rows) {
        const size_t n = net_.variables;
        lower_.resize(n);
        upper_.resize(n);
        for (size_t v = 0; v < n; ++v) {
            lower_[v] = static_cast<double>(box.lower[v]);
            upper_[v] = static_cast<double>(box.upper[v]);
        }
        rows_.clear();
        for (const Row* row : rows) {
            if (row->terms.size() < 2) continue;
            PlainRow made{{}, -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
            Wide least = 0, most = 0;
            Row marks;
            marks.marks = row->marks;
            span(marks, box, least, most);
            // SOUND: a bound is moved outwards by what marks can add; integers up to 2^52 are exact in double.
            if (row->lower != NO_LOWER) made.lower = static_cast<double>(row->lower - most);
            if (row->upper != NO_UPPER) made.upper = static_cast<double>(row->upper - least);
            if (std::fabs(made.lower) != std::numeric_limits<double>::infinity() && std::fabs(made.lower) > 0x1p50) continue;
            if (std::fabs(made.upper) != std::numeric_limits<double>::infinity() && std::fabs(made.upper) > 0x1p50) continue;
            for (const Term& term : row->terms)
                made.terms.emplace_back(static_cast<size_t>(term.variable), static_cast<double>(term.coefficient));
            rows_.push_back(std::move(made));
        }
        coefficients_.resize(n);
        reduced_.resize(n);
    }

    // An upper bound on c x over the box and rows; `reduced` gets c minus the rows' multiples, and `shift` grows by what they add:
    // c x <= reduced x + (growth of shift) wherever the rows hold.
    double maximise(const double* c, double& shift, double* reduced) {
        const size_t n = net_.variables;
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
        const double lost = scale * static_cast<double>(n + 8) * 0x1p-50;
        shift += added + lost;
        return best + lost;
    }

    // The linear form of layer `l`'s input below `work_` (over the neurons of layer l), carried down to the variables.
    void carry_down(size_t l) {
        for (;; --l) {
            const auto& layer = net_.layers[l];
            const bool bottom = l == 0;
            std::vector<double>& next = bottom ? coefficients_ : spare_;
            next.assign(layer.inputs, 0.0);
            for (size_t j = 0; j < layer.outputs; ++j) {
                const double factor = work_[j];
                if (factor == 0) continue;
                constant_ += factor * layer.bias[j];
                const double* w = layer.weights.data() + j * layer.inputs;
                add_multiple(next.data(), w, factor, layer.inputs);
            }
            if (bottom) return;
            relax(next, l - 1);
            work_.swap(next);
        }
    }

    // Replace ReLU outputs of layer l by linear functions of its inputs, from above where the factor is positive, else from below.
    void relax(std::vector<double>& factors, size_t l) {
        const std::vector<double>&low = low_[l], &high = high_[l];
        for (size_t k = 0; k < factors.size(); ++k) {
            if (factors[k] == 0 || low[k] >= 0) continue;
            if (high[k] <= 0) {
                factors[k] = 0;
                continue;
            }
            if (factors[k] > 0) {
                const double slope = high[k] / (high[k] - low[k]);
                constant_ -= factors[k] * slope * low[k];
                factors[k] *= slope;
            } else if (high[k] < -low[k]) {
                factors[k] = 0;
            }
        }
    }

    // Bounds of hidden neurons, from and to a node: what holds in a box holds in its parts.
    bool recall(const std::vector<double>& known) {
        if (known.empty()) return false;
        const double* at = known.data();
        for (size_t l = 0; l + 1 < low_.size(); ++l)
            for (auto* side : {&low_[l], &high_[l]}) {
                std::copy(at, at + side->size(), side->begin());
                at += side->size();
            }
        return true;
    }

    void remember(std::vector<double>& known) const {
        known.clear();
        for (size_t l = 0; l + 1 < low_.size(); ++l)
            for (const auto* side : {&low_[l], &high_[l]}) known.insert(known.end(), side->begin(), side->end());
    }

    // With `known`, bounds that hold already are there: neurons of one sign are left alone, others can only get narrower.
    void bound_layer(size_t l, bool known) {
        const auto& layer = net_.layers[l];
        for (size_t j = 0; j < layer.outputs; ++j) {
            if (known && (low_[l][j] >= 0 || high_[l][j] <= 0)) continue;
            for (const double sign : {1.0, -1.0}) {
                constant_ = 0;
                if (l == 0) {
                    constant_ = sign * layer.bias[j];
                    const double* w = layer.weights.data() + j * layer.inputs;
                    for (size_t k = 0; k < layer.inputs; ++k) coefficients_[k] = sign * w[k];
                } else {
                    const double* w = layer.weights.data() + j * layer.inputs;
                    work_.assign(w, w + layer.inputs);
                    if (sign < 0)
                        for (double& x : work_) x = -x;
                    constant_ = sign * layer.bias[j];
                    relax(work_, l - 1);
                    carry_down(l - 1);
                }
                double shift = 0;
                const double bound = maximise(coefficients_.data(), shift, reduced_.data()) + constant_ + errors_[l][j];
                double& end = sign > 0 ? high_[l][j] : low_[l][j];
                if (!known) end = sign * bound;
                else if (sign > 0 ? bound < end : -bound > end) end = sign * bound;
            }
        }
    }

    // score(a) - score(b) as a linear function of the variables from above.
    void margin(size_t a, size_t b) {
        const size_t last = net_.layers.size() - 1;
        const auto& layer = net_.layers[last];
        constant_ = layer.bias[a] - layer.bias[b];
        const double *w = layer.weights.data() + a * layer.inputs, *v = layer.weights.data() + b * layer.inputs;
        if (last == 0) {
            for (size_t k = 0; k < layer.inputs; ++k) coefficients_[k] = w[k] - v[k];
            return;
        }
        work_.resize(layer.inputs);
        for (size_t k = 0; k < layer.inputs; ++k) work_[k] = w[k] - v[k];
        relax(work_, last - 1);
        carry_down(last - 1);
    }

    void remember_corner(const Box& box, const double* reduced, Verdict& out) {
        const size_t n = net_.variables;
        out.candidate.resize(n);
        double best = 0;
        for (size_t v = 0; v < n; ++v) {
            out.candidate[v] = reduced[v] > 0   ? box.upper[v]
                               : reduced[v] < 0 ? box.lower[v]
                                                : box.lower[v] + (box.upper[v] - box.lower[v]) / 2;
            const double weight = std::fabs(reduced[v]) * (upper_[v] - lower_[v]);
            if (weight > best && box.upper[v] > box.lower[v]) {
                best = weight;
                out.split_variable = static_cast<int32_t>(v);
                out.split_value = box.lower[v] + (box.upper[v] - box.lower[v]) / 2;
            }
        }
        // Where a row is met with equality all its variables have weight zero: then their own coefficients tell.
        for (size_t v = 0; v < n && best == 0; ++v) {
            const double weight = std::fabs(coefficients_[v]) * (upper_[v] - lower_[v]);
            if (weight > 0) {
                best = weight;
                out.split_variable = static_cast<int32_t>(v);
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
            const double at = c[v] > 0 ? c[v] * static_cast<double>(box.upper[v]) : c[v] * static_cast<double>(box.lower[v]);
            most += at;
            scale += std::fabs(at);
        }
        most += scale * 0x1p-40;
        if (!(most < std::numeric_limits<double>::infinity())) return true;
        if (most < 0) return false;
        for (size_t v = 0; v < n; ++v) {
            if (c[v] == 0) continue;
            const double room = std::floor(most / std::fabs(c[v]) * (1 + 0x1p-40) + 0x1p-40);
            if (!(room < static_cast<double>(box.upper[v] - box.lower[v]))) continue;
            const int64_t steps = static_cast<int64_t>(room);
            if (c[v] > 0) box.lower[v] = std::max(box.lower[v], box.upper[v] - steps);
            else box.upper[v] = std::min(box.upper[v], box.lower[v] + steps);
        }
        return true;
    }

    const PlainNetwork& net_;
    std::vector<std::vector<double>> errors_, low_, high_;  // per layer and neuron
    std::vector<double> lower_, upper_, coefficients_, reduced_, work_, spare_;
    std::vector<PlainRow> rows_;
    std::vector<std::pair<double, double>> points_;
    double constant_ = 0;
};

}  // namespace

std::unique_ptr<Bounds> network_bounds(const PlainNetwork& net, const Box& root) { return std::make_unique<NetworkBounds>(net, root); }

}  // namespace polvet::boxes
