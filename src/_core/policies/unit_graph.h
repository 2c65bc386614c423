// Networks as graphs of vector nodes in topological order: affine maps, units, products. All values of one row stand on one tape:
// first the inputs, then each node's values, each node at a place that is a whole number of vectors.
//
// Reference evaluation  affine: acc = bias; for k = 0, 1, ...: acc = round(acc + round(weight[k] * x[k])), all float32, not fused;
//                       unit: its value in double, rounded to float32; product: round(x * y)
// Any other evaluation  sums in any order, constant factors multiplied into their neighbours, units within their enclosure of the
//                       true value at their own input (policies/units.h): `rounding_bounds` says how far that leads
#pragma once
#include <variant>
#include <vector>

#include "policies/policies.h"
#include "policies/units.h"

namespace polvet {

struct UnitGraph final : Enclosed {
    using Columns = std::vector<uint32_t>;  // places on the tape

    struct Affine {
        Columns columns;       // dense: [terms], shared by all outputs; sparse: [outputs][terms]
        bool dense, adjacent;  // adjacent: the columns stand side by side on the tape
        bool scaled = false;   // constant factors are applied to its values, which libraries may multiply into its weights
        size_t terms, roundings;
        std::vector<float> weights, bias, sizes;  // sparse weights [outputs][terms]; sizes: at least |bias|, what it is made of
        std::vector<DenseLayer> layer;            // dense: one
        double norm = 0, largest_size = 0;        // the greatest sum of |weights| of an output; the greatest size
    };
    struct Unit {
        UnitKind kind;
        Columns columns;
        std::vector<double> a, b;
        bool uniform;  // all columns have the same a and b
    };
    struct Product {
        Columns left, right;
    };
    struct Node {
        size_t begin, size;  // on the tape
        std::variant<Affine, Unit, Product> what;
        std::vector<size_t> parents;  // 0: the inputs, k + 1: node k
    };

    explicit UnitGraph(size_t inputs);
    // Columns are numbered without gaps: the inputs, then the values of each node as it was added.
    void add_affine(const Columns& columns, bool shared, const float* weights, const float* bias, const float* sizes, size_t outputs,
                    size_t roundings);
    void add_unit(UnitKind kind, const Columns& columns, const float* a, const float* b);
    void add_product(const Columns& left, const Columns& right);
    void finish(const Columns& scores, bool softmax);

    std::vector<Node> nodes;
    Columns score_columns;
    size_t tape = 0;  // its length

    void scores(const float* rows, size_t n, float* out) const override;
    void scores(const float* rows, size_t n, double* out) const override;
    void choose(const float* rows, size_t n, const uint8_t* applicable, int32_t* out) const override;
    void rounding_bounds(const float* rows, size_t n, float* scores, double* bounds) const override;
    double coarse_bound(double largest) const override;
    void choose_surely(const float* rows, size_t n, const uint8_t* applicable, int32_t* out, uint8_t* sure) const override;

private:
    Columns place_of_;  // per column without gaps, its place on the tape
    Columns placed(const Columns& columns) const;
    std::vector<size_t> parents_of(const Columns& columns) const;
    Node& append(std::variant<Affine, Unit, Product> what, size_t size, const Columns& reads);
    void forward(size_t count, float* values) const;
    template <class Use> void for_each_scored_row(const float* rows, size_t n, Use use) const;
};

}  // namespace polvet
