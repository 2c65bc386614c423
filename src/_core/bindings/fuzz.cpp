// Python's view of fuzzing.
#include <nanobind/nanobind.h>

#include <algorithm>

#include "bindings/listener.h"
#include "bindings/runs.h"
#include "explore/explore.h"
#include "runs/fuzz.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace polvet {

namespace {

struct StateSet {
    AnyTree store;
    uint32_t words;
    size_t size() const {
        return std::visit([](const auto& s) { return s.size(); }, store);
    }
};

}  // namespace

void bind_fuzz(nb::module_& m) {
    nb::class_<Visits>(m, "Visits").def(nb::init<>()).def_prop_ro("cells", [](const Visits& self) {
        return size_t(std::count_if(self.count.begin(), self.count.end(), [](uint32_t n) { return n > 0; }));
    });

    nb::class_<StateSet>(m, "StateSet")
        .def(
            "__init__", [](StateSet* self, uint32_t words) { new (self) StateSet{make_tree(words), words}; }, "words"_a)
        .def("__len__", &StateSet::size)
        .def(
            "insert",
            [](StateSet& self, Packed states) {
                if (states.shape(1) != self.words) throw nb::value_error("the states have another number of words");
                std::vector<uint32_t> numbers(states.shape(0));
                {
                    nb::gil_scoped_release release;
                    std::visit(
                        [&](auto& store) {
                            for (size_t k = 0; k < numbers.size(); ++k) numbers[k] = store.insert(states.data() + k * self.words).first;
                        },
                        self.store);
                }
                return give(std::move(numbers));
            },
            "states"_a, "The number of each state; states met for the first time get the next ones.")
        .def(
            "states",
            [](const StateSet& self, size_t begin, size_t end) {
                if (begin > end || end > self.size()) throw nb::index_error("there are not so many states");
                std::vector<uint64_t> copy;
                copy_states(self.store, begin, end, copy);
                return give(std::move(copy), {end - begin, self.words});
            },
            "begin"_a, "end"_a);

    m.def(
        "fuzz",
        [](const BoundPolicy& policy, Packed starts, In<uint64_t> runs, In<double> temperature, int32_t fail, int32_t goal,
           int32_t distance, double novelty, Visits* visits, uint64_t max_steps, uint64_t seed, unsigned threads, double seconds,
           Progress progress) {
            check_words(policy, starts);
            check_conditions(policy, fail, goal);
            if (runs.shape(0) != starts.shape(0) || temperature.shape(0) != starts.shape(0))
                throw nb::value_error("rows of different numbers");
            if (distance >= int32_t(policy.program->state_rewards.size())) throw nb::value_error("there is no such reward");
            Limits limits{seconds, UINT64_MAX, UINT64_MAX, listening(progress)};
            FuzzOptions options{fail, goal, distance, seed, max_steps, threads, novelty};
            FuzzRows rows{starts.data(), runs.data(), temperature.data(), starts.shape(0)};
            Fuzzed outcome;
            {
                nb::gil_scoped_release release;
                outcome = fuzz(policy, rows, options, visits, limits);
            }
            const size_t words = policy.program->words, states = outcome.states.size() / words;
            nb::dict result = problems_of(outcome.problems);
            result["end"] = give(std::move(outcome.end));
            result["length"] = give(std::move(outcome.length));
            result["choices"] = give(std::move(outcome.choices));
            result["nearest"] = give(std::move(outcome.nearest));
            result["unsafe"] = give(std::move(outcome.unsafe));
            result["state_start"] = give(std::move(outcome.state_start));
            result["states"] = give(std::move(outcome.states), {states, words});
            result["labels"] = give(std::move(outcome.labels));
            result["steps"] = outcome.steps;
            return result;
        },
        "policy"_a, "starts"_a, "runs"_a, "temperature"_a, "fail"_a, "goal"_a, "distance"_a, "novelty"_a, "visits"_a.none(), "max_steps"_a,
        "seed"_a, "threads"_a, "seconds"_a, "progress"_a, "One biased run per row; those that end in fail are given in full.");

    m.def(
        "policy_steps",
        [](const BoundPolicy& policy, Packed states, int32_t fail, int32_t goal) {
            check_words(policy, states);
            check_conditions(policy, fail, goal);
            PolicySteps outcome;
            {
                nb::gil_scoped_release release;
                outcome = policy_steps(policy, states.data(), states.shape(0), fail, goal);
            }
            const size_t words = policy.program->words, outcomes = outcome.outcomes.size() / words;
            nb::dict result = problems_of(outcome.problems);
            result["end"] = give(std::move(outcome.end));
            result["label"] = give(std::move(outcome.label));
            result["outcome_start"] = give(std::move(outcome.outcome_start));
            result["outcomes"] = give(std::move(outcome.outcomes), {outcomes, words});
            return result;
        },
        "policy"_a, "states"_a, "fail"_a, "goal"_a, "The label taken in each state, or how runs end there, and the outcomes.");
}

}  // namespace polvet
