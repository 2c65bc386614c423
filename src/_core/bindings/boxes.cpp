// The Python face of box questions: cells arrive as tuples (lower, upper, rows, holes), rows as (terms, marks, lower, upper).
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>

#include "boxes/boxes.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace polvet {

namespace {

std::vector<int64_t> numbers(nb::handle h, size_t n) {
    auto bounds = nb::cast<std::vector<int64_t>>(h);
    if (bounds.size() != n) throw nb::value_error("a box needs one bound per variable");
    return bounds;
}

int32_t checked_variable(int64_t v, size_t n) {
    if (v < 0 || size_t(v) >= n) throw nb::value_error("no such variable");
    return int32_t(v);
}

Row read_row(nb::handle h, size_t n) {
    Row row;
    nb::tuple parts = nb::cast<nb::tuple>(h);
    for (const auto& [v, c] : nb::cast<std::vector<std::pair<int64_t, int64_t>>>(parts[0]))
        row.terms.push_back({checked_variable(v, n), c});
    for (const auto& [v, x, c] : nb::cast<std::vector<std::tuple<int64_t, int64_t, int64_t>>>(parts[1]))
        row.marks.push_back({checked_variable(v, n), x, c});
    if (!parts[2].is_none()) row.lower = nb::cast<int64_t>(parts[2]);
    if (!parts[3].is_none()) row.upper = nb::cast<int64_t>(parts[3]);
    return row;
}

Cell read_cell(nb::handle h, size_t n) {
    nb::tuple parts = nb::cast<nb::tuple>(h);
    Cell cell{{numbers(parts[0], n), numbers(parts[1], n)}, {}, {}};
    for (nb::handle row : nb::cast<nb::sequence>(parts[2])) cell.rows.push_back(read_row(row, n));
    for (nb::handle hole : nb::cast<nb::sequence>(parts[3])) cell.holes.push_back(read_cell(hole, n));
    return cell;
}

std::vector<Cell> read_cells(nb::handle h, size_t n) {
    std::vector<Cell> cells;
    for (nb::handle cell : nb::cast<nb::sequence>(h)) cells.push_back(read_cell(cell, n));
    return cells;
}

Box read_box(nb::handle h, size_t n) {
    nb::tuple parts = nb::cast<nb::tuple>(h);
    return {numbers(parts[0], n), numbers(parts[1], n)};
}

std::vector<Box> read_boxes(nb::handle h, size_t n) {
    std::vector<Box> boxes;
    for (nb::handle one : nb::cast<nb::sequence>(h)) boxes.push_back(read_box(one, n));
    return boxes;
}

struct PySystem : BoxSystem {
    using BoxSystem::BoxSystem;
    nb::object keep;           // the policy's kernel
    std::vector<Box> blocked;  // boxes whose states do not count, in every question about steps
};

// Limits of a question, and the user's Ctrl-C, looked for ten times a second.
struct Watch {
    Budget budget;
    bool interrupted = false;
    std::chrono::steady_clock::time_point looked = std::chrono::steady_clock::now();

    Watch(double seconds, uint64_t nodes) {
        budget.nodes = nodes;
        if (seconds < 1e9) budget.deadline = looked + std::chrono::microseconds(int64_t(std::max(0.0, seconds) * 1e6));
        budget.interrupted = [this] {
            const auto now = std::chrono::steady_clock::now();
            if (!interrupted && now - looked > std::chrono::milliseconds(100)) {
                looked = now;
                nb::gil_scoped_acquire gil;
                if (PyErr_CheckSignals() != 0) {
                    PyErr_Clear();
                    interrupted = true;
                }
            }
            return interrupted;
        };
    }
    void raise() const {
        if (!interrupted) return;
        PyErr_SetNone(PyExc_KeyboardInterrupt);
        throw nb::python_error();
    }
};

std::vector<Outcome> outcomes_of(const BoxSystem& system, const std::vector<BatchQuestion>& questions, double seconds, uint64_t nodes,
                                 bool until_yes, unsigned threads) {
    Watch watch(seconds, nodes);
    std::vector<Outcome> outcomes;
    {
        nb::gil_scoped_release unlocked;
        outcomes = system.find_all(questions, watch.budget, until_yes, std::max(1u, threads));
    }
    watch.raise();
    return outcomes;
}

using State = nb::typed<nb::tuple, int64_t, nb::ellipsis>;

std::optional<State> state_of(const Outcome& outcome) {
    if (outcome.state.empty()) return std::nullopt;
    nb::list values;
    for (int64_t x : outcome.state) values.append(x);
    return State(nb::tuple(values));
}

}  // namespace

