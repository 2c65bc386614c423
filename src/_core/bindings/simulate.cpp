// Python's view of runs of a policy: simulation, single runs, reachability, and transitions for learning.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings/listener.h"
#include "bindings/runs.h"
#include "explore/policy_space.h"
#include "runs/lanes.h"
#include "runs/rollout.h"
#include "runs/simulate.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace polvet {

namespace {

using Rows = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<uint8_t, nb::c_contig, nb::device::cpu>;
using Costs = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// The arrays in which lanes show themselves, of the right sizes.
Shown shown(const Lanes& lanes, Rows* rows, Bytes* masks, Costs* cost, Bytes* end, Rows* last) {
    const size_t count = lanes.size(), width = count * lanes.options.inputs.columns.size();
    if (rows->size() != width || masks->size() != count * lanes.options.labels || (cost && cost->size() != count) ||
        (end && end->size() != count) || (last && last->size() != width))
        throw nb::value_error("an array has another size");
    return {rows->data(), last ? last->data() : nullptr, masks->data(), end ? end->data() : nullptr, cost ? cost->data() : nullptr};
}

}  // namespace

void bind_simulate(nb::module_& m) {
    m.def(
        "simulate",
        [](const BoundPolicy& policy, Packed starts, int32_t fail, int32_t goal, uint64_t runs_per_start, uint64_t max_steps, uint64_t seed,
           uint64_t first_run, unsigned threads, double seconds, Progress progress) {
            check_words(policy, starts);
            check_conditions(policy, fail, goal);
            Limits limits{seconds, UINT64_MAX, UINT64_MAX, listening(progress)};
            SimulateOptions options{fail, goal, seed, first_run, max_steps, threads, runs_per_start};
            Simulated outcome;
            {
                nb::gil_scoped_release release;
                outcome = simulate(policy, starts.data(), starts.shape(0), options, limits);
            }
            nb::dict result = problems_of(outcome);
            const size_t runs = outcome.end.size(), words = policy.program->words;
            result["end"] = give(std::move(outcome.end));
            result["length"] = give(std::move(outcome.length));
            result["last"] = give(std::move(outcome.last), {runs, words});
            result["steps"] = outcome.steps;
            return result;
        },
        "policy"_a, "starts"_a, "fail"_a, "goal"_a, "runs_per_start"_a, "max_steps"_a, "seed"_a, "first_run"_a, "threads"_a, "seconds"_a,
        "progress"_a, "How each run ends (`end`: fail, goal, stuck, deadlock, limit, unfinished), its `length` and `last` state.");

    m.def(
        "trace",
        [](const BoundPolicy& policy, Packed start, int32_t fail, int32_t goal, uint64_t run, uint64_t max_steps, uint64_t seed) {
            check_words(policy, start);
            check_conditions(policy, fail, goal);
            if (start.shape(0) != 1) throw nb::value_error("a run starts in one state");
            SimulateOptions options{fail, goal, seed, 0, max_steps, 1, 1};
            Simulated problems;
            Trace outcome;
            {
                nb::gil_scoped_release release;
                outcome = trace(policy, start.data(), run, options, problems);
            }
            nb::dict result = problems_of(problems);
            const size_t words = policy.program->words, length = outcome.states.size() / words;
            result["states"] = give(std::move(outcome.states), {length, words});
            result["labels"] = give(std::move(outcome.labels));
            result["end"] = outcome.end;
            return result;
        },
        "policy"_a, "start"_a, "fail"_a, "goal"_a, "run"_a, "max_steps"_a, "seed"_a,
        "One run in full: packed states, the labels of the operators that moved (-1: silent), and its end.");

    nb::class_<Inspector>(m, "Inspector")
        .def(
            "__init__",
            [](Inspector* self, const BoundPolicy& policy, int32_t fail, int32_t goal) {
                check_conditions(policy, fail, goal);
                new (self) Inspector(policy, fail, goal);
            },
            "policy"_a, "fail"_a, "goal"_a, nb::keep_alive<1, 2>())
        .def(
            "inspect",
            [](Inspector& self, Packed starts, double seconds, uint64_t bytes, uint64_t states, Progress progress) {
                check_words(self.policy, starts);
                Limits limits{seconds, bytes, std::min<uint64_t>(states, UINT32_MAX - 2), listening(progress)};
                std::vector<uint8_t> outcome;
                self.status = Status::DONE;
                {
                    nb::gil_scoped_release release;
                    outcome = self.inspect(starts.data(), starts.shape(0), limits);
                }
                return give(std::move(outcome));
            },
            "starts"_a, "seconds"_a, "bytes"_a, "states"_a, "progress"_a,
            "Per start 0: open, 1: safe, 2: unsafe only by near ties, 3: unsafe.")
        .def(
            "witness",
            [](const Inspector& self, Packed start) {
                std::vector<uint64_t> states;
                std::vector<int32_t> labels;
                int64_t tie = -1;
                self.witness(start.data(), states, labels, tie);
                const size_t words = self.policy.program->words, length = states.size() / words;
                return std::make_tuple(give(std::move(states), {length, words}), give(std::move(labels)), tie);
            },
            "start"_a, "From a state judged 2 or 3 to fail: states, labels, and the place of the first near tie (-1: none).")
        .def_prop_ro("states", &Inspector::size)
        .def_prop_ro("bytes", &Inspector::bytes)
        .def_ro("status", &Inspector::status)
        .def_ro("fault", &Inspector::fault)
        .def_ro("policy_broken", &Inspector::policy_broken)
        .def_ro("expanded", &Inspector::expanded)
        .def_ro("transitions", &Inspector::transitions)
        .def_ro("branching", &Inspector::branching)
        .def_ro("near_ties", &Inspector::near_ties)
        .def_prop_ro("ends", [](const Inspector& self) { return std::vector<uint64_t>(self.ends, self.ends + 4); })
        .def_prop_ro("faulty", [](const Inspector& self) { return give_state(self.faulty); }, nb::rv_policy::move);

    nb::class_<Lanes>(m, "Lanes")
        .def(
            "__init__",
            [](Lanes* self, std::shared_ptr<Program> program, Packed starts, size_t lanes, size_t labels, std::vector<uint32_t> inputs,
               int32_t fail, int32_t goal, uint64_t max_steps, bool at_once, std::shared_ptr<Program> features) {
                const int32_t count = int32_t(program->conditions.size());
                if (starts.shape(1) != program->words) throw nb::value_error("the states have another number of words");
                if (fail >= count || goal >= count) throw nb::value_error("there is no such condition");
                if (starts.shape(0) == 0 || lanes == 0) throw nb::value_error("there is nothing to start from");
                const Inputs shown{program, features, std::move(inputs)};
                shown.check();
                for (const Joint& joint : program->joints)
                    if (joint.label >= int32_t(labels)) throw nb::value_error("there are more labels");
                new (self) Lanes(program, std::vector<uint64_t>(starts.data(), starts.data() + starts.size()), lanes,
                                 LaneOptions{fail, goal, max_steps, labels, shown, at_once});
            },
            "program"_a, "starts"_a, "lanes"_a, "labels"_a, "inputs"_a, "fail"_a, "goal"_a, "max_steps"_a, "at_once"_a,
            "features"_a.none() = nb::none())
        .def(
            "seed",
            [](Lanes& self, size_t lane, uint64_t seed) {
                if (lane >= self.size()) throw nb::value_error("there is no such lane");
                self.seed(lane, seed);
            },
            "lane"_a, "seed"_a)
        .def(
            "restart",
            [](Lanes& self, Rows rows, Bytes masks) {
                const Shown out = shown(self, &rows, &masks, nullptr, nullptr, nullptr);
                for (size_t k = 0; k < self.size(); ++k)
                    if (!self.restart(k, out)) return false;
                return true;
            },
            "rows"_a, "masks"_a, "Begin a new episode in every lane; False where the model breaks.")
        .def(
            "step",
            [](Lanes& self, nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> labels, Rows rows, Bytes masks,
               Costs cost, Bytes end, Rows last) {
                const Shown out = shown(self, &rows, &masks, &cost, &end, &last);
                if (labels.size() != self.size()) throw nb::value_error("one label per lane is needed");
                nb::gil_scoped_release release;
                return self.step(labels.data(), out);
            },
            "labels"_a, "rows"_a, "masks"_a, "cost"_a, "end"_a, "last"_a, "One step of every lane; False where the model breaks.")
        .def("states", [](const Lanes& self) { return give(self.states(), {self.size(), self.program->words}); })
        .def_ro("fault", &Lanes::fault)
        .def_prop_ro("faulty", [](const Lanes& self) { return give_state(self.faulty); }, nb::rv_policy::move);

    nb::class_<Rollout>(m, "Rollout")
        .def(
            "__init__",
            [](Rollout* self, const BoundPolicy& policy, Packed starts, int32_t fail, int32_t goal, size_t lanes, uint64_t max_steps,
               uint64_t seed) {
                check_words(policy, starts);
                check_conditions(policy, fail, goal);
                if (starts.shape(0) == 0 || lanes == 0) throw nb::value_error("there is nothing to start from");
                new (self) Rollout(policy.program, std::vector<uint64_t>(starts.data(), starts.data() + starts.size()), fail, goal, lanes,
                                   max_steps, seed);
            },
            "policy"_a, "starts"_a, "fail"_a, "goal"_a, "lanes"_a, "max_steps"_a, "seed"_a)
        .def(
            "collect",
            [](Rollout& self, const BoundPolicy& policy, size_t steps, double epsilon) {
                Transitions outcome;
                {
                    nb::gil_scoped_release release;
                    outcome = self.collect(policy, steps, epsilon);
                }
                nb::dict result = problems_of(outcome.problems);
                const size_t n = outcome.action.size(), inputs = policy.width(), outputs = policy.label_of_output.size();
                const size_t words = policy.program->words;
                result["rows"] = give(std::move(outcome.rows), {n, inputs});
                result["masks"] = give(std::move(outcome.masks), {n, outputs});
                result["action"] = give(std::move(outcome.action));
                result["next_rows"] = give(std::move(outcome.next_rows), {n, inputs});
                result["next_masks"] = give(std::move(outcome.next_masks), {n, outputs});
                result["end"] = give(std::move(outcome.end));
                result["states"] = give(std::move(outcome.states), {n, words});
                result["next_states"] = give(std::move(outcome.next_states), {n, words});
                result["episodes"] = give(std::move(outcome.episodes));
                result["lengths"] = give(std::move(outcome.lengths));
                return result;
            },
            "policy"_a, "steps"_a, "epsilon"_a, "Transitions of `steps` steps of every lane, and how finished episodes ended.");
}

}  // namespace polvet
