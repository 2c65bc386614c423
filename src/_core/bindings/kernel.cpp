// Python's view of programs, machines and state spaces.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings/arrays.h"
#include "bindings/listener.h"
#include "explore/explore.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace polvet {

// The number of SETW instructions from `entry` on, -1 where another one comes before HALT.
static int32_t constants_of(const Program& program, int32_t entry) {
    if (entry < 0) return -1;
    const Instruction* const begin = program.code.data() + entry;
    const Instruction* end = begin;
    while (end->op == SETW) ++end;
    return end->op == HALT ? int32_t(end - begin) : -1;
}

static std::shared_ptr<Program> make_program(nb::dict d) {
    auto p = std::make_shared<Program>();
    auto code = nb::cast<Array<int32_t>>(d["code"]);
    for (size_t k = 0; k < code.shape(0); ++k) {
        const int32_t* row = code.data() + 4 * k;
        p->code.push_back({row[0], row[1], row[2], row[3]});
        p->writes_scratch = p->writes_scratch || row[0] == STR;
    }
    p->registers = nb::cast<std::vector<int64_t>>(d["registers"]);
    p->words = nb::cast<uint32_t>(d["words"]);
    p->variables = nb::cast<uint32_t>(d["variables"]);
    p->slots = nb::cast<uint32_t>(d["slots"]);
    p->most_branches = nb::cast<uint64_t>(d["most_branches"]);
    p->masks = nb::cast<std::vector<uint64_t>>(d["masks"]);
    auto field = [](nb::handle h) {
        auto t = nb::cast<nb::tuple>(h);
        return Field{nb::cast<uint32_t>(t[0]), nb::cast<uint32_t>(t[1]), nb::cast<uint64_t>(t[2]), nb::cast<int64_t>(t[3]),
                     nb::cast<uint64_t>(t[4]), nb::cast<bool>(t[5]),     nb::cast<double>(t[6]),   nb::cast<double>(t[7])};
    };
    for (nb::handle h : nb::cast<nb::list>(d["fields"])) p->fields.push_back(field(h));
    for (nb::handle h : nb::cast<nb::list>(d["scratch_bounds"])) p->scratch_bounds.push_back(field(h));
    for (nb::handle h : nb::cast<nb::list>(d["jumps"])) {
        auto [base, targets, otherwise] = nb::cast<std::tuple<int64_t, std::vector<int32_t>, int32_t>>(h);
        p->jumps.push_back({base, targets, otherwise});
    }
    p->tables = nb::cast<std::vector<std::vector<int32_t>>>(d["tables"]);
    for (auto [begin, end, computed] : nb::cast<std::vector<std::tuple<uint32_t, uint32_t, int32_t>>>(d["edges"]))
        p->edges.push_back({begin, end, computed});
    for (auto [probability, fast, begin, end] : nb::cast<std::vector<std::tuple<double, int32_t, uint32_t, uint32_t>>>(d["branches"]))
        p->branches.push_back({probability, fast, begin, end, constants_of(*p, fast)});
    for (auto& [chances, reads] : nb::cast<std::vector<std::pair<std::vector<int32_t>, std::vector<int32_t>>>>(d["computed_edges"]))
        p->chances.edges.push_back({chances, reads});
    for (auto [op, a, b, c] : nb::cast<std::vector<std::tuple<int32_t, int32_t, int32_t, int32_t>>>(d["chance_nodes"]))
        p->chances.nodes.push_back({ChanceOp(op), a, b, c});
    for (auto& [is_whole, negative, above, below] :
         nb::cast<std::vector<std::tuple<bool, bool, std::string, std::string>>>(d["chance_numbers"]))
        p->chances.constants.push_back(
            constant_of(is_whole, Rational(negative, Natural::from_hexadecimal(above), Natural::from_hexadecimal(below))));
    p->chances.lists = nb::cast<std::vector<std::vector<int32_t>>>(d["chance_lists"]);
    for (auto [index, code_] : nb::cast<std::vector<std::pair<int32_t, int32_t>>>(d["careful"])) p->careful.push_back({index, code_});
    for (auto [label, careful, begin, end] : nb::cast<std::vector<std::tuple<int32_t, bool, uint32_t, uint32_t>>>(d["joints"]))
        p->joints.push_back({label, careful, begin, end});
    p->menus = nb::cast<std::vector<int32_t>>(d["menus"]);
    p->menu_refs = nb::cast<std::vector<uint32_t>>(d["menu_refs"]);
    auto loads = [&](const std::vector<uint32_t>& slots) {
        std::vector<Load> reads;
        for (const uint32_t slot : slots) {
            const Field& f = p->fields.at(slot);
            reads.push_back({f.mask, f.real ? 0 : f.lower, f.word, f.shift, slot});
        }
        return reads;
    };
    auto pieces = [&](const char* name) {
        std::vector<Piece> result;
        for (auto& [entry, slots] : nb::cast<std::vector<std::pair<int32_t, std::vector<uint32_t>>>>(d[name]))
            result.push_back({entry, loads(slots)});
        return result;
    };
    p->reads = loads(nb::cast<std::vector<uint32_t>>(d["reads"]));
    p->lead = nb::cast<int32_t>(d["lead"]);
    p->conditions = pieces("conditions");
    p->state_rewards = pieces("state_rewards");
    p->step_rewards = pieces("step_rewards");
    p->disable_out_of_bounds = nb::cast<bool>(d["disable_out_of_bounds"]);
    p->uniform = nb::cast<bool>(d["uniform"]);
    return p;
}

