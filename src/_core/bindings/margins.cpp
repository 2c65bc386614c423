// Python's view of margins: how much a counted variable may still grow before `fail` is forced.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings/arrays.h"
#include "bindings/listener.h"
#include "decide/need.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace polvet {

namespace {

struct MarginSearch {
    std::unique_ptr<NeedSearch> search;
    uint32_t words = 1;
    Status status = Status::DONE;
    Fault fault = Fault::NONE;
    std::vector<uint64_t> faulty;
};

}  // namespace

void bind_margins(nb::module_& m) {
    nb::class_<MarginSearch>(m, "MarginSearch")
        .def(
            "__init__",
            [](MarginSearch* self, std::shared_ptr<Program> program, int32_t fail, int32_t goal, uint32_t variable, bool falls,
               uint64_t ceiling, const std::vector<std::pair<uint32_t, std::vector<uint16_t>>>& floors) {
                const Field& field = program->fields.at(variable);
                if (field.real || field.mask == 0) throw nb::value_error("a counter is an integer of several values");
                if (ceiling == 0 || ceiling >= UINT16_MAX) throw nb::value_error("the bound is too far away");
                const Counter counter{field.word, field.shift, field.mask, field.range, falls, uint16_t(ceiling)};
                std::vector<Floor> bounds;
                for (const auto& [place, least] : floors) {
                    const Field& one = program->fields.at(place);
                    if (one.real || least.size() != one.range + 1) throw nb::value_error("a floor has one entry per value");
                    bounds.push_back({one.word, one.shift, one.mask, least});
                }
                new (self)
                    MarginSearch{make_need_search(program, fail, goal, counter, bounds), program->words, Status::DONE, Fault::NONE, {}};
            },
            "program"_a, "fail"_a, "goal"_a, "variable"_a, "falls"_a, "ceiling"_a, "floors"_a)
        .def(
            "ask",
            [](MarginSearch& self, Packed states, uint32_t labels, double seconds, uint64_t bytes, uint64_t most, Progress progress) {
                if (states.shape(1) != self.words) throw nb::value_error("the states have another number of words");
                Limits limits{seconds, bytes, most, listening(progress)};
                Watch watch{[&](uint64_t used, uint64_t known) { return limits.poll(used, known, known); }};
                const size_t n = states.shape(0);
                Margins outcome;
                self.status = Status::DONE;
                {
                    nb::gil_scoped_release release;
                    try {
                        outcome = self.search->ask(states.data(), n, labels, watch);
                        self.status = outcome.status;
                    } catch (const BrokenModel& broken) {
                        self.status = Status::FAULT;
                        self.fault = broken.fault;
                        self.faulty = broken.state;
                    }
                }
                outcome.margin.resize(n, UNKNOWN_MARGIN);
                outcome.labels.resize(n * labels);
                return std::make_tuple(give(std::move(outcome.margin), {n}), give(std::move(outcome.labels), {n, labels}));
            },
            "states"_a, "labels"_a, "seconds"_a, "bytes"_a, "most"_a, "progress"_a,
            "The margin of each packed state (-1: unsafe; the least number: a limit came first), and [states, labels] the labels that keep "
            "it.")
        .def_ro("status", &MarginSearch::status)
        .def_ro("fault", &MarginSearch::fault)
        .def_prop_ro(
            "faulty", [](const MarginSearch& self) { return give_state(self.faulty); }, nb::rv_policy::move)
        .def_prop_ro("known_states", [](const MarginSearch& self) { return self.search->size(); })
        .def_prop_ro("held_bytes", [](const MarginSearch& self) { return self.search->bytes(); });
}

}  // namespace polvet
