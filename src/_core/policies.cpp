// Evaluate networks and tree ensembles, one row or many, with one fixed order of float operations (see policies.h).
#include "policies.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

namespace polvet {

// ---- networks ------------------------------------------------------------------------------------------------------

namespace {

constexpr int16_t INEXACT_GRAIN = -10000;   // with any weight but zero this is below every grain

// The exponent of the lowest set bit: x is an odd multiple of 2^grain.
int16_t grain_of(float x) {
    if (x == 0) return ZERO_GRAIN;
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    const uint32_t exponent = bits >> 23 & 0xff, fraction = bits & 0x7fffff;
    const uint32_t mantissa = exponent ? fraction | 0x800000 : fraction;
    return static_cast<int16_t>(static_cast<int>(exponent ? exponent : 1) - 150 + __builtin_ctz(mantissa));
}

}  // namespace

namespace portable {
#include "policies_layer.inl"
}

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#define POLVET_AVX2 1
#pragma GCC push_options
#pragma GCC target("avx2")
namespace avx2 {
#include "policies_layer.inl"
}
#pragma GCC pop_options
#endif

namespace {

using LayerKernel = void (*)(const float*, size_t, const Mlp::Layer&, float*, size_t, bool);
struct LayerKernels {
    LayerKernel four_rows, one_row;
    size_t (*bound_sums)(const float*, const float*, const Mlp::Layer&, float*, float*, int16_t*);
};

LayerKernels portable_kernels() { return {portable::four_rows, portable::one_row, portable::bound_sums}; }

LayerKernels best_kernels() {
#ifdef POLVET_AVX2
    if (__builtin_cpu_supports("avx2")) return {avx2::four_rows, avx2::one_row, avx2::bound_sums};
#endif
    return portable_kernels();
}

LayerKernels kernels = best_kernels();

constexpr size_t BLOCK = 4;

double power_of_two(int exponent) {
    const uint64_t bits = static_cast<uint64_t>(exponent + 1023) << 52;     // exponent within -102 .. 400 here
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

// Run R rows (4 or 1) through all layers; `a` and `b` hold R rows of hidden values each; returns where the scores stand.
const float* forward(const Mlp& net, LayerKernel kernel, const float* rows, float* a, float* b) {
    const float* x = rows;
    size_t stride = net.inputs;
    float* target = a;
    for (size_t l = 0; l < net.layers.size(); ++l) {
        kernel(x, stride, net.layers[l], target, net.widest, l + 1 < net.layers.size());
        x = target;
        stride = net.widest;
        target = target == a ? b : a;
    }
    return x;
}

// Call use(row index, scores of that row) for every row, in order.
template <class Use>
void for_each_scored_row(const Mlp& net, const float* rows, size_t n, Use use) {
    thread_local std::vector<float> hidden;
    hidden.resize(2 * BLOCK * net.widest);
    float* a = hidden.data();
    float* b = a + BLOCK * net.widest;
    size_t row = 0;
    for (; row + BLOCK <= n; row += BLOCK) {
        const float* result = forward(net, kernels.four_rows, rows + row * net.inputs, a, b);
        for (size_t r = 0; r < BLOCK; ++r) use(row + r, result + r * net.widest);
    }
    for (; row < n; ++row) use(row, forward(net, kernels.one_row, rows + row * net.inputs, a, b));
}

}  // namespace

void Mlp::add_layer(const float* weights, const float* bias, size_t layer_inputs, size_t layer_outputs) {
    if (layer_inputs == 0 || layer_outputs == 0) throw std::invalid_argument("a layer has no inputs or no outputs");
    if (!layers.empty() && layer_inputs != outputs)
        throw std::invalid_argument("layer " + std::to_string(layers.size()) + " takes " + std::to_string(layer_inputs) +
                                    " values, the layer before gives " + std::to_string(outputs));
    Layer layer;
    layer.inputs = layer_inputs;
    layer.outputs = layer_outputs;
    layer.padded = (layer_outputs + 7) / 8 * 8;
    layer.weights.assign(layer_inputs * layer.padded, 0.0f);
    layer.bias.assign(layer.padded, 0.0f);
    layer.bias_grain.assign(layer.padded, ZERO_GRAIN);
    layer.weight_grain.assign(layer_inputs * layer.padded, ZERO_GRAIN);
    for (size_t j = 0; j < layer_outputs; ++j) {
        layer.bias[j] = bias[j];
        layer.bias_grain[j] = grain_of(bias[j]);
        for (size_t k = 0; k < layer_inputs; ++k) {
            layer.weights[k * layer.padded + j] = weights[j * layer_inputs + k];
            layer.weight_grain[k * layer.padded + j] = grain_of(weights[j * layer_inputs + k]);
        }
    }
    layer.norm = layer.largest_bias = 0;
    for (size_t j = 0; j < layer_outputs; ++j) {
        double sum = 0;
        for (size_t k = 0; k < layer_inputs; ++k) sum += std::fabs(static_cast<double>(weights[j * layer_inputs + k]));
        layer.norm = std::max(layer.norm, sum * (1 + static_cast<double>(layer_inputs + 8) * 0x1p-50));
        layer.largest_bias = std::max(layer.largest_bias, std::fabs(static_cast<double>(bias[j])));
    }
    if (layers.empty()) inputs = layer_inputs;
    outputs = layer_outputs;
    widest = std::max(widest, layer.padded);
    layers.push_back(std::move(layer));
}

void Mlp::scores(const float* rows, size_t n, float* out) const {
    for_each_scored_row(*this, rows, n, [&](size_t row, const float* result) {
        std::memcpy(out + row * outputs, result, outputs * sizeof(float));
    });
}

void Mlp::scores(const float* rows, size_t n, double* out) const {
    for_each_scored_row(*this, rows, n, [&](size_t row, const float* result) {
        std::copy(result, result + outputs, out + row * outputs);
    });
}

void Mlp::choose(const float* rows, size_t n, const uint8_t* applicable, int32_t* out) const {
    for_each_scored_row(*this, rows, n, [&](size_t row, const float* result) {
        out[row] = best_index(result, outputs, applicable ? applicable + row * outputs : nullptr);
    });
}

// Standard analysis, layer by layer. With |x' - x| <= D for the inputs of a neuron of m summands, and gamma = m u / (1 - m u):
//   |score' - score| <= sum |w| D + gamma (sum |w| (|x| + D) + |b|) + gamma (sum |w| |x| + |b|) + what underflow can do,
// the two gammas for the two evaluations; each of the 2 m operations of an evaluation may underflow, or be flushed to zero.
// Exact: if all products and the bias are multiples of 2^e, e >= -126, and their absolute sum is at most 2^(e + 24), then every
// partial sum in every order is zero or a normal float32, so nothing is ever rounded.
// The sums are float32 themselves: at most 2 (m + 1) u is lost in them relatively, which `slack` more than gives back.
void Mlp::rounding_bounds(const float* rows, size_t n, float* out_scores, double* bounds) const {
    constexpr double u = 0x1p-24, eta = 0x1p-126;
    constexpr double outward = 1 + 0x1p-40;     // more than the double operations below can lose
    constexpr double huge = 0x1p126;            // far below the greatest float32: below this no order overflows
    constexpr double most_summands = 0x1p20;
    std::vector<float> x(std::max(widest, inputs)), y(widest), distance(std::max(widest, inputs)), magnitude(widest), moved(widest);
    std::vector<int16_t> grain(widest);
    std::vector<double> bound(widest);
    for (size_t row = 0; row < n; ++row) {
        std::copy(rows + row * inputs, rows + (row + 1) * inputs, x.begin());
        std::fill(distance.begin(), distance.end(), 0.0f);
        bool overflow = false;
        for (size_t l = 0; l < layers.size(); ++l) {
            const Layer& layer = layers[l];
            const bool last = l + 1 == layers.size();
            for (size_t j = 0; j < layer.padded; ++j) {
                magnitude[j] = std::fabs(layer.bias[j]);
                moved[j] = 0;
                grain[j] = layer.bias_grain[j];
            }
            const double summands = 1.0 + static_cast<double>(kernels.bound_sums(
                                              x.data(), distance.data(), layer, magnitude.data(), moved.data(), grain.data()));
            if (summands > most_summands) overflow = true;
            kernels.one_row(x.data(), layer.inputs, layer, y.data(), widest, false);
            const double gamma = summands * u / (1 - summands * u) * outward;
            const double slack = 1 + (summands + 8) * 0x1p-22;
            const double underflow = 16 * summands * eta;
            for (size_t j = 0; j < layer.outputs; ++j) {
                const double a = static_cast<double>(magnitude[j]) * slack, p = static_cast<double>(moved[j]) * slack;
                // SOUND: a grain above 10000 means that no summand but zeros is there: the value is 0 in every order.
                // The float32 sum is exact as long as it stays below 2^(24 + grain), so that comparing it needs no slack.
                const bool exact = grain[j] > 10000 || (grain[j] >= -126 && magnitude[j] < power_of_two(24 + grain[j]));
                bound[j] = exact ? 0 : (p + gamma * (2 * a + p) + underflow) * outward;
                if (!(a + p + bound[j] < huge)) overflow = true;
            }
            for (size_t j = 0; j < layer.outputs; ++j) {
                const bool cut = !last && y[j] <= 0;
                const double d = cut ? std::max(0.0, (static_cast<double>(y[j]) + bound[j]) * outward) : bound[j];
                x[j] = cut ? 0.0f : y[j];
                // At least d, as a float32.
                distance[j] = d == 0 ? 0.0f : static_cast<float>(d * (1 + 0x1p-22)) + std::numeric_limits<float>::denorm_min();
            }
        }
        for (size_t k = 0; k < outputs; ++k) {
            out_scores[row * outputs + k] = x[k];
            bounds[row * outputs + k] = overflow ? std::numeric_limits<double>::infinity() : bound[k];
        }
    }
}

// The same analysis with one number per layer: every neuron gets the greatest magnitude and the greatest distance.
double Mlp::coarse_bound(double largest) const {
    constexpr double u = 0x1p-24, eta = 0x1p-126, outward = 1 + 0x1p-20;
    double magnitude = largest, distance = 0;
    for (const Layer& layer : layers) {
        const double summands = static_cast<double>(layer.inputs) + 1;
        if (summands > 0x1p20) return std::numeric_limits<double>::infinity();
        const double gamma = summands * u / (1 - summands * u);
        const double slack = 1 + (summands + 8) * 0x1p-21;      // what the float32 sums of the fine bound are given, and more
        const double a = (layer.norm * magnitude + layer.largest_bias) * slack, p = layer.norm * distance * slack;
        distance = (p + gamma * (2 * a + p) + 32 * summands * eta) * outward;
        magnitude = a * (1 + gamma) + 32 * summands * eta;      // of the reference values
        if (!(a + p + distance < 0x1p126)) return std::numeric_limits<double>::infinity();
    }
    return distance;
}

void Mlp::choose_surely(const float* rows, size_t n, const uint8_t* applicable, int32_t* out, uint8_t* sure) const {
    std::vector<float> scores(outputs);
    std::vector<double> bounds(outputs);
    std::vector<uint8_t> possible(outputs);
    for_each_scored_row(*this, rows, n, [&](size_t row, const float* result) {
        const uint8_t* mask = applicable ? applicable + row * outputs : nullptr;
        const int32_t best = out[row] = best_index(result, outputs, mask);
        sure[row] = best == NOTHING_APPLICABLE;
        if (best < 0) return;
        float largest = 0, rival = -std::numeric_limits<float>::infinity();
        for (size_t k = 0; k < inputs; ++k) largest = std::max(largest, std::fabs(rows[row * inputs + k]));
        for (size_t k = 0; k < outputs; ++k)
            if (static_cast<int32_t>(k) != best && (!mask || mask[k])) rival = std::max(rival, result[k]);
        // Most choices are clear by far; only the others are worth the fine bound. An infinite score is never clear.
        const double margin = static_cast<double>(result[best]) - static_cast<double>(rival);
        if (std::isfinite(result[best]) && margin > 2 * coarse_bound(largest) * (1 + 0x1p-40)) {
            sure[row] = 1;
            return;
        }
        rounding_bounds(rows + row * inputs, 1, scores.data(), bounds.data());
        sure[row] = possible_choices(scores.data(), bounds.data(), outputs, mask, possible.data()) == 1;
    });
}

size_t possible_choices(const float* scores, const double* bounds, size_t outputs, const uint8_t* applicable, uint8_t* possible) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    auto upper = [&](size_t k) { return bounds[k] == 0 ? scores[k] : std::nextafter(scores[k] + bounds[k], infinity); };
    auto lower = [&](size_t k) { return bounds[k] == 0 ? scores[k] : std::nextafter(scores[k] - bounds[k], -infinity); };
    size_t count = 0;
    for (size_t k = 0; k < outputs; ++k) {
        possible[k] = !applicable || applicable[k];
        for (size_t i = 0; possible[k] && i < outputs; ++i) {
            if (i == k || (applicable && !applicable[i])) continue;
            // A comparison with NaN is false, so that a broken score excludes nobody.
            if (upper(k) < lower(i) || (upper(k) == lower(i) && i < k)) possible[k] = 0;
        }
        count += possible[k];
    }
    return count;
}

// ---- tree ensembles ------------------------------------------------------------------------------------------------

Trees::Trees(const Description& d) {
    inputs = d.inputs;
    outputs = d.outputs;
    divisor = d.divisor;
    wide = d.wide;
    strict = d.strict;
    base64.assign(d.base, d.base + d.outputs);
    values64.assign(d.values, d.values + d.value_count);
    if (!wide) {
        base32.assign(base64.begin(), base64.end());
        values32.assign(values64.begin(), values64.end());
    }
    std::vector<char> seen(d.node_count, 0);
    auto enter = [&](int32_t node) {
        if (node < 0 || static_cast<size_t>(node) >= d.node_count)
            throw std::invalid_argument("a tree points to node " + std::to_string(node) + ", which does not exist");
        if (seen[static_cast<size_t>(node)]++)
            throw std::invalid_argument("node " + std::to_string(node) + " has two parents");
    };
    for (size_t t = 0; t < d.tree_count; ++t) {
        // Breadth first, so that brothers stand side by side and the tops of trees share cache lines.
        const size_t first = nodes.size();
        const bool vector_leaves = d.tree_output[t] < 0;
        if (!vector_leaves && static_cast<size_t>(d.tree_output[t]) >= outputs)
            throw std::invalid_argument("tree " + std::to_string(t) + " adds to an output that does not exist");
        std::vector<int32_t> order{d.roots[t]}, level{0};
        enter(d.roots[t]);
        for (size_t i = 0; i < order.size(); ++i) {
            const size_t node = static_cast<size_t>(order[i]);
            Node packed{};
            if (d.feature[node] < 0) {
                packed.threshold = std::numeric_limits<float>::quiet_NaN();
                packed.left = static_cast<int32_t>(first + i) - 1;
                packed.payload = d.leaf[node];
                if (d.leaf[node] < 0 || static_cast<size_t>(d.leaf[node]) + (vector_leaves ? outputs : 1) > d.value_count)
                    throw std::invalid_argument("leaf " + std::to_string(node) + " has no value");
            } else {
                if (static_cast<size_t>(d.feature[node]) >= inputs)
                    throw std::invalid_argument("node " + std::to_string(node) + " tests an input that does not exist");
                if (std::isnan(d.threshold[node]))
                    throw std::invalid_argument("node " + std::to_string(node) + " has a threshold that is not a number");
                enter(d.left[node]);
                enter(d.right[node]);
                packed.threshold = d.threshold[node];
                packed.left = static_cast<int32_t>(first + order.size());
                packed.feature = d.feature[node];
                packed.payload = d.flags[node];
                zero_is_missing |= static_cast<Missing>(d.flags[node] >> 1) == Missing::zero;
                order.insert(order.end(), {d.left[node], d.right[node]});
                level.insert(level.end(), {level[i] + 1, level[i] + 1});
            }
            nodes.push_back(packed);
        }
        roots.push_back(static_cast<int32_t>(first));
        depth.push_back(level.back());
        tree_output.push_back(d.tree_output[t]);
    }
}

namespace {

bool goes_left(float x, float threshold, bool strict) { return strict ? x < threshold : x <= threshold; }

// The walk with missing values; `fast_walk` below is the same without.
const Trees::Node& careful_walk(const Trees& trees, const float* row, size_t tree) {
    size_t node = static_cast<size_t>(trees.roots[tree]);
    for (;;) {
        const Trees::Node& at = trees.nodes[node];
        if (std::isnan(at.threshold)) return at;
        float x = row[at.feature];
        const Missing missing = static_cast<Missing>(at.payload >> 1);
        if (std::isnan(x) && missing != Missing::nan) x = 0.0f;
        // LightGBM calls |x| <= float(1e-35) zero.
        const bool absent = missing == Missing::nan ? std::isnan(x) : missing == Missing::zero && std::fabs(x) <= 1e-35f;
        const bool left = absent ? (at.payload & 1) != 0 : goes_left(x, at.threshold, trees.strict);
        node = static_cast<size_t>(at.left) + (left ? 0 : 1);
    }
}

constexpr size_t WALKERS = 8;       // rows that walk down one tree side by side, to hide the latency of loads
constexpr size_t TREE_BLOCK = 64;
constexpr int32_t SHALLOW = 16;     // up to this depth every walker takes `depth` steps; deeper trees are walked to the leaf

template <bool strict>
inline size_t step(const Trees::Node* nodes, size_t node, const float* row) {
    const Trees::Node& at = nodes[node];
    const float x = row[at.feature];
    // A leaf's threshold is NaN: the comparison fails and left + 1 is the leaf itself.
    const bool left = strict ? x < at.threshold : x <= at.threshold;
    return static_cast<size_t>(at.left + (left ? 0 : 1));
}

template <bool strict>
void fast_walk(const Trees& trees, const float* rows, size_t count, size_t tree, size_t* leaves) {
    const Trees::Node* nodes = trees.nodes.data();
    const size_t root = static_cast<size_t>(trees.roots[tree]), width = trees.inputs;
    if (trees.depth[tree] <= SHALLOW) {
        if (count == WALKERS) {
            size_t at[WALKERS];
            for (size_t r = 0; r < WALKERS; ++r) at[r] = root;
            const int32_t depth = trees.depth[tree];
            for (int32_t d = 0; d < depth; ++d)
#pragma GCC unroll 8
                for (size_t r = 0; r < WALKERS; ++r) at[r] = step<strict>(nodes, at[r], rows + r * width);
            std::copy(at, at + WALKERS, leaves);
        } else {
            for (size_t r = 0; r < count; ++r) {
                size_t at = root;
                for (int32_t d = 0; d < trees.depth[tree]; ++d) at = step<strict>(nodes, at, rows + r * width);
                leaves[r] = at;
            }
        }
        return;
    }
    for (size_t r = 0; r < count; ++r) {
        size_t at = root;
        for (size_t next; (next = step<strict>(nodes, at, rows + r * width)) != at;) at = next;
        leaves[r] = at;
    }
}

// Call use(row index, scores of that row) for every row, in order; Real is the arithmetic of the ensemble.
template <class Real, class Use>
void for_each_scored_row(const Trees& trees, const float* rows, size_t n, Use use) {
    const size_t outputs = trees.outputs;
    const Real* values;
    const Real* base;
    if constexpr (std::is_same_v<Real, double>) {
        values = trees.values64.data();
        base = trees.base64.data();
    } else {
        values = trees.values32.data();
        base = trees.base32.data();
    }
    thread_local std::vector<Real> sums;
    sums.resize(TREE_BLOCK * outputs);
    Real* acc = sums.data();
    for (size_t row = 0; row < n; row += TREE_BLOCK) {
        // All rows of a block pass one tree before the next, so that its nodes are fetched once per block.
        const size_t count = std::min(TREE_BLOCK, n - row);
        const float* block = rows + row * trees.inputs;
        bool careful[TREE_BLOCK / WALKERS];
        for (size_t first = 0; first < count; first += WALKERS) {
            const size_t end = std::min(first + WALKERS, count) * trees.inputs;
            bool missing = trees.zero_is_missing;
            for (size_t i = first * trees.inputs; i < end; ++i) missing |= block[i] != block[i];
            careful[first / WALKERS] = missing;
        }
        for (size_t r = 0; r < count; ++r) std::copy(base, base + outputs, acc + r * outputs);
        for (size_t t = 0; t < trees.roots.size(); ++t) {
            size_t leaves[TREE_BLOCK];
            for (size_t first = 0; first < count; first += WALKERS) {
                const size_t group = std::min(WALKERS, count - first);
                const float* start = block + first * trees.inputs;
                if (careful[first / WALKERS])
                    for (size_t r = 0; r < group; ++r)
                        leaves[first + r] =
                            static_cast<size_t>(&careful_walk(trees, start + r * trees.inputs, t) - trees.nodes.data());
                else if (trees.strict)
                    fast_walk<true>(trees, start, group, t, leaves + first);
                else
                    fast_walk<false>(trees, start, group, t, leaves + first);
            }
            const int32_t output = trees.tree_output[t];
            for (size_t r = 0; r < count; ++r) {
                const Real* leaf = values + trees.nodes[leaves[r]].payload;
                if (output >= 0)
                    acc[r * outputs + static_cast<size_t>(output)] += *leaf;
                else
                    for (size_t k = 0; k < outputs; ++k) acc[r * outputs + k] += leaf[k];
            }
        }
        if (trees.divisor != 0)
            for (size_t i = 0; i < count * outputs; ++i) acc[i] /= static_cast<Real>(trees.divisor);
        for (size_t r = 0; r < count; ++r) use(row + r, acc + r * outputs);
    }
}

template <class Use>
void for_each_scored_row(const Trees& trees, const float* rows, size_t n, Use use) {
    if (trees.wide)
        for_each_scored_row<double>(trees, rows, n, use);
    else
        for_each_scored_row<float>(trees, rows, n, use);
}

}  // namespace

void Trees::scores(const float* rows, size_t n, float* out) const {
    for_each_scored_row(*this, rows, n, [&](size_t row, const auto* result) {
        for (size_t k = 0; k < outputs; ++k) out[row * outputs + k] = static_cast<float>(result[k]);
    });
}

void Trees::scores(const float* rows, size_t n, double* out) const {
    for_each_scored_row(*this, rows, n, [&](size_t row, const auto* result) {
        std::copy(result, result + outputs, out + row * outputs);
    });
}

void Trees::choose(const float* rows, size_t n, const uint8_t* applicable, int32_t* out) const {
    for_each_scored_row(*this, rows, n, [&](size_t row, const auto* result) {
        out[row] = best_index(result, outputs, applicable ? applicable + row * outputs : nullptr);
    });
}

int32_t Trees::leaf_of(const float* row, size_t tree) const { return careful_walk(*this, row, tree).payload; }

// ---- bindings ------------------------------------------------------------------------------------------------------

}  // namespace polvet

