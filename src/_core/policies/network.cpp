// Evaluate networks, one row or many, with one fixed order of float operations (see policies/policies.h).
#include "policies/policies.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

#include "store/portable.h"

namespace polvet {

int16_t grain_of(float x) {
    if (x == 0) return ZERO_GRAIN;
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    const uint32_t exponent = bits >> 23 & 0xff, fraction = bits & 0x7fffff;
    const uint32_t mantissa = exponent ? fraction | 0x800000 : fraction;
    return int16_t(int(exponent ? exponent : 1) - 150 + lowest_bit(mantissa));
}

namespace portable {
#include "policies/layer.inl"
}

#ifdef POLVET_AVX2
#pragma GCC push_options
#pragma GCC target("avx2")
namespace avx2 {
#include "policies/layer.inl"
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
    if (POLVET_HAS_AVX2()) return {avx2::four_rows, avx2::one_row, avx2::bound_sums};
#endif
    return portable_kernels();
}

LayerKernels kernels = best_kernels();

constexpr size_t BLOCK = 4;

double power_of_two(int exponent) {
    const uint64_t bits = uint64_t(exponent + 1023) << 52;  // exponent within -102 .. 400 here
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
template <class Use> void for_each_scored_row(const Mlp& net, const float* rows, size_t n, Use use) {
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

DenseLayer::DenseLayer(const float* w, const float* b, size_t inputs_, size_t outputs_)
    : inputs(inputs_), outputs(outputs_), padded((outputs_ + 7) / 8 * 8), norm(0), largest_bias(0) {
    weights.assign(inputs * padded, 0.0f);
    bias.assign(padded, 0.0f);
    bias_grain.assign(padded, ZERO_GRAIN);
    weight_grain.assign(inputs * padded, ZERO_GRAIN);
    for (size_t j = 0; j < outputs; ++j) {
        bias[j] = b[j];
        bias_grain[j] = grain_of(b[j]);
        double sum = 0;
        for (size_t k = 0; k < inputs; ++k) {
            weights[k * padded + j] = w[j * inputs + k];
            weight_grain[k * padded + j] = grain_of(w[j * inputs + k]);
            sum += std::fabs(double(w[j * inputs + k]));
        }
        norm = std::max(norm, sum * (1 + double(inputs + 8) * 0x1p-50));
        largest_bias = std::max(largest_bias, std::fabs(double(b[j])));
    }
}

void DenseLayer::run(size_t rows, const float* x, size_t x_stride, float* out, size_t out_stride, bool rectify) const {
    (rows == BLOCK ? kernels.four_rows : kernels.one_row)(x, x_stride, *this, out, out_stride, rectify);
}

size_t DenseLayer::bound_sums(const float* x, const float* distance, float* magnitude, float* moved, int16_t* grain) const {
    return kernels.bound_sums(x, distance, *this, magnitude, moved, grain);
}

void Mlp::add_layer(const float* weights, const float* bias, size_t layer_inputs, size_t layer_outputs) {
    if (layer_inputs == 0 || layer_outputs == 0) throw std::invalid_argument("a layer has no inputs or no outputs");
    if (!layers.empty() && layer_inputs != outputs)
        throw std::invalid_argument("layer " + std::to_string(layers.size()) + " takes " + std::to_string(layer_inputs) +
                                    " values, the layer before gives " + std::to_string(outputs));
    layers.emplace_back(weights, bias, layer_inputs, layer_outputs);
    if (layers.size() == 1) inputs = layer_inputs;
    outputs = layer_outputs;
    widest = std::max(widest, layers.back().padded);
}

void Mlp::scores(const float* rows, size_t n, float* out) const {
    for_each_scored_row(*this, rows, n,
                        [&](size_t row, const float* result) { std::memcpy(out + row * outputs, result, outputs * sizeof(float)); });
}

void Mlp::scores(const float* rows, size_t n, double* out) const {
    for_each_scored_row(*this, rows, n, [&](size_t row, const float* result) { std::copy(result, result + outputs, out + row * outputs); });
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
    constexpr double outward = 1 + 0x1p-40;  // more than the double operations below can lose
    constexpr double huge = 0x1p126;         // far below the greatest float32: below this no order overflows
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
            const double summands =
                1.0 + double(kernels.bound_sums(x.data(), distance.data(), layer, magnitude.data(), moved.data(), grain.data()));
            if (summands > most_summands) overflow = true;
            kernels.one_row(x.data(), layer.inputs, layer, y.data(), widest, false);
            const double gamma = summands * u / (1 - summands * u) * outward;
            const double slack = 1 + (summands + 8) * 0x1p-22;
            const double underflow = 16 * summands * eta;
            for (size_t j = 0; j < layer.outputs; ++j) {
                const double a = double(magnitude[j]) * slack, p = double(moved[j]) * slack;
                // SOUND: a grain above 10000 means that no summand but zeros is there: the value is 0 in every order.
                // The float32 sum is exact as long as it stays below 2^(24 + grain), so that comparing it needs no slack.
                const bool exact = grain[j] > 10000 || (grain[j] >= -126 && magnitude[j] < power_of_two(24 + grain[j]));
                bound[j] = exact ? 0 : (p + gamma * (2 * a + p) + underflow) * outward;
                if (!(a + p + bound[j] < huge)) overflow = true;
            }
            for (size_t j = 0; j < layer.outputs; ++j) {
                const bool cut = !last && y[j] <= 0;
                const double d = cut ? std::max(0.0, (double(y[j]) + bound[j]) * outward) : bound[j];
                x[j] = cut ? 0.0f : y[j];
                // At least d, as a float32.
                distance[j] = d == 0 ? 0.0f : float(d * (1 + 0x1p-22)) + std::numeric_limits<float>::denorm_min();
            }
        }
        double best = -std::numeric_limits<double>::infinity();
        for (size_t k = 0; k < outputs; ++k) best = std::max(best, double(x[k]) + bound[k]);
        for (size_t k = 0; k < outputs; ++k) {
            const double z = x[k];
            if (softmax) bound[k] = (bound[k] + softmax_slack(std::fabs(z) + bound[k], best - z + bound[k])) * outward;
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
        const double summands = double(layer.inputs) + 1;
        if (summands > 0x1p20) return std::numeric_limits<double>::infinity();
        const double gamma = summands * u / (1 - summands * u);
        const double slack = 1 + (summands + 8) * 0x1p-21;  // what the float32 sums of the fine bound are given, and more
        const double a = (layer.norm * magnitude + layer.largest_bias) * slack, p = layer.norm * distance * slack;
        distance = (p + gamma * (2 * a + p) + 32 * summands * eta) * outward;
        magnitude = a * (1 + gamma) + 32 * summands * eta;  // of the reference values
        if (!(a + p + distance < 0x1p126)) return std::numeric_limits<double>::infinity();
    }
    return softmax ? (distance + softmax_slack(magnitude, 2 * magnitude + 2 * distance)) * outward : distance;
}

bool Enclosed::is_sure(const float* row, const float* scores, int32_t best, const uint8_t* mask) const {
    float largest = 0, rival = -std::numeric_limits<float>::infinity();
    for (size_t k = 0; k < inputs; ++k) largest = std::max(largest, std::fabs(row[k]));
    for (size_t k = 0; k < outputs; ++k)
        if (int32_t(k) != best && (!mask || mask[k])) rival = std::max(rival, scores[k]);
    // Most choices are clear by far; only the others are worth the fine bound. An infinite score is never clear.
    const double margin = double(scores[best]) - double(rival);
    if (std::isfinite(scores[best]) && margin > 2 * coarse_bound(largest) * (1 + 0x1p-40)) return true;
    std::vector<float> again(outputs);
    std::vector<double> bounds(outputs);
    std::vector<uint8_t> possible(outputs);
    rounding_bounds(row, 1, again.data(), bounds.data());
    return possible_choices(again.data(), bounds.data(), outputs, mask, possible.data()) == 1;
}

void Mlp::choose_surely(const float* rows, size_t n, const uint8_t* applicable, int32_t* out, uint8_t* sure) const {
    for_each_scored_row(*this, rows, n, [&](size_t row, const float* result) {
        const uint8_t* mask = applicable ? applicable + row * outputs : nullptr;
        const int32_t best = out[row] = best_index(result, outputs, mask);
        sure[row] = best == NOTHING_APPLICABLE || (best >= 0 && is_sure(rows + row * inputs, result, best, mask));
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

void use_portable_network_kernel(bool portable) { kernels = portable ? portable_kernels() : best_kernels(); }

}  // namespace polvet
