// Python's view of reachability from all start states.
#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings/listener.h"
#include "bindings/runs.h"
#include "explore/explicit.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace polvet {

namespace {}  // namespace

void bind_explicit(nb::module_& m) {
    nb::enum_<Reached>(m, "Reached")
        .value("OPEN", Reached::OPEN)
        .value("CLOSED", Reached::CLOSED)
        .value("DOUBTFUL", Reached::DOUBTFUL)
        .value("UNSAFE", Reached::UNSAFE);
    nb::class_<Reachability>(m, "Reachability")
        .def(
            "__init__",
            [](Reachability* self, const BoundPolicy& policy, int32_t fail, int32_t goal, bool stuck, bool deadlock) {
                check_conditions(policy, fail, goal);
                new (self) Reachability(policy, fail, goal, {stuck, deadlock});
            },
            "policy"_a, "fail"_a, "goal"_a, "stuck_is_bad"_a, "deadlock_is_bad"_a, nb::keep_alive<1, 2>())
        .def(
            "add_starts",
            [](Reachability& self, Packed states) {
                check_words(self.policy, states);
                nb::gil_scoped_release release;
                return self.add_starts(states.data(), states.shape(0));
            },
            "states"_a, "Add packed start states; returns how many are new.")
        .def(
            "close",
            [](Reachability& self, unsigned threads, double seconds, uint64_t bytes, uint64_t states, Progress progress) {
                Limits limits{seconds, bytes, states, listening(progress)};
                nb::gil_scoped_release release;
                self.close(threads, limits);
            },
            "threads"_a, "seconds"_a, "bytes"_a, "states"_a, "progress"_a,
            "Expand until fail is met, nothing is left, or a limit comes first.")
        .def(
            "witness",
            [](const Reachability& self) {
                std::vector<uint64_t> states;
                std::vector<int32_t> labels;
                int64_t tie = -1;
                self.witness(states, labels, tie);
                const size_t words = self.policy.program->words, length = states.size() / words, steps = labels.size();
                return std::make_tuple(give(std::move(states), {length, words}), give(std::move(labels), {steps}), tie);
            },
            "From a start to the bad state that was met: states, labels, and the place of the first near tie (-1: none).")
        .def(
            "states",
            [](const Reachability& self) {
                std::vector<uint64_t> states;
                self.copy_states(states);
                const size_t words = self.policy.program->words, n = states.size() / words;
                return give(std::move(states), {n, words});
            },
            "All states met so far, packed.")
        .def("__len__", &Reachability::size)
        .def_prop_ro("bytes", &Reachability::bytes)
        .def_ro("reached", &Reachability::reached)
        .def_ro("status", &Reachability::status)
        .def_ro("fault", &Reachability::fault)
        .def_ro("policy_broken", &Reachability::policy_broken)
        .def_ro("expanded", &Reachability::expanded)
        .def_ro("transitions", &Reachability::transitions)
        .def_ro("near_ties", &Reachability::near_ties)
        .def_prop_ro("ends", [](const Reachability& self) { return std::vector<uint64_t>(self.ends, self.ends + 4); })
        .def_prop_ro("faulty", [](const Reachability& self) { return give_state(self.faulty); }, nb::rv_policy::move);
}

}  // namespace polvet
