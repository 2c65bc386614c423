// Policies as scorers: one row of inputs in, one score per label out. Other kernels call these structs without Python.
//
// Arithmetic (docs/policies.md states it for readers; tests compare it with Python twins and with the libraries):
//   Mlp    every neuron: acc = bias; for k = 0, 1, ...: acc = round(acc + round(weight[k] * x[k])), all float32, no fused
//          operation; between layers x = acc > 0 ? acc : +0. The same bits on every processor: SIMD lanes hold different
//          neurons, never parts of one sum.
//   Trees  every output: acc = base; for each tree in order: acc = round(acc + leaf), in float32 (narrow) or float64 (wide);
//          at the end acc / divisor where the ensemble averages.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace polvet {

// What `choose` writes where there is no choice.
constexpr int32_t NOTHING_APPLICABLE = -1;
constexpr int32_t SCORE_IS_NAN = -2;

struct Scorer {
    size_t inputs = 0;
    size_t outputs = 0;
    virtual ~Scorer() = default;

    // out[n][outputs]. A wide tree ensemble rounds its float64 scores to float32 here: decide with `choose`, never with these.
    virtual void scores(const float* rows, size_t n, float* out) const = 0;
    // The scores in the arithmetic they were computed in (float32 is exact in float64).
    virtual void scores(const float* rows, size_t n, double* out) const = 0;
    // out[n]: the best label among the applicable ones (all, where applicable is null); ties go to the lowest index.
    // applicable[n][outputs] holds 0 or 1.
    virtual void choose(const float* rows, size_t n, const uint8_t* applicable, int32_t* out) const = 0;
};

// A score that is at most so far behind the best one has a probability in float32 that is no denormal number, however many there are.
constexpr double SOFTMAX_REACH = 70;

// A scorer that libraries evaluate in several ways: sums in any order, smooth units within an enclosure.
struct Enclosed : Scorer {
    // bounds[n][outputs]: how far any float32 evaluation, fused or not, can get from the reference score; 0 where every
    // intermediate value is exact in every order; infinite where some order may overflow. Fills scores[n][outputs], too.
    virtual void rounding_bounds(const float* rows, size_t n, float* scores, double* bounds) const = 0;
    // At least the distance to the reference scores of a row whose inputs are at most `largest` in size: a few operations per layer.
    virtual double coarse_bound(double largest) const = 0;
    // As `choose`, and sure[n] = 1 where every evaluation chooses the same (nothing applicable is sure, NaN is not).
    virtual void choose_surely(const float* rows, size_t n, const uint8_t* applicable, int32_t* out, uint8_t* sure) const = 0;

    bool softmax = false;  // what is executed ends with a softmax, which may level scores that are close or turn them round

protected:
    // SOUND: two scores that are further apart than these keep their order behind a softmax in float32 (measured: docs/policies.md). What
    // is far behind the best score may have the probability 0, which levels all that is so far behind.
    static double softmax_slack(double size, double behind) {
        const double close = 0x1p-20 * (size > behind ? (size > 1 ? size : 1) : behind > 1 ? behind : 1);
        return behind > SOFTMAX_REACH && behind - SOFTMAX_REACH > close ? behind - SOFTMAX_REACH : close;
    }
    // Whether every evaluation chooses `best`, which the reference scores choose.
    bool is_sure(const float* row, const float* scores, int32_t best, const uint8_t* mask) const;
};

// An affine map of one vector, laid out for the kernel.
struct DenseLayer {
    size_t inputs, outputs, padded;     // padded: outputs rounded up to whole vectors
    std::vector<float> weights;         // [inputs][padded]: transposed, so that lanes are neurons
    std::vector<float> bias;            // [padded]
    std::vector<int16_t> weight_grain;  // [inputs][padded]: the exponent of the lowest bit of each weight, ZERO_GRAIN for 0
    std::vector<int16_t> bias_grain;    // [padded]
    double norm, largest_bias;          // the greatest sum of |weights| of a neuron, rounded up; the greatest |bias|

    DenseLayer(const float* weights /* [outputs][inputs] */, const float* bias, size_t inputs, size_t outputs);
    // out[r] = the layer's values for R rows (4 or 1), with ReLU where `rectify`; `out` has room for the padded width.
    void run(size_t rows, const float* x, size_t x_stride, float* out, size_t out_stride, bool rectify) const;
    // What rounding bounds rest on, for one row, added to the three vectors: per neuron the sum of |weight| |x|, the sum of
    // |weight| distance, and the exponent of which every product is a multiple. Returns how many inputs are not surely zero.
    size_t bound_sums(const float* x, const float* distance, float* magnitude, float* moved, int16_t* grain) const;
};

constexpr int16_t INEXACT_GRAIN = -10000;  // with any weight but zero this is below every grain
int16_t grain_of(float x);                 // the exponent of the lowest set bit: x is an odd multiple of 2^grain

struct Mlp final : Enclosed {
    using Layer = DenseLayer;
    std::vector<Layer> layers;
    size_t widest = 0;  // the largest padded width

