// Python's view of longest walks, strongly connected components and breadth-first trees.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "bindings/arrays.h"
#include "termination/graphs.h"
#include "termination/longest_walks.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace polvet {

namespace {

using Ends = In<int64_t>;

void check_ends(uint32_t size, const Ends& sources, const Ends& targets) {
    if (sources.shape(0) != targets.shape(0)) throw nb::value_error("sources and targets differ in length");
    if (sources.shape(0) >= UINT32_MAX || size == UINT32_MAX) throw nb::value_error("the graph is too large");
    for (size_t e = 0; e < sources.shape(0); ++e)
        for (const int64_t end : {sources.data()[e], targets.data()[e]})
            if (end < 0 || end >= int64_t(size)) throw nb::value_error("an edge leaves the graph");
}

// The graph, and how far each of the two searches has come.
struct Search {
    LongestWalks walks;
    std::vector<double> reals;
    std::vector<int64_t> wholes;
};

template <class T> using Longest = std::variant<nb::ndarray<nb::numpy, T>, std::vector<nb::ndarray<nb::numpy, int64_t>>>;

template <class T>
std::optional<Longest<T>> run(Search& self, const In<T>& weights, T tolerance, uint64_t sweeps, const std::optional<In<T>>& start,
                              std::vector<T>& longest) {
    if (weights.shape(0) != self.walks.edges()) throw nb::value_error("one weight is needed for every edge");
    if ((start ? start->shape(0) : longest.size()) != self.walks.size()) throw nb::value_error("one value is needed for every node");
    if (start) longest.assign(start->data(), start->data() + start->shape(0));
    LongestWalks::Outcome outcome;
    {
        nb::gil_scoped_release release;
        outcome = start ? self.walks.begin(weights.data(), tolerance, sweeps, longest)
                        : self.walks.go_on(weights.data(), tolerance, sweeps, longest);
    }
    if (outcome == LongestWalks::Outcome::POTENTIAL) return give(std::vector<T>(longest));
    if (outcome == LongestWalks::Outcome::MORE) return std::nullopt;
    std::vector<nb::ndarray<nb::numpy, int64_t>> cycles;
    for (const auto& cycle : self.walks.cycles) cycles.push_back(give(std::vector<int64_t>(cycle)));
    return cycles;
}

}  // namespace

void bind_termination(nb::module_& m) {
    nb::class_<Search>(m, "LongestWalks")
        .def(
            "__init__",
            [](Search* self, uint32_t size, Ends sources, Ends targets) {
                check_ends(size, sources, targets);
                new (self) Search{LongestWalks(size, sources.data(), targets.data(), sources.shape(0)), {}, {}};
            },
            "size"_a, "sources"_a, "targets"_a)
        .def(
            "search_real",
            [](Search& self, In<double> weights, double tolerance, uint64_t sweeps, std::optional<In<double>> start) {
                return run(self, weights, tolerance, sweeps, start, self.reals);
            },
            "weights"_a, "tolerance"_a, "sweeps"_a, "start"_a,
            "Longest walks as an array, or a list of cycles of positive weight; None where more sweeps are needed (start=None goes on).")
        .def(
            "search_whole",
            [](Search& self, In<int64_t> weights, uint64_t sweeps, std::optional<In<int64_t>> start) {
                return run(self, weights, int64_t(0), sweeps, start, self.wholes);
            },
            "weights"_a, "sweeps"_a, "start"_a, "The same in whole numbers, exactly.");
    m.def(
        "strong_components",
        [](uint32_t size, Ends sources, Ends targets) {
            check_ends(size, sources, targets);
            return give(strong_components(size, sources.data(), targets.data(), sources.shape(0)));
        },
        "size"_a, "sources"_a, "targets"_a,
        "The number of each node's strongly connected component, -1 where no cycle leads through it; successors come first.");
    m.def(
        "breadth_first",
        [](uint32_t size, Ends sources, Ends targets) {
            check_ends(size, sources, targets);
            SearchTree tree = breadth_first(size, sources.data(), targets.data(), sources.shape(0));
            return std::make_tuple(give(std::move(tree.order)), give(std::move(tree.entered)));
        },
        "size"_a, "sources"_a, "targets"_a, "The nodes in the order met from node 0, and the edge each was entered by.");
}

}  // namespace polvet
