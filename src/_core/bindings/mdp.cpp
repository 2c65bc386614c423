// The Python face of the mdp kernels: numpy arrays in, numpy arrays filled in place, the GIL released.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <stdexcept>

#include "bindings/arrays.h"
#include "mdp/bounded.h"
#include "mdp/mdp.h"

namespace nb = nanobind;

namespace polvet {

namespace {

using Values = nb::ndarray<double, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;

struct Model {
    In<uint64_t> choice_start, branch_start;
    In<uint32_t> target;
    In<double> probability;

    Model(In<uint64_t> choices, In<uint64_t> branches, In<uint32_t> targets, In<double> probabilities)
        : choice_start(choices), branch_start(branches), target(targets), probability(probabilities) {
        if (choices.size() == 0 || branches.size() == 0 || targets.size() != probabilities.size())
            throw std::invalid_argument("the arrays of the model do not fit together");
        const uint64_t n = choices.size() - 1, k = branches.size() - 1, b = targets.size();
        if (n >= (1u << 30) || k >= (uint64_t{1} << 32) || b >= (uint64_t{1} << 32))
            throw std::invalid_argument("the model has more than 2^30 states or 2^32 branches");
        if (choices.data()[0] != 0 || branches.data()[0] != 0 || choices.data()[n] != k || branches.data()[k] != b)
            throw std::invalid_argument("choice_start and branch_start must begin at 0 and end at the number of choices and branches");
    }
    View view() const {
        return {uint32_t(choice_start.size() - 1), choice_start.data(), branch_start.data(), target.data(), probability.data()};
    }
    uint64_t choices() const { return branch_start.size() - 1; }
};

// Finds the first thing wrong with the arrays: a code and the place; code 0 when nothing is.
std::tuple<int, uint64_t, double> validate(const Model& model, double tolerance) {
    const View m = model.view();
    for (uint32_t s = 0; s < m.states; ++s)
        if (m.choice_start[s] > m.choice_start[s + 1] || m.choice_start[s + 1] > model.choices()) return {1, s, 0.0};
    for (uint64_t c = 0; c < model.choices(); ++c) {
        const uint64_t first = m.branch_start[c], last = m.branch_start[c + 1];
        if (first >= last || last > model.target.size()) return {2, c, 0.0};
        double sum = 0;
        for (uint64_t b = first; b < last; ++b) {
            if (m.target[b] >= m.states) return {3, b, double(m.target[b])};
            if (!(m.probability[b] > 0.0 && m.probability[b] <= 1.0)) return {4, b, m.probability[b]};
            sum += m.probability[b];
        }
        if (!(std::abs(sum - 1.0) <= tolerance)) return {5, c, sum};
    }
    return {0, 0, 0.0};
}

using Report = nb::typed<nb::dict, nb::str, int>;

Report report(const Statistics& s) {
    Report d;
    d["sweeps"] = s.sweeps;
    d["components"] = s.components;
    d["largest"] = s.largest;
    d["unsolved"] = s.unsolved;
    d["limit"] = s.limit;
    return d;
}

void expect(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(what);
}

Bounds* bounds_of(Values& v) { return reinterpret_cast<Bounds*>(v.data()); }

Report solve(const Model& model, In<uint8_t> stop, const std::optional<In<double>>& reward, bool maximise, double gap, In<uint32_t> roots,
             Values value, Out<uint32_t> choice, double time_limit) {
    const View m = model.view();
    expect(stop.size() == m.states && value.shape(0) == m.states && choice.size() == m.states,
           "stop, value and choice need one entry per state");
    Problem problem{m, stop.data(), nullptr, nullptr, maximise, gap};
    if (reward) {
        expect(reward->size() == model.choices(), "reward needs one entry per choice");
        problem.reward = reward->data();
    }
    for (uint64_t i = 0; i < roots.size(); ++i) expect(roots.data()[i] < m.states, "a root is not a state");
    Statistics statistics;
    Poll poll(time_limit);
    {
        nb::gil_scoped_release release;
        solve_topologically(problem, roots.data(), roots.size(), bounds_of(value), choice.data(), statistics, poll);
        statistics.limit |= poll.over();
    }
    return report(statistics);
}

uint64_t steps(const Model& model, In<uint8_t> stop, const std::optional<In<double>>& reward, bool maximise, uint64_t count, Values value,
               double time_limit) {
    const View m = model.view();
    expect(stop.size() == m.states && value.shape(0) == m.states, "stop and value need one entry per state");
    Problem problem{m, stop.data(), nullptr, nullptr, maximise, 0};
    if (reward) {
        expect(reward->size() == model.choices(), "reward needs one entry per choice");
        problem.reward = reward->data();
    }
    Poll poll(time_limit);
    nb::gil_scoped_release release;
    return solve_steps(problem, count, bounds_of(value), poll);
}

Report reward_bounded(const Model& model, In<uint8_t> stop, In<uint8_t> above, In<uint32_t> amount, bool maximise, uint64_t bound,
                      bool at_least, double gap, Values value, double time_limit) {
    const View m = model.view();
    expect(stop.size() == m.states && above.size() == m.states && value.shape(0) == m.states && amount.size() == model.choices(),
           "stop and value need one entry per state, amount one per choice");
    Problem problem{m, stop.data(), nullptr, nullptr, maximise, gap};
    Statistics statistics;
    Poll poll(time_limit);
    uint64_t levels;
    {
        nb::gil_scoped_release release;
        levels = solve_reward_bounded(problem, above.data(), amount.data(), bound, at_least, bounds_of(value), statistics, poll);
    }
    Report d = report(statistics);
    d["levels"] = levels;
    return d;
}

void qualitative(const Model& model, In<uint8_t> safe, In<uint8_t> goal, bool maximise, bool one, Out<uint8_t> result) {
    const View m = model.view();
    expect(safe.size() == m.states && goal.size() == m.states && result.size() == m.states,
           "safe, goal and result need one entry per state");
    nb::gil_scoped_release release;
    const BackwardIndex back(m);
    (one ? probability_one : probability_zero)(m, back, safe.data(), goal.data(), maximise, result.data());
}

uint32_t components(const Model& model, Out<uint32_t> component) {
    expect(component.size() == model.view().states, "component needs one entry per state");
    Poll poll(-1);
    nb::gil_scoped_release release;
    return connected_components(model.view(), component.data(), poll);
}

// `allowed` (per choice) restricts the search and is left holding the choices of the end components.
uint32_t maximal_end_components(const Model& model, Out<uint8_t> allowed, Out<uint32_t> component) {
    const View m = model.view();
    expect(component.size() == m.states && allowed.size() == model.choices(),
           "component needs one entry per state, allowed one per choice");
    nb::gil_scoped_release release;
    Local part;
    part.clear();
    part.target.assign(model.target.data(), model.target.data() + model.target.size());
    part.owner.resize(model.choices());
    part.choice_start.assign(m.choice_start, m.choice_start + m.states + 1);
    part.branch_start.assign(m.branch_start, m.branch_start + model.choices() + 1);
    for (uint32_t s = 0; s < m.states; ++s)
        for (uint64_t c = m.choice_start[s]; c < m.choice_start[s + 1]; ++c) part.owner[c] = s;
    Predecessors back;
    back.build(part);
    std::vector<uint8_t> usable(allowed.data(), allowed.data() + allowed.size());
    std::vector<uint32_t> number;
    const uint32_t count = end_components(part, back, usable, number);
    std::copy(usable.begin(), usable.end(), allowed.data());
    std::copy(number.begin(), number.end(), component.data());
    return count;
}

void backward(const Model& model, Out<uint64_t> start, Out<uint32_t> choice) {
    const View m = model.view();
    expect(start.size() == m.states + uint64_t{1} && choice.size() == model.target.size(),
           "start needs one entry per state and one more, choice one per branch");
    nb::gil_scoped_release release;
    const BackwardIndex back(m);
    std::copy(back.start.begin(), back.start.end(), start.data());
    std::copy(back.choice.begin(), back.choice.end(), choice.data());
}

}  // namespace

void bind_mdp(nb::module_& m) {
    using namespace nb::literals;
    nb::class_<Model>(m, "MdpModel", "An MDP in compressed rows, kept alive by its arrays.")
        .def(nb::init<In<uint64_t>, In<uint64_t>, In<uint32_t>, In<double>>(), "choice_start"_a, "branch_start"_a, "target"_a,
             "probability"_a);
    m.def("mdp_validate", &validate, "model"_a, "tolerance"_a);
    m.def("mdp_solve", &solve, "model"_a, "stop"_a, "reward"_a, "maximise"_a, "gap"_a, "roots"_a, "value"_a, "choice"_a, "time_limit"_a);
    m.def("mdp_steps", &steps, "model"_a, "stop"_a, "reward"_a, "maximise"_a, "count"_a, "value"_a, "time_limit"_a);
    m.def("mdp_reward_bounded", &reward_bounded, "model"_a, "stop"_a, "above"_a, "amount"_a, "maximise"_a, "bound"_a, "at_least"_a, "gap"_a,
          "value"_a, "time_limit"_a);
    m.def("mdp_qualitative", &qualitative, "model"_a, "safe"_a, "goal"_a, "maximise"_a, "one"_a, "result"_a);
    m.def("mdp_components", &components, "model"_a, "component"_a);
    m.def("mdp_end_components", &maximal_end_components, "model"_a, "allowed"_a, "component"_a);
    m.def("mdp_backward", &backward, "model"_a, "start"_a, "choice"_a);
}

}  // namespace polvet