namespace nb = nanobind;
using namespace polvet;

namespace {

using Rows = nb::ndarray<const float, nb::shape<-1, -1>, nb::c_contig, nb::device::cpu>;
using Mask = nb::ndarray<const uint8_t, nb::shape<-1, -1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Vector = nb::ndarray<const T, nb::shape<-1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Result = nb::ndarray<nb::numpy, T>;

template <class T>
Result<T> own(std::vector<T>&& data, std::initializer_list<size_t> shape) {
    auto* kept = new std::vector<T>(std::move(data));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return Result<T>(kept->data(), shape, owner);
}

void check_rows(const Scorer& scorer, const Rows& rows) {
    if (rows.shape(1) != scorer.inputs)
        throw nb::value_error(("rows have " + std::to_string(rows.shape(1)) + " columns, the policy has " +
                               std::to_string(scorer.inputs) + " inputs").c_str());
}

template <class T>
Result<T> scores_of(const Scorer& scorer, const Rows& rows) {
    check_rows(scorer, rows);
    const size_t n = rows.shape(0);
    std::vector<T> out(n * scorer.outputs);
    {
        nb::gil_scoped_release unlocked;
        scorer.scores(rows.data(), n, out.data());
    }
    return own(std::move(out), {n, scorer.outputs});
}

Result<int32_t> choices_of(const Scorer& scorer, const Rows& rows, const std::optional<Mask>& applicable) {
    check_rows(scorer, rows);
    const size_t n = rows.shape(0);
    if (applicable && (applicable->shape(0) != n || applicable->shape(1) != scorer.outputs))
        throw nb::value_error("the mask must have one row per row and one column per output");
    std::vector<int32_t> out(n);
    {
        nb::gil_scoped_release unlocked;
        scorer.choose(rows.data(), n, applicable ? applicable->data() : nullptr, out.data());
    }
    return own(std::move(out), {n});
}

// XGBoost's own map from a probability to a margin, with the C library's float logarithm, as it computes it.
float float32_logit(float probability) { return -std::log(1.0f / probability - 1.0f); }

}  // namespace