    void rounding_bounds(const float* rows, size_t n, float* scores, double* bounds) const override;
    double coarse_bound(double largest) const override;
    void choose_surely(const float* rows, size_t n, const uint8_t* applicable, int32_t* out, uint8_t* sure) const override;
    void add_layer(const float* weights /* [outputs][inputs] */, const float* bias, size_t layer_inputs, size_t layer_outputs);
    void scores(const float* rows, size_t n, float* out) const override;
    void scores(const float* rows, size_t n, double* out) const override;
    void choose(const float* rows, size_t n, const uint8_t* applicable, int32_t* out) const override;
};

void use_portable_network_kernel(bool portable);  // switch the AVX2 code off (or on again), for tests that compare the bits

enum class Missing : uint8_t {
    none = 0,  // NaN is read as 0 (LightGBM)
    zero = 1,  // NaN and zero go to the default child (LightGBM)
    nan = 2,   // NaN goes to the default child (XGBoost, scikit-learn, LightGBM)
};

struct Trees final : Scorer {
    struct Node {
        float threshold;  // a leaf has NaN: every comparison fails, so a walk that reached a leaf stays there
        int32_t left;     // the right child is left + 1; a leaf has its own index - 1
        int32_t feature;
        int32_t payload;  // inner: default_left | missing << 1; leaf: where its values start
    };
    // The description that the constructor takes: one entry per node, trees in order, children by node index.
    struct Description {
        size_t inputs, outputs, node_count, tree_count, value_count;
        const int32_t* roots;        // [tree_count]
        const int32_t* tree_output;  // [tree_count]: the output a tree's scalar leaves add to; -1: leaves are vectors
        const int32_t* feature;      // [node_count]; -1: leaf
        const float* threshold;      // [node_count]
        const int32_t* left;
        const int32_t* right;
        const uint8_t* flags;  // default_left | missing << 1
        const int32_t* leaf;   // where a leaf's values start
        const double* values;  // [value_count]
        const double* base;    // [outputs]
        double divisor;        // 0: no averaging
        bool wide, strict;     // float64 sums; x < threshold (else x <= threshold) goes left
    };
    // Which leaves a row can still reach, a bit per leaf from left to right: every test that fails cuts off the leaves of its
    // left subtree, and the first leaf that is left over is the one a walk ends in (QuickScorer, Lucchese et al., SIGIR 2015).
    // Tests on one input are sorted by threshold, and for each place between two thresholds the cuts are joined beforehand.
    struct Masks {
        struct Input {
            uint32_t feature;
            std::vector<float> thresholds;  // ascending, each once
            size_t first;                   // where the masks of the lowest place stand
            int32_t lowest;                 // of the whole numbers that `place` knows
            std::vector<uint16_t> place;    // whole number - lowest: how many thresholds it is not left of
        };
        size_t padded = 0;  // trees, rounded up to whole blocks; 0: the ensemble is walked instead
        std::vector<Input> inputs;
        std::vector<uint32_t> table;       // [place of each input][padded]
        std::vector<size_t> column;        // of each tree in the table: trees of one output stand together
        std::vector<size_t> output_begin;  // per output where its columns begin; empty where leaves are vectors
        std::vector<float> values32;       // [column][32]: the leaves of scalar trees
        std::vector<double> values64;
        std::vector<int32_t> leaf_begin, leaf;  // per tree where its leaves begin; where their values start, from left to right
    };
    std::vector<Node> nodes;
    Masks masks;
    std::vector<int32_t> roots, depth, tree_output;
    std::vector<float> values32, base32;
    std::vector<double> values64, base64;
    double divisor = 0;
    bool wide = false, strict = true, zero_is_missing = false;

    explicit Trees(const Description& description);
    void make_masks();
    void scores(const float* rows, size_t n, float* out) const override;
    void scores(const float* rows, size_t n, double* out) const override;
    void choose(const float* rows, size_t n, const uint8_t* applicable, int32_t* out) const override;
    // The leaf (start of its values) that `row` reaches in tree `tree`.
    int32_t leaf_of(const float* row, size_t tree) const;
};

// possible[k] = 1 where label k is the choice of some scores within `bounds` of `scores`; returns how many there are.
// SOUND: k can win unless some applicable i beats it for every rounding; sums are rounded outwards.
size_t possible_choices(const float* scores, const double* bounds, size_t outputs, const uint8_t* applicable, uint8_t* possible);

constexpr int16_t ZERO_GRAIN = 30000;

void use_walking_trees(bool walking);  // walk every tree (or use masks again), for tests that compare the bits

// The index of the best applicable score, NOTHING_APPLICABLE, or SCORE_IS_NAN where an applicable score is not a number.
template <class Real> inline int32_t best_index(const Real* scores, size_t outputs, const uint8_t* applicable) {
    int32_t best = NOTHING_APPLICABLE;
    for (size_t k = 0; k < outputs; ++k) {
        if (applicable && !applicable[k]) continue;
        if (scores[k] != scores[k]) return SCORE_IS_NAN;
        if (best < 0 || scores[k] > scores[size_t(best)]) best = int32_t(k);
    }
    return best;
}

}  // namespace polvet
