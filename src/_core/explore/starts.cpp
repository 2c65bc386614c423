// All states satisfying a condition: counted, numbered and drawn without listing them.
//
// The condition is read variable by variable; what is left of it after a value (vm/residual.h) is a node, and nodes that
// are equal are one. The result is a decision diagram whose paths are the states. Numbers of states below each node
// make every state addressable by its rank in lexicographic order: sampling uniformly is drawing a rank.
// The slow twin is Semantics.states_satisfying in model/semantics.py.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "bindings/listener.h"
#include "store/limits.h"
#include "vm/residual.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace polvet {
namespace {

using Count = Uint128;

struct Arc {
    int64_t lo, hi;
    int32_t child;
};  // child -1: nothing is left to satisfy
struct DiagramNode {
    int32_t level;
    uint32_t begin, end;
};

class Diagram {
public:
    Residuals terms;
    Status status = Status::DONE;
    Fault fault = Fault::NONE;
    int32_t fault_level = -1;
    int64_t fault_value = 0;
    bool overflowed = false;

    void compile(int32_t root, Limits& limits) {
        levels_ = int32_t(terms.domains().size());
        std::map<int32_t, std::vector<int32_t>> waiting;  // by level: terms that are nodes
        root_ = place(root, waiting);
        while (!waiting.empty() && status == Status::DONE) {
            auto [level, list] = *waiting.begin();
            waiting.erase(waiting.begin());
            for (int32_t term : list) {
                expand(node_of_[term], term, level, waiting, limits);
                if (status != Status::DONE) return;
            }
        }
        tally();
    }

    size_t bytes() const { return terms.bytes() + nodes_.capacity() * 12 + arcs_.capacity() * sizeof(Arc) + node_of_.size() * 16; }
    size_t nodes() const { return nodes_.size(); }
    Count total() const { return total_; }

    // The state of that rank, one value per level.
    void unrank(Count rank, int64_t* values) const {
        Count here = total_;
        int32_t node = root_, level = 0;
        for (;;) {
            int32_t end = node < 0 ? levels_ : nodes_[node].level;
            for (; level < end; ++level) {
                here /= width(level);
                values[level] = terms.domains()[level].lo + int64_t(split(rank, here));
            }
            if (node < 0) return;
            const DiagramNode& n = nodes_[node];
            const Count* first = before_.data() + n.begin;
            uint32_t arc = uint32_t(std::upper_bound(first, before_.data() + n.end, rank) - before_.data()) - 1;
            rank -= before_[arc];
            const Arc& a = arcs_[arc];
            here = below(a.child, level + 1);
            values[level] = a.lo + int64_t(split(rank, here));
            ++level;
            node = a.child;
        }
    }

    const std::vector<DiagramNode>& diagram_nodes() const { return nodes_; }
    const std::vector<Arc>& arcs() const { return arcs_; }
    int32_t root() const { return root_; }
    bool empty() const { return empty_; }

private:
    // The quotient of rank by size; the remainder stays in rank.
    static uint64_t split(Count& rank, Count size) {
        if (rank >> 64 == 0 && size >> 64 == 0) {
            uint64_t r = uint64_t(rank), s = uint64_t(size), q = r / s;
            rank = r - q * s;
            return q;
        }
        Count q = rank / size;
        rank -= q * size;
        return uint64_t(q);
    }
    Count width(int32_t level) const { return Count(uint64_t(terms.domains()[level].hi) - uint64_t(terms.domains()[level].lo)) + 1; }

    // The node of a term; -1 for true.
    int32_t place(int32_t term, std::map<int32_t, std::vector<int32_t>>& waiting) {
        if (terms.is_true(term)) return -1;
        if (terms.is_false(term)) {
            empty_ = true;
            return -1;
        }
        if (terms.is_fault(term)) {
            fault = terms.fault_of(term);
            status = Status::FAULT;
            return -1;
        }
        auto [entry, is_new] = node_of_.try_emplace(term, int32_t(nodes_.size()));
        if (is_new) {
            nodes_.push_back({terms[term].level, 0, 0});
            waiting[terms[term].level].push_back(term);
        }
        return entry->second;
    }

    void expand(int32_t node, int32_t term, int32_t level, std::map<int32_t, std::vector<int32_t>>& waiting, Limits& limits) {
        struct Piece {
            int64_t lo, hi;
            int32_t term;
        };
        const Range domain = terms.domains()[level];
        std::vector<Piece> stack{{domain.lo, domain.hi, term}};
        uint32_t begin = uint32_t(arcs_.size());
        while (!stack.empty()) {
            Piece piece = stack.back();
            stack.pop_back();
            // A single node may have as many pieces as its variable has values.
            if (++pieces_ % 256 == 0 && (status = limits.poll(bytes(), pieces_, nodes_.size())) != Status::DONE) return;
            if (terms.is_false(piece.term)) continue;
            if (terms[piece.term].level != level) {  // the same answer for the whole piece
                int32_t child = place(piece.term, waiting);
                if (status == Status::FAULT) {
                    fault_level = level;
                    fault_value = piece.lo;
                    return;
                }
                if (arcs_.size() > begin && arcs_.back().child == child && arcs_.back().hi + 1 == piece.lo) arcs_.back().hi = piece.hi;
                else arcs_.push_back({piece.lo, piece.hi, child});
                continue;
            }
            uint64_t width = uint64_t(piece.hi) - uint64_t(piece.lo);
            if (width < 4) {
                for (int64_t value = piece.hi;; --value) {
                    stack.push_back({value, value, terms.narrow(piece.term, level, value, value)});
                    if (value == piece.lo) break;
                }
                continue;
            }
            int64_t middle = piece.lo + int64_t(width / 2);
            stack.push_back({middle + 1, piece.hi, terms.narrow(piece.term, level, middle + 1, piece.hi)});
            stack.push_back({piece.lo, middle, terms.narrow(piece.term, level, piece.lo, middle)});
        }
        nodes_[node].begin = begin;
        nodes_[node].end = uint32_t(arcs_.size());
    }