void bind_kernel(nb::module_& m) {
    nb::enum_<Status>(m, "Status")
        .value("DONE", Status::DONE)
        .value("TIME", Status::TIME)
        .value("MEMORY", Status::MEMORY)
        .value("STATES", Status::STATES)
        .value("INTERRUPTED", Status::INTERRUPTED)
        .value("FAULT", Status::FAULT);
    nb::enum_<Fault>(m, "Fault")
        .value("NONE", Fault::NONE)
        .value("OUT_OF_BOUNDS", Fault::OUT_OF_BOUNDS)
        .value("OVERFLOWED", Fault::OVERFLOWED)
        .value("DIVISION", Fault::DIVISION)
        .value("INDEX", Fault::INDEX)
        .value("WRITTEN_TWICE", Fault::WRITTEN_TWICE)
        .value("PROBABILITY", Fault::PROBABILITY)
        .value("NOT_FINITE", Fault::NOT_FINITE)
        .value("TOO_MANY", Fault::TOO_MANY);

    nb::class_<Program>(m, "Program")
        .def_static(
            "make", [](nb::dict d) { return std::const_pointer_cast<Program>(std::shared_ptr<const Program>(make_program(d))); }, "data"_a)
        .def_ro("words", &Program::words)
        .def_prop_ro("instructions", [](const Program& p) { return p.code.size(); });

    nb::class_<Machine>(m, "Machine")
        .def(
            "__init__",
            [](Machine* self, std::shared_ptr<Program> p) {
                new (self) Machine(p);
                self->want_edges = true;
            },
            "program"_a)
        .def_prop_ro("fault", [](const Machine& self) { return self.fault; })
        .def(
            "unpack",
            [](const Machine& self, Array<uint64_t> states) {
                size_t n = states.shape(0), v = self.program->variables;
                std::vector<int64_t> values(n * v);
                for (size_t k = 0; k < n; ++k) self.unpack(states.data() + k * self.program->words, values.data() + k * v);
                return give(std::move(values), {n, v});
            },
            "states"_a, "One row of slot values per packed state; reals as the bits of a double.")
        .def(
            "pack",
            [](const Machine& self, Array<int64_t> values) {
                size_t n = values.shape(0), w = self.program->words;
                std::vector<uint64_t> states(n * w);
                for (size_t k = 0; k < n; ++k)
                    if (!self.pack(values.data() + k * self.program->variables, states.data() + k * w))
                        throw nb::value_error("a value is outside its variable's bounds");
                return give(std::move(states), {n, w});
            },
            "values"_a)
        .def(
            "holds",
            [](Machine& self, size_t condition, Array<uint64_t> states) {
                size_t n = states.shape(0);
                std::vector<uint8_t> truth(n);
                {
                    nb::gil_scoped_release release;
                    for (size_t k = 0; k < n; ++k) truth[k] = self.holds(condition, states.data() + k * self.program->words);
                }
                return give(std::move(truth));
            },
            "condition"_a, "states"_a)
        .def(
            "state_rewards",
            [](Machine& self, Array<uint64_t> state) {
                std::vector<double> values;
                for (const Piece& reward : self.program->state_rewards)
                    values.push_back(reward.entry < 0 ? 0 : as_real(self.value(reward, state.data())));
                return values;
            },
            "state"_a)
        .def(
            "moves",
            [](Machine& self, Array<uint64_t> state, bool rewards) {
                using Outcome = std::tuple<double, std::vector<uint64_t>, std::vector<double>>;
                using Move = std::tuple<int32_t, std::vector<int32_t>, std::vector<Outcome>>;
                Expansion e;
                self.want_rewards = rewards;
                bool good = self.expand(state.data(), e);
                self.want_rewards = false;
                std::optional<std::vector<Move>> result;
                if (!good) return result;
                result.emplace();
                const size_t words = self.program->words, kinds = self.program->step_rewards.size();
                for (size_t k = 0; k < e.moves.size(); ++k) {
                    const MoveRecord& move = e.moves[k];
                    std::vector<Outcome> branches;
                    for (uint32_t b = move.begin; b < move.end; ++b) {
                        std::vector<uint64_t> target(e.words.begin() + b * words, e.words.begin() + (b + 1) * words);
                        std::vector<double> earned;
                        if (rewards) earned.assign(e.rewards.begin() + b * kinds, e.rewards.begin() + (b + 1) * kinds);
                        branches.emplace_back(e.probability[b], std::move(target), std::move(earned));
                    }
                    size_t end = k + 1 < e.edge_begin.size() ? e.edge_begin[k + 1] : e.edges.size();
                    std::vector<int32_t> edges(e.edges.begin() + e.edge_begin[k], e.edges.begin() + end);
                    result->emplace_back(move.label, std::move(edges), std::move(branches));
                }
                return result;
            },
            "state"_a, "rewards"_a = false, "Every move of one state as (label, edges, [(probability, words, rewards)]); None on a fault.");

    nb::class_<Space>(m, "Space")
        .def(nb::new_([](std::shared_ptr<Program> p, Array<uint64_t> initial, bool build, bool parents, std::vector<uint32_t> stop_at,
                         double seconds, uint64_t bytes, uint64_t states, Progress progress, const BoundPolicy* policy, size_t threads,
                         size_t fewest) {
                 auto space = std::make_unique<Space>(p);
                 Limits limits{seconds, bytes, std::min<uint64_t>(states, UINT32_MAX - 2), listening(progress)};
                 ExploreOptions options{build, parents, threads, fewest, std::move(stop_at), policy};
                 {
                     nb::gil_scoped_release release;
                     explore(*space, initial.data(), initial.shape(0), options, limits);
                 }
                 return space.release();
             }),
             "program"_a, "initial"_a, "build"_a, "parents"_a, "stop_at"_a, "seconds"_a, "bytes"_a, "states"_a, "progress"_a,
             "policy"_a.none() = nb::none(), "threads"_a = 1, "fewest"_a = 256)
        .def("__len__", &Space::size)
        .def_ro("status", &Space::status)
        .def_ro("fault", &Space::fault)
        .def_ro("faulty", &Space::faulty)
        .def_prop_ro("bytes", &Space::bytes)
        .def_prop_ro("expanded", [](const Space& s) { return s.counts.expanded; })
        .def_prop_ro("choices", [](const Space& s) { return s.counts.choices; })
        .def_prop_ro("moves", [](const Space& s) { return s.counts.moves; })
        .def_prop_ro("transitions", [](const Space& s) { return s.counts.transitions; })
        .def_prop_ro("deadlocks", [](const Space& s) { return s.counts.deadlocks; })
        .def_prop_ro("stuck", [](const Space& s) { return s.counts.stuck; })
        .def_prop_ro("near_ties", [](const Space& s) { return s.counts.near_ties; })
        .def_ro("policy_broken", &Space::policy_broken)
        .def_prop_ro(
            "initial", [](const Space& s) { return give(std::vector(s.initial)); }, nb::rv_policy::move)
        .def_prop_ro(
            "parent", [](const Space& s) { return give(std::vector(s.parent)); }, nb::rv_policy::move)
        .def(
            "states",
            [](const Space& s, size_t begin, size_t end) {
                size_t w = s.program->words;
                end = std::min(end, s.size());
                begin = std::min(begin, end);
                std::vector<uint64_t> copy;
                copy_states(s.store, begin, end, copy);
                return give(std::move(copy), {end - begin, w});
            },
            "begin"_a = 0, "end"_a = SIZE_MAX)
        .def(
            "find",
            [](const Space& s, Array<uint64_t> state) {
                return std::visit([&](const auto& store) { return store.find(state.data()); }, s.store);
            },
            "state"_a)
        .def(
            "mask",
            [](const Space& s, size_t condition) {
                Machine machine(s.program);
                std::vector<uint8_t> truth(s.size());
                {
                    nb::gil_scoped_release release;
                    const auto hold = [&](const auto& store) {
                        std::vector<uint64_t> room(store.words());
                        for (size_t k = 0; k < truth.size(); ++k) truth[k] = machine.holds(condition, store.state(k, room.data()));
                    };
                    std::visit(hold, s.store);
                }
                return give(std::move(truth));
            },
            "condition"_a, "For every state, whether the condition holds there.")
        .def(
            "take_matrix",
            [](Space& s) {
                Matrix m = std::move(s.matrix);
                s.matrix = Matrix();
                std::vector<nb::ndarray<nb::numpy, double>> rewards;
                for (auto& one : m.rewards) rewards.push_back(give(std::move(one)));
                return std::make_tuple(give(std::move(m.choice_start)), give(std::move(m.branch_start)), give(std::move(m.target)),
                                       give(std::move(m.probability)), give(std::move(m.label)), rewards);
            },
            "choice_start, branch_start, target, probability, label, rewards; handed over once.");
}

}  // namespace polvet
