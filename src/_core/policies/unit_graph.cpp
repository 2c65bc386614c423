// Evaluate graphs of units, and bound how far other evaluations get; see policies/unit_graph.h.
#include "policies/unit_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "store/portable.h"

namespace polvet {

namespace {

constexpr size_t BLOCK = 4;
constexpr double UNIT = 0x1p-24, ETA = 0x1p-126, OUTWARD = 1 + 0x1p-40;
constexpr double HUGE_VALUE = 0x1p125;  // below this no evaluation overflows
// Constant factors may have been multiplied into the weights, before or after this node: so many roundings more per summand.
constexpr double FOLDED = 4;
constexpr double REFERENCE = 1.25;  // the enclosure of any evaluation and that of the reference, which is rounded from double

size_t padded(size_t size) { return (size + 7) / 8 * 8; }

template <class... Cases> struct Match : Cases... {
    using Cases::operator()...;
};
template <class... Cases> Match(Cases...) -> Match<Cases...>;

float at_least(double d) { return d == 0 ? 0.0f : float(d * (1 + 0x1p-22)) + std::numeric_limits<float>::denorm_min(); }

template <UnitKind kind> void apply(const UnitGraph::Unit& unit, const float* x, float* y) {
    for (size_t j = 0; j < unit.columns.size(); ++j) y[j] = float(units::value(kind, double(x[unit.columns[j]]), unit.a[j], unit.b[j]));
}

// The most common units as vectors; lanes are different values, and nothing is fused: the same bits everywhere.
POLVET_CLONES void tangents(const double* x, float* y, size_t count) {
    for (size_t j = 0; j < count; ++j) y[j] = float(units::hyperbolic_tangent(x[j]));
}
POLVET_CLONES void logistics(const double* x, float* y, size_t count) {
    for (size_t j = 0; j < count; ++j) y[j] = float(units::logistic(x[j]));
}
POLVET_CLONES void silus(const double* x, float* y, size_t count) {
    for (size_t j = 0; j < count; ++j) y[j] = float(x[j] * units::logistic(x[j]));
}

void apply_lanes(void (*lanes)(const double*, float*, size_t), const UnitGraph::Unit& unit, const float* x, float* y) {
    thread_local std::vector<double> gathered;
    gathered.resize(unit.columns.size());
    for (size_t j = 0; j < gathered.size(); ++j) gathered[j] = x[unit.columns[j]];
    lanes(gathered.data(), y, gathered.size());
}

void apply(const UnitGraph::Unit& unit, const float* x, float* y) {
    switch (unit.kind) {
    case UnitKind::clip:
        // A NaN must survive, so that a broken score is seen.
        for (size_t j = 0; j < unit.columns.size(); ++j) {
            const float v = x[unit.columns[j]], low = float(unit.a[j]), high = float(unit.b[j]);
            const float raised = v <= low ? low : v;
            y[j] = raised > high ? high : raised;
        }
        return;
    case UnitKind::leaky: return apply<UnitKind::leaky>(unit, x, y);
    case UnitKind::abs: return apply<UnitKind::abs>(unit, x, y);
    case UnitKind::equal: return apply<UnitKind::equal>(unit, x, y);
    case UnitKind::tanh: return apply_lanes(tangents, unit, x, y);
    case UnitKind::sigmoid: return apply_lanes(logistics, unit, x, y);
    case UnitKind::erf: return apply<UnitKind::erf>(unit, x, y);
    case UnitKind::softsign: return apply<UnitKind::softsign>(unit, x, y);
    case UnitKind::softplus: return apply<UnitKind::softplus>(unit, x, y);
    case UnitKind::silu: return apply_lanes(silus, unit, x, y);
    case UnitKind::gelu: return apply<UnitKind::gelu>(unit, x, y);
    case UnitKind::gelu_tanh: return apply<UnitKind::gelu_tanh>(unit, x, y);
    case UnitKind::mish: return apply<UnitKind::mish>(unit, x, y);
    case UnitKind::hard_swish: return apply<UnitKind::hard_swish>(unit, x, y);
    case UnitKind::elu: return apply<UnitKind::elu>(unit, x, y);
    case UnitKind::exp: return apply<UnitKind::exp>(unit, x, y);
    case UnitKind::square: return apply<UnitKind::square>(unit, x, y);
    case UnitKind::sqrt: return apply<UnitKind::sqrt>(unit, x, y);
    case UnitKind::reciprocal: return apply<UnitKind::reciprocal>(unit, x, y);
    }
}

}  // namespace

UnitGraph::UnitGraph(size_t inputs_) {
    inputs = inputs_;
    tape = padded(inputs);
    for (size_t k = 0; k < inputs; ++k) place_of_.push_back(uint32_t(k));
}

UnitGraph::Columns UnitGraph::placed(const Columns& columns) const {
    Columns places;
    places.reserve(columns.size());
    for (const uint32_t column : columns) {
        if (column >= place_of_.size()) throw std::invalid_argument("a node reads a value that comes later");
        places.push_back(place_of_[column]);
    }
    return places;
}

std::vector<size_t> UnitGraph::parents_of(const Columns& columns) const {
    std::vector<size_t> parents;
    for (const uint32_t column : columns) {
        const auto after =
            std::upper_bound(nodes.begin(), nodes.end(), column, [](uint32_t place, const Node& n) { return place < n.begin; });
        const size_t parent = size_t(after - nodes.begin());
        if (std::find(parents.begin(), parents.end(), parent) == parents.end()) parents.push_back(parent);
    }
    return parents;
}

UnitGraph::Node& UnitGraph::append(std::variant<Affine, Unit, Product> what, size_t size, const Columns& reads) {
    if (size == 0) throw std::invalid_argument("a node has no values");
    std::vector<size_t> parents = parents_of(reads);
    for (size_t j = 0; j < size; ++j) place_of_.push_back(uint32_t(tape + j));
    nodes.push_back({tape, size, std::move(what), std::move(parents)});
    tape += padded(size);
    return nodes.back();
}

void UnitGraph::add_affine(const Columns& columns, bool shared, const float* weights, const float* bias, const float* sizes,
                           size_t outputs_, size_t roundings) {
    Affine made;
    made.columns = placed(columns);
    made.dense = shared;
    made.roundings = roundings;
    made.terms = shared ? columns.size() : columns.size() / std::max<size_t>(outputs_, 1);
    if (made.terms == 0 || (!shared && made.terms * outputs_ != columns.size())) throw std::invalid_argument("an affine node does not fit");
    made.adjacent = true;
    for (size_t k = 1; k < made.columns.size(); ++k) made.adjacent = made.adjacent && made.columns[k] == made.columns[k - 1] + 1;
    made.bias.assign(bias, bias + outputs_);
    made.sizes.assign(sizes, sizes + outputs_);
    if (shared) made.layer.emplace_back(weights, bias, made.terms, outputs_);
    else made.weights.assign(weights, weights + outputs_ * made.terms);
    for (size_t j = 0; j < outputs_; ++j) {
        double sum = 0;
        for (size_t k = 0; k < made.terms; ++k) sum += std::fabs(double(weights[j * made.terms + k]));
        made.norm = std::max(made.norm, sum * (1 + double(made.terms + 8) * 0x1p-50));
        made.largest_size = std::max(made.largest_size, double(made.sizes[j]));
    }
    const Columns reads = made.columns;
    bool doubles = true;  // a product with a power of two is exact, whatever it is multiplied into
    for (size_t k = 0; k < outputs_ * made.terms; ++k) {
        int exponent;
        const float part = std::fabs(std::frexp(weights[k], &exponent));
        doubles = doubles && (part == 0.5f || part == 0);
    }
    const bool factors = !shared && made.terms == 1 && !doubles;
    for (const size_t parent : append(std::move(made), outputs_, reads).parents)
        if (factors && parent)
            if (auto* before = std::get_if<Affine>(&nodes[parent - 1].what)) before->scaled = true;
}

void UnitGraph::add_unit(UnitKind kind, const Columns& columns, const float* a, const float* b) {
    Unit made{kind, placed(columns), {a, a + columns.size()}, {b, b + columns.size()}, true};
    for (size_t j = 1; j < columns.size(); ++j) made.uniform = made.uniform && a[j] == a[0] && b[j] == b[0];
    const Columns reads = made.columns;
    append(std::move(made), columns.size(), reads);
}

void UnitGraph::add_product(const Columns& left, const Columns& right) {
    if (left.size() != right.size()) throw std::invalid_argument("the factors of a product differ in length");
    Product made{placed(left), placed(right)};
    Columns reads = made.left;
    reads.insert(reads.end(), made.right.begin(), made.right.end());
    append(std::move(made), left.size(), reads);
}

void UnitGraph::finish(const Columns& scores, bool softmax_) {
    score_columns = placed(scores);
    outputs = scores.size();
    softmax = softmax_;
}

void UnitGraph::forward(size_t count, float* values) const {
    thread_local std::vector<float> gathered;
    for (const Node& node : nodes) {
        std::visit(Match{
                       [&](const Affine& affine) {
                           if (affine.dense) {
                               const float* x = values + affine.columns[0];
                               size_t stride = tape;
                               if (!affine.adjacent) {
                                   gathered.resize(count * affine.terms);
                                   for (size_t r = 0; r < count; ++r)
                                       for (size_t k = 0; k < affine.terms; ++k)
                                           gathered[r * affine.terms + k] = values[r * tape + affine.columns[k]];
                                   x = gathered.data();
                                   stride = affine.terms;
                               }
                               affine.layer[0].run(count, x, stride, values + node.begin, tape, false);
                               return;
                           }
                           for (size_t r = 0; r < count; ++r) {
                               const float* x = values + r * tape;
                               float* y = values + r * tape + node.begin;
                               for (size_t j = 0; j < node.size; ++j) {
                                   float acc = affine.bias[j];
                                   for (size_t k = j * affine.terms; k < (j + 1) * affine.terms; ++k)
                                       acc = acc + affine.weights[k] * x[affine.columns[k]];
                                   y[j] = acc;
                               }
                           }
                       },
                       [&](const Unit& unit) {
                           for (size_t r = 0; r < count; ++r) apply(unit, values + r * tape, values + r * tape + node.begin);
                       },
                       [&](const Product& product) {
                           for (size_t r = 0; r < count; ++r)
                               for (size_t j = 0; j < node.size; ++j)
                                   values[r * tape + node.begin + j] =
                                       values[r * tape + product.left[j]] * values[r * tape + product.right[j]];
                       },
                   },
                   node.what);
    }
}

template <class Use> void UnitGraph::for_each_scored_row(const float* rows, size_t n, Use use) const {
    thread_local std::vector<float> values, result;
    values.resize(BLOCK * tape);
    result.resize(outputs);
    for (size_t row = 0; row < n;) {
        const size_t count = row + BLOCK <= n ? BLOCK : 1;
        for (size_t r = 0; r < count; ++r) std::copy_n(rows + (row + r) * inputs, inputs, values.data() + r * tape);
        forward(count, values.data());
        for (size_t r = 0; r < count; ++r) {
            for (size_t k = 0; k < outputs; ++k) result[k] = values[r * tape + score_columns[k]];
            use(row + r, result.data());
        }
        row += count;
    }
}

void UnitGraph::scores(const float* rows, size_t n, float* out) const {
    for_each_scored_row(rows, n, [&](size_t row, const float* result) { std::copy_n(result, outputs, out + row * outputs); });
}

void UnitGraph::scores(const float* rows, size_t n, double* out) const {
    for_each_scored_row(rows, n, [&](size_t row, const float* result) { std::copy_n(result, outputs, out + row * outputs); });
}

void UnitGraph::choose(const float* rows, size_t n, const uint8_t* applicable, int32_t* out) const {
    for_each_scored_row(rows, n, [&](size_t row, const float* result) {
        out[row] = best_index(result, outputs, applicable ? applicable + row * outputs : nullptr);
    });
}

void UnitGraph::choose_surely(const float* rows, size_t n, const uint8_t* applicable, int32_t* out, uint8_t* sure) const {
    for_each_scored_row(rows, n, [&](size_t row, const float* result) {
        const uint8_t* mask = applicable ? applicable + row * outputs : nullptr;
        const int32_t best = out[row] = best_index(result, outputs, mask);
        sure[row] = best == NOTHING_APPLICABLE || (best >= 0 && is_sure(rows + row * inputs, result, best, mask));
    });
}

// Per value |any evaluation - reference| <= D, node after node. Affine nodes as in Mlp::rounding_bounds. Units: with L the greatest
// |derivative| over [x - D, x + D]: |f'(x') - f(x)| <= L D + the enclosures of both evaluations, wherever x' lies in there.
void UnitGraph::rounding_bounds(const float* rows, size_t n, float* out_scores, double* bounds) const {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    std::vector<float> x(tape), distance(tape), magnitude, moved, near, far;
    std::vector<int16_t> grain;
    for (size_t row = 0; row < n; ++row) {
        std::fill(distance.begin(), distance.end(), 0.0f);
        std::copy_n(rows + row * inputs, inputs, x.begin());
        forward(1, x.data());
        bool overflow = false;
        auto put = [&](size_t place, double d) {
            if (!(std::fabs(double(x[place])) + d < HUGE_VALUE)) {
                overflow = true;
                d = 0;
            }
            distance[place] = at_least(d);
        };
        for (const Node& node : nodes) {
            std::visit(Match{
                           [&](const Affine& affine) {
                               const size_t width = padded(node.size);
                               magnitude.assign(width, 0.0f);
                               moved.assign(width, 0.0f);
                               grain.assign(width, ZERO_GRAIN);
                               std::copy(affine.sizes.begin(), affine.sizes.end(), magnitude.begin());
                               for (size_t j = 0; j < node.size; ++j)
                                   grain[j] = std::min(grain_of(affine.sizes[j]), grain_of(affine.bias[j]));
                               size_t present = affine.terms;
                               if (affine.dense) {
                                   near.resize(affine.terms);
                                   far.resize(affine.terms);
                                   for (size_t k = 0; k < affine.terms; ++k) {
                                       near[k] = x[affine.columns[k]];
                                       far[k] = distance[affine.columns[k]];
                                   }
                                   present =
                                       affine.layer[0].bound_sums(near.data(), far.data(), magnitude.data(), moved.data(), grain.data());
                               } else {
                                   for (size_t j = 0; j < node.size; ++j)
                                       for (size_t k = j * affine.terms; k < (j + 1) * affine.terms; ++k) {
                                           const float weight = std::fabs(affine.weights[k]), value = x[affine.columns[k]];
                                           const float off = distance[affine.columns[k]];
                                           magnitude[j] += weight * std::fabs(value);
                                           moved[j] += weight * off;
                                           if ((value != 0 || off != 0) && weight != 0)
                                               grain[j] = std::min<int16_t>(
                                                   grain[j], int16_t(grain_of(weight) + (off > 0 ? INEXACT_GRAIN : grain_of(value))));
                                       }
                               }
                               const double summands = 1.0 + double(present + affine.roundings) + FOLDED;
                               if (summands > 0x1p20) overflow = true;
                               const double gamma = summands * UNIT / (1 - summands * UNIT) * OUTWARD;
                               const double slack = 1 + (summands + 8) * 0x1p-22;  // what the float32 sums here may have lost
                               double read = 0;                                    // weights below ETA may be taken for 0
                               for (const uint32_t column : affine.columns) read += std::fabs(double(x[column])) + double(distance[column]);
                               const double underflow = (16 * summands + 4 * affine.norm + 2 * read) * ETA;
                               for (size_t j = 0; j < node.size; ++j) {
                                   const double a = double(magnitude[j]) * slack, p = double(moved[j]) * slack;
                                   // SOUND: as in Mlp::rounding_bounds; weights that a factor was multiplied into are rounded themselves.
                                   const bool exact =
                                       affine.roundings == 0 && !affine.scaled &&
                                       (grain[j] > 10000 || (grain[j] >= -126 && double(magnitude[j]) < std::ldexp(1.0, 24 + grain[j])));
                                   const double d = exact ? 0 : (p + gamma * (2 * a + p) + underflow) * OUTWARD;
                                   if (!(a + p + d < HUGE_VALUE)) overflow = true;
                                   put(node.begin + j, d);
                               }
                           },
                           [&](const Unit& unit) {
                               for (size_t j = 0; j < node.size; ++j) {
                                   const double at = x[unit.columns[j]];
                                   // A number below 2^-126 may be taken for 0.
                                   const double off = double(distance[unit.columns[j]]) + (std::fabs(at) < ETA ? std::fabs(at) : 0);
                                   const double low = at - off * OUTWARD - ETA * (off > 0), high = at + off * OUTWARD + ETA * (off > 0);
                                   double change = 0;
                                   if (off > 0) {
                                       const units::Range range = units::slopes(unit.kind, low, high, unit.a[j], unit.b[j]);
                                       change = std::max(std::fabs(range.least), std::fabs(range.most)) * off;
                                   }
                                   const double size = std::fabs(at) + off, result = std::fabs(double(x[node.begin + j])) + change;
                                   const bool same = unit.kind == UnitKind::leaky && low >= 0;
                                   const double own = same ? 0 : units::enclosure(unit.kind, size, result, unit.a[j], unit.b[j]);
                                   put(node.begin + j, (change + REFERENCE * own) * OUTWARD);
                               }
                           },
                           [&](const Product& product) {
                               for (size_t j = 0; j < node.size; ++j) {
                                   const double a = std::fabs(x[product.left[j]]), b = std::fabs(x[product.right[j]]);
                                   const double da = distance[product.left[j]], db = distance[product.right[j]];
                                   put(node.begin + j,
                                       (a * db + b * da + da * db + (FOLDED + 2) * UNIT * (a + da) * (b + db) + 4 * ETA) * OUTWARD);
                               }
                           },
                       },
                       node.what);
        }
        double best = -infinity;
        for (const uint32_t place : score_columns) best = std::max(best, double(x[place]) + double(distance[place]));
        for (size_t k = 0; k < outputs; ++k) {
            const double z = x[score_columns[k]];
            double bound = distance[score_columns[k]];
            if (softmax) bound = (bound + softmax_slack(std::fabs(z) + bound, best - z + bound)) * OUTWARD;
            out_scores[row * outputs + k] = x[score_columns[k]];
            bounds[row * outputs + k] = overflow ? infinity : bound;
        }
    }
}

// The same with one number per node: every value gets the greatest magnitude and the greatest distance.
double UnitGraph::coarse_bound(double largest) const {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    thread_local std::vector<double> magnitude, distance;
    magnitude.assign(nodes.size() + 1, 0);
    distance.assign(nodes.size() + 1, 0);
    magnitude[0] = largest;
    for (size_t i = 0; i < nodes.size(); ++i) {
        double m = 0, d = 0;
        for (const size_t parent : nodes[i].parents) {
            m = std::max(m, magnitude[parent]);
            d = std::max(d, distance[parent]);
        }
        double& size = magnitude[i + 1];
        double& off = distance[i + 1];
        std::visit(
            Match{
                [&](const Affine& affine) {
                    const double summands = double(affine.terms + affine.roundings) + 1 + FOLDED;
                    const double gamma = summands * UNIT / (1 - summands * UNIT), slack = 1 + (summands + 8) * 0x1p-21;
                    const double a = (affine.norm * m + affine.largest_size) * slack, p = affine.norm * d * slack;
                    off =
                        (p + gamma * (2 * a + p) + (32 * summands + 4 * affine.norm + 4 * double(affine.columns.size()) * (m + d)) * ETA) *
                        (1 + 0x1p-20);
                    size = a * (1 + gamma) + 32 * summands * ETA;
                },
                [&](const Unit& unit) {
                    size = off = 0;
                    for (size_t j = 0; j < (unit.uniform ? 1 : unit.columns.size()); ++j) {
                        const units::Range range = units::slopes(unit.kind, -m - d, m + d, unit.a[j], unit.b[j]);
                        const double steepest = std::max(std::fabs(range.least), std::fabs(range.most));
                        const double moved = unit.kind == UnitKind::equal ? d : d + ETA;
                        const double change = moved == 0 ? 0 : steepest * moved;
                        const double zero = std::fabs(units::value(unit.kind, 0.0, unit.a[j], unit.b[j]));
                        const double result = units::is_bounded(unit.kind) ? 1 + 0x1p-18 : (zero + steepest * m) * (1 + 0x1p-18) + ETA;
                        size = std::max(size, result);
                        const double own = units::enclosure(unit.kind, m + d, result + change, unit.a[j], unit.b[j]);
                        off = std::max(off, (change + REFERENCE * own) * (1 + 0x1p-20));
                    }
                },
                [&](const Product&) {
                    size = m * m * (1 + 0x1p-20) + ETA;
                    off = (2 * m * d + d * d + (FOLDED + 2) * UNIT * (m + d) * (m + d) + 8 * ETA) * (1 + 0x1p-20);
                },
            },
            nodes[i].what);
        if (!(size + off < HUGE_VALUE)) return infinity;
    }
    double bound = 0, size = 0;
    for (const size_t parent : parents_of(score_columns)) {
        bound = std::max(bound, distance[parent]);
        size = std::max(size, magnitude[parent]);
    }
    return softmax ? (bound + softmax_slack(size, 2 * size + 2 * bound)) * (1 + 0x1p-20) : bound;
}

}  // namespace polvet