    Count times(Count a, Count b) {
        Count result;
        if (multiply_overflows(a, b, &result)) overflowed = true;
        return result;
    }

    // States below a child when the levels from `level` on are still open.
    Count below(int32_t child, int32_t level) const {
        int32_t end = child < 0 ? levels_ : nodes_[child].level;
        Count result = child < 0 ? 1 : count_[child];
        for (; level < end; ++level) result *= width(level);
        return result;
    }
    Count below_checked(int32_t child, int32_t level) {
        int32_t end = child < 0 ? levels_ : nodes_[child].level;
        Count result = child < 0 ? 1 : count_[child];
        for (; level < end; ++level) result = times(result, width(level));
        return result;
    }

    void tally() {
        if (status != Status::DONE) return;
        count_.assign(nodes_.size(), 0);
        before_.assign(arcs_.size(), 0);
        std::vector<int32_t> order(nodes_.size());
        for (size_t k = 0; k < order.size(); ++k) order[k] = int32_t(k);
        std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return nodes_[a].level > nodes_[b].level; });
        for (int32_t node : order) {
            Count sum = 0;
            for (uint32_t k = nodes_[node].begin; k < nodes_[node].end; ++k) {
                before_[k] = sum;
                const Arc& arc = arcs_[k];
                Count more = times(Count(uint64_t(arc.hi) - uint64_t(arc.lo)) + 1, below_checked(arc.child, nodes_[node].level + 1));
                if (add_overflows(sum, more, &sum)) overflowed = true;
            }
            count_[node] = sum;
        }
        total_ = empty_ ? 0 : below_checked(root_, 0);
    }

    int32_t levels_ = 0, root_ = -1;
    uint64_t pieces_ = 0;
    bool empty_ = false;
    Count total_ = 0;
    std::vector<DiagramNode> nodes_;
    std::vector<Arc> arcs_;
    std::vector<Count> count_, before_;  // per node; per arc: states of its node before it
    std::unordered_map<int32_t, int32_t> node_of_;
};

template <class T> nb::ndarray<nb::numpy, T> owned(std::vector<T>&& values, std::vector<size_t> shape) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::ndarray<nb::numpy, T>(kept->data(), shape.size(), shape.data(), owner);
}

}  // namespace

void bind_starts(nb::module_& m) {
    nb::class_<Diagram>(m, "Diagram", "The states satisfying a condition, as a decision diagram over variables in a fixed order.")
        .def(nb::init<>())
        .def(
            "integer", [](Diagram& d, int64_t value) { return d.terms.integer(value); }, "value"_a)
        .def(
            "number", [](Diagram& d, double value) { return d.terms.number(value); }, "value"_a)
        .def(
            "variable", [](Diagram& d, int64_t lower, int64_t upper) { return d.terms.variable(lower, upper); }, "lower"_a, "upper"_a)
        .def(
            "term",
            [](Diagram& d, int op, int aux, int64_t constant, std::vector<int32_t> children, std::vector<int64_t> factors) {
                return d.terms.term(Term(op), aux, constant, children, factors);
            },
            "op"_a, "aux"_a, "constant"_a, "children"_a, "factors"_a)
        .def(
            "compile",
            [](Diagram& d, int32_t root, double seconds, uint64_t bytes, Progress progress) {
                Limits limits{seconds, bytes, UINT64_MAX, listening(progress)};
                nb::gil_scoped_release release;
                d.compile(root, limits);
            },
            "root"_a, "seconds"_a, "bytes"_a, "progress"_a)
        .def_ro("status", &Diagram::status)
        .def_ro("fault", &Diagram::fault)
        .def_ro("fault_level", &Diagram::fault_level)
        .def_ro("fault_value", &Diagram::fault_value)
        .def_ro("overflowed", &Diagram::overflowed)
        .def_prop_ro("nodes", &Diagram::nodes)
        .def_prop_ro(
            "total", [](const Diagram& d) { return std::pair<uint64_t, uint64_t>(d.total() >> 64, uint64_t(d.total())); },
            "The number of states as (high, low) 64-bit words.")
        .def(
            "unrank",
            [](const Diagram& d, nb::ndarray<const uint64_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu> ranks) {
                size_t n = ranks.shape(0), levels = d.terms.domains().size();
                std::vector<int64_t> values(n * levels);
                {
                    nb::gil_scoped_release release;
                    for (size_t k = 0; k < n; ++k) {
                        Count rank = Count(ranks.data()[2 * k]) << 64 | ranks.data()[2 * k + 1];
                        if (rank < d.total()) d.unrank(rank, values.data() + k * levels);
                    }
                }
                return owned(std::move(values), {n, levels});
            },
            "ranks"_a, "One row of values (one per level) for each rank given as (high, low) words.")
        .def(
            "structure",
            [](const Diagram& d) {
                std::vector<std::tuple<int32_t, uint32_t, uint32_t>> nodes;
                std::vector<std::tuple<int64_t, int64_t, int32_t>> arcs;
                for (const DiagramNode& n : d.diagram_nodes()) nodes.push_back({n.level, n.begin, n.end});
                for (const Arc& a : d.arcs()) arcs.push_back({a.lo, a.hi, a.child});
                return std::make_tuple(d.empty() ? -2 : d.root(), nodes, arcs);
            },
            "root (-1: everything, -2: nothing), nodes (level, first arc, end), arcs (lower, upper, child).");
}

}  // namespace polvet