void bind_boxes(nb::module_& m) {
    nb::enum_<BoxAnswer>(m, "BoxAnswer", "What a question about boxes is answered.")
        .value("NO", BoxAnswer::NO)
        .value("YES", BoxAnswer::YES)
        .value("NEAR_TIE", BoxAnswer::NEAR_TIE)
        .value("UNKNOWN", BoxAnswer::UNKNOWN);
    nb::class_<PySystem>(m, "BoxSystem", "A policy and the steps it may take, ready for questions about boxes of states.")
        .def(
            "__init__",
            [](PySystem* self, nb::tuple domain, nb::object policy, std::vector<int32_t> inputs, bool filtered, nb::sequence guards) {
                auto lower = nb::cast<std::vector<int64_t>>(domain[0]);
                const size_t n = lower.size();
                Box box{lower, numbers(domain[1], n)};
                const Scorer* scorer = policy.is_none() ? nullptr : nb::cast<const Scorer*>(policy);
                std::vector<std::vector<Cell>> cells;
                for (nb::handle region : guards) cells.push_back(read_cells(region, n));
                for (int32_t v : inputs) checked_variable(v, n);
                if (scorer && (scorer->inputs != inputs.size() || cells.size() != scorer->outputs))
                    throw nb::value_error("inputs or guards do not fit the policy");
                new (self) PySystem(n, std::move(box), scorer, std::move(inputs), filtered, std::move(cells));
                self->keep = policy;
            },
            "domain"_a, "policy"_a.none(), "inputs"_a, "filtered"_a, "guards"_a)
        .def(
            "add_step",
            [](PySystem& self, int32_t output, nb::handle cell, nb::sequence updates) {
                if (output >= 0 && (!self.scorer || size_t(output) >= self.scorer->outputs)) throw nb::value_error("no such output");
                Step step{output, read_cell(cell, self.variables), {}};
                for (nb::handle one : updates) {
                    nb::tuple parts = nb::cast<nb::tuple>(one);
                    const Row row = read_row(nb::make_tuple(parts[1], parts[2], nb::none(), nb::none()), self.variables);
                    step.updates.push_back(
                        {checked_variable(nb::cast<int64_t>(parts[0]), self.variables), row.terms, row.marks, nb::cast<int64_t>(parts[3])});
                }
                self.steps.push_back(std::move(step));
            },
            "output"_a, "cell"_a, "updates"_a)
        .def(
            "set_rows",
            [](PySystem& self, nb::sequence rows) {
                self.rows.clear();
                for (nb::handle row : rows) self.rows.push_back(read_row(row, self.variables));
            },
            "rows"_a)
        .def(
            "set_ended", [](PySystem& self, nb::handle cells) { self.ended = read_cells(cells, self.variables); }, "cells"_a)
        .def(
            "block",
            [](PySystem& self, std::vector<int64_t> lower, std::vector<int64_t> upper) {
                if (lower.size() != self.variables || upper.size() != self.variables)
                    throw nb::value_error("a box needs one bound per variable");
                Box box{std::move(lower), std::move(upper)};
                std::erase_if(self.blocked, [&](const Box& old) { return box.contains(old); });
                self.blocked.push_back(std::move(box));
            },
            "lower"_a, "upper"_a, "Let the states of a box count no more in questions about steps.")
        .def_rw("enumerated", &PySystem::enumerated)
        .def_rw("alone", &PySystem::alone)
        .def("unblock_all", [](PySystem& self) { self.blocked.clear(); })
        .def_prop_ro("blocked",
                     [](const PySystem& self) {
                         std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>> bounds;
                         for (const Box& box : self.blocked) bounds.emplace_back(box.lower, box.upper);
                         return bounds;
                     })
        .def(
            "all_blocked",
            [](const PySystem& self, std::vector<int64_t> lower, std::vector<int64_t> upper, uint64_t nodes) {
                if (lower.size() != self.variables || upper.size() != self.variables)
                    throw nb::value_error("a box needs one bound per variable");
                BoxQuestion question;
                question.box = {std::move(lower), std::move(upper)};
                for (const Row& row : self.rows) question.rows.push_back(&row);
                for (const Box& box : self.blocked) question.without_boxes.push_back(&box);
                Budget budget;
                budget.nodes = nodes;
                nb::gil_scoped_release unlocked;
                return self.find(question, 0, budget).answer == BoxAnswer::NO;
            },
            "lower"_a, "upper"_a, "nodes"_a, "Whether every state of the box that satisfies the rows is blocked; False at the limit.")
        .def(
            "chooses",
            [](const PySystem& self, const std::vector<int64_t>& x, int32_t output) {
                if (x.size() != self.variables || !self.scorer) throw nb::value_error("no state, or no policy");
                return self.chooses(x.data(), output);
            },
            "state"_a, "output"_a)
        .def(
            "find",
            [](const PySystem& self, nb::sequence regions, const std::vector<int32_t>& outputs, nb::handle without,
               nb::handle without_boxes, bool use_rows, uint64_t seed, uint64_t nodes, double seconds, bool until_yes, unsigned threads) {
                const size_t n = self.variables;
                std::vector<std::vector<Cell>> cells;
                for (nb::handle region : regions) cells.push_back(read_cells(region, n));
                if (cells.size() != outputs.size()) throw nb::value_error("a region needs one output");
                for (int32_t k : outputs)
                    if (k >= 0 && (!self.scorer || size_t(k) >= self.scorer->outputs)) throw nb::value_error("no such output");
                const std::vector<Cell> out = read_cells(without, n);
                const std::vector<Box> boxes = read_boxes(without_boxes, n);
                std::vector<BatchQuestion> questions;
                std::vector<size_t> places;  // of the regions with a cell, among the groups
                for (size_t r = 0; r < cells.size(); ++r) {
                    for (const Cell& cell : cells[r]) {
                        auto state = [&, output = outputs[r], here = &cell](BoxQuestion& question, std::vector<Row>&) {
                            question.box = here->box;
                            for (const Row& row : here->rows) question.rows.push_back(&row);
                            if (use_rows)
                                for (const Row& row : self.rows) question.rows.push_back(&row);
                            for (const Cell& hole : here->holes) question.without.push_back(&hole);
                            for (const Cell& hole : out) question.without.push_back(&hole);
                            for (const Box& box : boxes) question.without_boxes.push_back(&box);
                            question.output = output;
                            return true;
                        };
                        questions.push_back({state, seed, places.size()});
                    }
                    if (!cells[r].empty()) places.push_back(r);
                }
                const std::vector<Outcome> outcomes = outcomes_of(self, questions, seconds, nodes, until_yes, threads);
                std::vector<std::tuple<BoxAnswer, std::optional<State>, uint64_t>> made;
                for (size_t k = 0; k < outcomes.size(); ++k) {
                    while (made.size() < places[k]) made.emplace_back(BoxAnswer::NO, std::nullopt, 0);
                    made.emplace_back(outcomes[k].answer, state_of(outcomes[k]), outcomes[k].nodes);
                }
                const bool over = until_yes && !outcomes.empty() && outcomes.back().answer == BoxAnswer::YES;
                while (!over && made.size() < cells.size()) made.emplace_back(BoxAnswer::NO, std::nullopt, 0);
                return made;
            },
            "regions"_a, "outputs"_a, "without"_a, "without_boxes"_a, "use_rows"_a, "seed"_a, "nodes"_a, "seconds"_a, "until_yes"_a,
            "threads"_a,
            "For each region a state in it where the policy chooses its output, as (answer, state, nodes); with until_yes none after the "
            "first YES.")
        .def(
            "find_step_into",
            [](const PySystem& self, nb::handle targets, nb::handle sources, nb::handle also_without, const std::vector<int32_t>& order,
               uint64_t seed, uint64_t nodes, double seconds, unsigned threads) {
                const std::vector<Cell> cells = read_cells(targets, self.variables);
                const Box within = read_box(sources, self.variables);
                const std::vector<Box> boxes = read_boxes(also_without, self.variables);
                for (int32_t s : order)
                    if (s < 0 || size_t(s) >= self.steps.size()) throw nb::value_error("no such step");
                std::vector<const Box*> without;
                for (const Box& box : boxes) without.push_back(&box);
                for (const Box& box : self.blocked) without.push_back(&box);
                std::vector<BatchQuestion> questions;
                for (size_t group = 0; group < cells.size(); ++group)
                    for (int32_t s : order) questions.push_back(self.step_question(s, cells[group], within, without, seed, group));
                const std::vector<Outcome> outcomes = outcomes_of(self, questions, seconds, nodes, true, threads);
                std::vector<std::tuple<BoxAnswer, std::optional<State>, int32_t, uint64_t>> made;
                for (const Outcome& one : outcomes)
                    made.emplace_back(one.answer, state_of(one), one.answer == BoxAnswer::NO ? -1 : order[one.number], one.nodes);
                while (order.empty() && made.size() < cells.size()) made.emplace_back(BoxAnswer::NO, std::nullopt, -1, 0);
                return made;
            },
            "targets"_a, "sources"_a, "without_boxes"_a, "order"_a, "seed"_a, "nodes"_a, "seconds"_a, "threads"_a,
            "For each target a state of the box of sources that a step takes into it, as (answer, state, step, nodes); none after the "
            "first YES.")
        .def(
            "apply",
            [](const PySystem& self, const std::vector<int64_t>& x, size_t step) {
                if (x.size() != self.variables || step >= self.steps.size()) throw nb::value_error("no state, or no such step");
                std::vector<int64_t> y = x;
                self.steps[step].apply(x.data(), y.data());
                return y;
            },
            "state"_a, "step"_a)
        .def(
            "widen",
            [](const PySystem& self, const std::vector<int64_t>& x, int32_t step, nb::handle target, uint64_t seed) {
                const Cell cell = read_cell(target, self.variables);
                Box box;
                {
                    nb::gil_scoped_release unlocked;
                    box = self.widen(x.data(), step, cell, seed);
                }
                return std::make_pair(box.lower, box.upper);
            },
            "state"_a, "step"_a, "target"_a, "seed"_a);
}

}  // namespace polvet
