// Python's view of the policies.
#include <cmath>
#include <string>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/arrays.h"
#include "boxes/relax.h"
#include "policies/policies.h"
#include "policies/unit_graph.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace polvet {
namespace {

using Rows = nb::ndarray<const float, nb::shape<-1, -1>, nb::c_contig, nb::device::cpu>;
using Mask = nb::ndarray<const uint8_t, nb::shape<-1, -1>, nb::c_contig, nb::device::cpu>;
template <class T> using Result = nb::ndarray<nb::numpy, T>;

void check_rows(const Scorer& scorer, const Rows& rows) {
    if (rows.shape(1) != scorer.inputs)
        throw nb::value_error(
            ("rows have " + std::to_string(rows.shape(1)) + " columns, the policy has " + std::to_string(scorer.inputs) + " inputs")
                .c_str());
}

template <class T> Result<T> scores_of(const Scorer& scorer, const Rows& rows) {
    check_rows(scorer, rows);
    const size_t n = rows.shape(0);
    std::vector<T> out(n * scorer.outputs);
    {
        nb::gil_scoped_release unlocked;
        scorer.scores(rows.data(), n, out.data());
    }
    return give(std::move(out), {n, scorer.outputs});
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
    return give(std::move(out), {n});
}

// XGBoost's own map from a probability to a margin, with the C library's float logarithm, as it computes it.
float float32_logit(float probability) { return -std::log(1.0f / probability - 1.0f); }

UnitKind unit_kind(const std::string& name) {
    for (size_t k = 0; k < UNIT_NAMES.size(); ++k)
        if (name == UNIT_NAMES[k]) return UnitKind(k);
    throw nb::value_error(("there is no unit '" + name + "'").c_str());
}

}  // namespace