void bind_policies(nb::module_& m) {
    nb::class_<Scorer>(m, "Scorer", "Rows of inputs to scores; the base of Mlp and Trees.")
        .def_ro("inputs", &Scorer::inputs)
        .def_ro("outputs", &Scorer::outputs)
        .def("scores32", &scores_of<float>, nb::arg("rows").noconvert())
        .def("scores64", &scores_of<double>, nb::arg("rows").noconvert())
        .def("choose", &choices_of, nb::arg("rows").noconvert(), nb::arg("applicable").none());
    nb::class_<Mlp, Scorer>(m, "Mlp", "A fully connected ReLU network in one fixed order of float32 operations.")
        .def("__init__", [](Mlp* self, const std::vector<std::pair<Rows, Vector<float>>>& layers) {
            Mlp net;
            for (const auto& [weights, bias] : layers) {
                if (weights.shape(0) != bias.shape(0)) throw nb::value_error("a layer's bias does not fit its weights");
                net.add_layer(weights.data(), bias.data(), weights.shape(1), weights.shape(0));
            }
            if (net.layers.empty()) throw nb::value_error("a network has no layers");
            new (self) Mlp(std::move(net));
        })
        .def("rounding_bounds", [](const Mlp& net, const Rows& rows) {
            check_rows(net, rows);
            const size_t n = rows.shape(0);
            std::vector<float> scores(n * net.outputs);
            std::vector<double> bounds(n * net.outputs);
            {
                nb::gil_scoped_release unlocked;
                net.rounding_bounds(rows.data(), n, scores.data(), bounds.data());
            }
            return std::make_pair(own(std::move(scores), {n, net.outputs}), own(std::move(bounds), {n, net.outputs}));
        }, nb::arg("rows").noconvert(), "The scores, and per score how far any other evaluation order can get from it.")
        .def("coarse_bound", &Mlp::coarse_bound, nb::arg("largest"))
        .def("choose_surely", [](const Mlp& net, const Rows& rows, const std::optional<Mask>& applicable) {
            check_rows(net, rows);
            const size_t n = rows.shape(0);
            if (applicable && (applicable->shape(0) != n || applicable->shape(1) != net.outputs))
                throw nb::value_error("the mask must have one row per row and one column per output");
            std::vector<int32_t> choices(n);
            std::vector<uint8_t> sure(n);
            {
                nb::gil_scoped_release unlocked;
                net.choose_surely(rows.data(), n, applicable ? applicable->data() : nullptr, choices.data(), sure.data());
            }
            return std::make_pair(own(std::move(choices), {n}), own(std::move(sure), {n}));
        }, nb::arg("rows").noconvert(), nb::arg("applicable").none(), "The choices, and whether every order makes the same.")
        .def("possible", [](const Mlp& net, const Rows& rows, const std::optional<Mask>& applicable) {
            check_rows(net, rows);
            const size_t n = rows.shape(0), k = net.outputs;
            if (applicable && (applicable->shape(0) != n || applicable->shape(1) != k))
                throw nb::value_error("the mask must have one row per row and one column per output");
            std::vector<float> scores(n * k);
            std::vector<double> bounds(n * k);
            std::vector<uint8_t> possible(n * k);
            {
                nb::gil_scoped_release unlocked;
                net.rounding_bounds(rows.data(), n, scores.data(), bounds.data());
                for (size_t r = 0; r < n; ++r)
                    possible_choices(scores.data() + r * k, bounds.data() + r * k, k,
                                     applicable ? applicable->data() + r * k : nullptr, possible.data() + r * k);
            }
            return own(std::move(possible), {n, k});
        }, nb::arg("rows").noconvert(), nb::arg("applicable").none(), "Which outputs some evaluation order chooses.");
    nb::class_<Trees, Scorer>(m, "Trees", "A tree ensemble: sums of leaves in tree order, float32 or float64.")
        .def("__init__",
             [](Trees* self, size_t inputs, Vector<int32_t> roots, Vector<int32_t> tree_output, Vector<int32_t> feature,
                Vector<float> threshold, Vector<int32_t> left, Vector<int32_t> right, Vector<uint8_t> flags,
                Vector<int32_t> leaf, Vector<double> values, Vector<double> base, double divisor, bool wide, bool strict) {
                 const size_t count = feature.size();
                 if (threshold.size() != count || left.size() != count || right.size() != count || flags.size() != count ||
                     leaf.size() != count || roots.size() != tree_output.size())
                     throw nb::value_error("the arrays of a tree ensemble differ in length");
                 new (self) Trees({inputs, base.size(), count, roots.size(), values.size(), roots.data(), tree_output.data(),
                                   feature.data(), threshold.data(), left.data(), right.data(), flags.data(), leaf.data(),
                                   values.data(), base.data(), divisor, wide, strict});
             })
        .def("leaves", [](const Trees& trees, const Rows& rows) {
            check_rows(trees, rows);
            const size_t n = rows.shape(0), count = trees.roots.size();
            std::vector<int32_t> out(n * count);
            for (size_t r = 0; r < n; ++r)
                for (size_t t = 0; t < count; ++t) out[r * count + t] = trees.leaf_of(rows.data() + r * trees.inputs, t);
            return own(std::move(out), {n, count});
        }, nb::arg("rows").noconvert(), "Where the values of the leaf start that each row reaches in each tree.");
    m.def("float32_logit", &float32_logit);
    m.def("use_portable_network_kernel", [](bool portable) { kernels = portable ? portable_kernels() : best_kernels(); },
          "Switch the AVX2 code off (True) or on again; for tests that compare the bits.");
    m.attr("NOTHING_APPLICABLE") = NOTHING_APPLICABLE;
    m.attr("SCORE_IS_NAN") = SCORE_IS_NAN;
}