void bind_policies(nb::module_& m) {
    nb::class_<Scorer>(m, "Scorer", "Rows of inputs to scores; the base of Mlp and Trees.")
        .def_ro("inputs", &Scorer::inputs)
        .def_ro("outputs", &Scorer::outputs)
        .def("scores32", &scores_of<float>, "rows"_a.noconvert())
        .def("scores64", &scores_of<double>, "rows"_a.noconvert())
        .def("choose", &choices_of, "rows"_a.noconvert(), "applicable"_a.none());
    nb::class_<Enclosed, Scorer>(m, "Enclosed", "A scorer that libraries evaluate in several ways; the base of Mlp and UnitGraph.")
        .def(
            "rounding_bounds",
            [](const Enclosed& net, const Rows& rows) {
                check_rows(net, rows);
                const size_t n = rows.shape(0);
                std::vector<float> scores(n * net.outputs);
                std::vector<double> bounds(n * net.outputs);
                {
                    nb::gil_scoped_release unlocked;
                    net.rounding_bounds(rows.data(), n, scores.data(), bounds.data());
                }
                return std::make_pair(give(std::move(scores), {n, net.outputs}), give(std::move(bounds), {n, net.outputs}));
            },
            "rows"_a.noconvert(), "The scores, and per score how far any other evaluation order can get from it.")
        .def("coarse_bound", &Enclosed::coarse_bound, "largest"_a)
        .def(
            "choose_surely",
            [](const Enclosed& net, const Rows& rows, const std::optional<Mask>& applicable) {
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
                return std::make_pair(give(std::move(choices), {n}), give(std::move(sure), {n}));
            },
            "rows"_a.noconvert(), "applicable"_a.none(), "The choices, and whether every order makes the same.")
        .def(
            "possible",
            [](const Enclosed& net, const Rows& rows, const std::optional<Mask>& applicable) {
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
                        possible_choices(scores.data() + r * k, bounds.data() + r * k, k, applicable ? applicable->data() + r * k : nullptr,
                                         possible.data() + r * k);
                }
                return give(std::move(possible), {n, k});
            },
            "rows"_a.noconvert(), "applicable"_a.none(), "Which outputs some evaluation order chooses.");
    nb::class_<Mlp, Enclosed>(m, "Mlp", "A fully connected ReLU network in one fixed order of float32 operations.")
        .def(
            "__init__",
            [](Mlp* self, const std::vector<std::pair<Rows, In<float>>>& layers, bool softmax) {
                Mlp net;
                for (const auto& [weights, bias] : layers) {
                    if (weights.shape(0) != bias.shape(0)) throw nb::value_error("a layer's bias does not fit its weights");
                    net.add_layer(weights.data(), bias.data(), weights.shape(1), weights.shape(0));
                }
                if (net.layers.empty()) throw nb::value_error("a network has no layers");
                net.softmax = softmax;
                new (self) Mlp(std::move(net));
            },
            "layers"_a, "softmax"_a = false);
    nb::class_<UnitGraph, Enclosed>(m, "UnitGraph", "A network as a graph of affine maps, units and products, in topological order.")
        .def(
            "__init__", [](UnitGraph* self, size_t inputs) { new (self) UnitGraph(inputs); }, "inputs"_a)
        .def(
            "add_affine",
            [](UnitGraph& graph, const std::vector<uint32_t>& columns, bool shared, const Rows& weights, const In<float>& bias,
               const In<float>& sizes, size_t roundings) {
                const size_t outputs = weights.shape(0);
                if (bias.shape(0) != outputs || sizes.shape(0) != outputs || columns.size() != weights.shape(1) * (shared ? 1 : outputs))
                    throw nb::value_error("the parts of an affine node do not fit");
                graph.add_affine(columns, shared, weights.data(), bias.data(), sizes.data(), outputs, roundings);
            },
            "columns"_a, "shared"_a, "weights"_a.noconvert(), "bias"_a.noconvert(), "sizes"_a.noconvert(), "roundings"_a)
        .def(
            "add_unit",
            [](UnitGraph& graph, const std::string& name, const std::vector<uint32_t>& columns, const In<float>& a, const In<float>& b) {
                if (a.shape(0) != columns.size() || b.shape(0) != columns.size()) throw nb::value_error("the parts of a unit do not fit");
                graph.add_unit(unit_kind(name), columns, a.data(), b.data());
            },
            "name"_a, "columns"_a, "a"_a.noconvert(), "b"_a.noconvert())
        .def("add_product", &UnitGraph::add_product, "left"_a, "right"_a)
        .def("finish", &UnitGraph::finish, "scores"_a, "softmax"_a);
    m.def(
        "unit_value", [](const std::string& name, double x, double a, double b) { return units::value(unit_kind(name), x, a, b); },
        "name"_a, "x"_a, "a"_a, "b"_a);
    m.def(
        "unit_slopes",
        [](const std::string& name, double low, double high, double a, double b) {
            const units::Range range = units::slopes(unit_kind(name), low, high, a, b);
            return std::make_pair(range.least, range.most);
        },
        "name"_a, "low"_a, "high"_a, "a"_a, "b"_a, "The least and greatest derivative over an interval.");
    m.def(
        "unit_lines",
        [](const std::string& name, double low, double high, double a, double b) {
            const Relaxer relaxer(unit_kind(name), low, high, a, b);
            const Line below = relaxer.line(-1), above = relaxer.line(1);
            return std::vector<double>{below.slope,    below.constant,        above.slope,
                                       above.constant, -relaxer.greatest(-1), relaxer.greatest(1)};
        },
        "name"_a, "low"_a, "high"_a, "a"_a, "b"_a,
        "Slope and constant of a line below and of one above the unit over an interval; its least and greatest value.");
    nb::class_<Trees, Scorer>(m, "Trees", "A tree ensemble: sums of leaves in tree order, float32 or float64.")
        .def(
            "__init__",
            [](Trees* self, size_t inputs, In<int32_t> roots, In<int32_t> tree_output, In<int32_t> feature, In<float> threshold,
               In<int32_t> left, In<int32_t> right, In<uint8_t> flags, In<int32_t> leaf, In<double> values, In<double> base, double divisor,
               bool wide, bool strict) {
                const size_t count = feature.size();
                if (threshold.size() != count || left.size() != count || right.size() != count || flags.size() != count ||
                    leaf.size() != count || roots.size() != tree_output.size())
                    throw nb::value_error("the arrays of a tree ensemble differ in length");
                new (self) Trees({inputs, base.size(), count, roots.size(), values.size(), roots.data(), tree_output.data(), feature.data(),
                                  threshold.data(), left.data(), right.data(), flags.data(), leaf.data(), values.data(), base.data(),
                                  divisor, wide, strict});
            },
            "inputs"_a, "roots"_a, "tree_output"_a, "feature"_a, "threshold"_a, "left"_a, "right"_a, "flags"_a, "leaf"_a, "values"_a,
            "base"_a, "divisor"_a, "wide"_a, "strict"_a)
        .def(
            "leaves",
            [](const Trees& trees, const Rows& rows) {
                check_rows(trees, rows);
                const size_t n = rows.shape(0), count = trees.roots.size();
                std::vector<int32_t> out(n * count);
                for (size_t r = 0; r < n; ++r)
                    for (size_t t = 0; t < count; ++t) out[r * count + t] = trees.leaf_of(rows.data() + r * trees.inputs, t);
                return give(std::move(out), {n, count});
            },
            "rows"_a.noconvert(), "Where the values of the leaf start that each row reaches in each tree.");
    m.def("float32_logit", &float32_logit, "probability"_a);
    m.def("use_portable_network_kernel", &use_portable_network_kernel, "portable"_a,
          "Switch the AVX2 code off (True) or on again; for tests that compare the bits.");
    m.def("use_walking_trees", &use_walking_trees, "walking"_a,
          "Walk every tree (True) or use masks again; for tests that compare the bits.");
    m.attr("NOTHING_APPLICABLE") = NOTHING_APPLICABLE;
    m.attr("SCORE_IS_NAN") = SCORE_IS_NAN;
}

}  // namespace polvet
