// The Python face of permissive schedulers: numpy arrays in, numpy arrays filled in place, the GIL released.
#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "mdp/enlargement.h"
#include "mdp/permitted.h"

namespace nb = nanobind;

namespace polvet {
namespace {

void expect(bool holds) {
    if (!holds) throw std::invalid_argument("the arrays do not fit together");
}

std::vector<uint32_t> numbers(const In<uint32_t>& array) { return {array.data(), array.data() + array.size()}; }

// Without `choice_start` and `probability` where a kernel looks at options and targets only.
OptionModel options_of(const In<uint64_t>& branch_start, const In<uint32_t>& target, const In<uint64_t>& option_start,
                       const In<uint64_t>& option_choice, const double* probability = nullptr, const uint64_t* choice_start = nullptr) {
    expect(option_start.size() > 0 && option_choice.size() > 0 && branch_start.size() > 0);
    const OptionModel model{{uint32_t(option_start.size() - 1), choice_start, branch_start.data(), target.data(), probability},
                            option_start.data(),
                            option_choice.data()};
    expect(model.options() == option_choice.size() - 1 && model.choices() == branch_start.size() - 1 &&
           branch_start.data()[model.choices()] == target.size());
    return model;
}

// An enlargement, and the arrays that it reads.
class World {
public:
    World(In<uint64_t> choice_start, In<uint64_t> branch_start, In<uint32_t> target, In<double> probability, In<uint64_t> option_start,
          In<uint64_t> option_choice, In<uint32_t> initial, In<double> minimum, In<uint32_t> least, In<uint32_t> rank, double bound,
          uint64_t cap)
        : growth_(fit(choice_start, branch_start, target, probability, option_start, option_choice,
                      {minimum.size(), least.size(), rank.size()}),
                  numbers(initial), minimum.data(), least.data(), rank.data(), bound, cap),
          offsets_{choice_start, branch_start, option_start, option_choice},
          numbers_{target, least, rank},
          reals_{probability, minimum} {}

    double reset(In<uint8_t> seed) {
        expect(seed.size() == growth_.risk().permitted.size());
        nb::gil_scoped_release release;
        return growth_.reset(seed.data());
    }
    auto enlarge(In<double> priority, double slack, double seconds, uint64_t work) {
        expect(priority.size() == growth_.risk().permitted.size());
        Poll poll(seconds);
        nb::gil_scoped_release release;
        Enlargement::Additions additions = growth_.enlarge(priority.data(), slack, poll, work);
        return std::make_tuple(std::move(additions.accepted), std::move(additions.open), std::move(additions.left));
    }
    std::vector<uint32_t> extension(uint32_t option, bool best) {
        expect(option < growth_.risk().permitted.size());
        nb::gil_scoped_release release;
        return growth_.extension(option, best);
    }
    double permit(const std::vector<uint32_t>& options) {
        for (const uint32_t option : options) expect(option < growth_.risk().permitted.size());
        nb::gil_scoped_release release;
        return growth_.permit(options);
    }
    void read(Out<uint8_t> permitted, Out<uint8_t> reached, Out<double> value) const {
        const RiskValues& risk = growth_.risk();
        expect(permitted.size() == risk.permitted.size() && reached.size() == risk.reached.size() && value.size() == risk.value.size());
        std::copy(risk.permitted.begin(), risk.permitted.end(), permitted.data());
        std::copy(risk.reached.begin(), risk.reached.end(), reached.data());
        std::copy(risk.value.begin(), risk.value.end(), value.data());
    }
    uint64_t work() const { return growth_.risk().spent; }
    uint64_t count() const {
        const std::vector<uint8_t>& permitted = growth_.risk().permitted;
        return uint64_t(std::count(permitted.begin(), permitted.end(), uint8_t{1}));
    }

private:
    static OptionModel fit(const In<uint64_t>& choice_start, const In<uint64_t>& branch_start, const In<uint32_t>& target,
                           const In<double>& probability, const In<uint64_t>& option_start, const In<uint64_t>& option_choice,
                           std::initializer_list<size_t> per_state) {
        const OptionModel model = options_of(branch_start, target, option_start, option_choice, probability.data(), choice_start.data());
        expect(choice_start.size() == option_start.size() && probability.size() == target.size());
        for (const size_t size : per_state) expect(size == model.mdp.states);
        return model;
    }

    Enlargement growth_;
    std::vector<In<uint64_t>> offsets_;  // alive as long as the enlargement
    std::vector<In<uint32_t>> numbers_;
    std::vector<In<double>> reals_;
};

void mark_reached(In<uint64_t> branch_start, In<uint32_t> target, In<uint64_t> option_start, In<uint64_t> option_choice,
                  In<uint8_t> permitted, In<uint32_t> initial, Out<uint8_t> reached) {
    const OptionModel model = options_of(branch_start, target, option_start, option_choice);
    expect(permitted.size() == model.options() && reached.size() == model.mdp.states);
    nb::gil_scoped_release release;
    reach_permitted(model, permitted.data(), numbers(initial), reached.data());
}

bool play(In<uint64_t> branch_start, In<uint32_t> target, In<double> probability, In<uint64_t> option_start, In<uint64_t> option_choice,
          Out<double> value, Out<uint32_t> best, double seconds) {
    const OptionModel model = options_of(branch_start, target, option_start, option_choice, probability.data());
    expect(probability.size() == target.size() && value.size() == model.mdp.states && best.size() == model.mdp.states);
    Poll poll(seconds);
    nb::gil_scoped_release release;
    return least_risk_game(model, value.data(), best.data(), poll);
}

uint64_t learn(In<uint64_t> branch_start, In<uint32_t> target, In<double> probability, In<uint64_t> option_start,
               In<uint64_t> option_choice, In<uint8_t> permitted, In<uint32_t> initial, In<double> cost, Out<double> quality,
               Out<uint64_t> seen, uint64_t episodes, uint64_t longest, double explore, uint64_t seed, double seconds) {
    const OptionModel model = options_of(branch_start, target, option_start, option_choice, probability.data());
    expect(probability.size() == target.size() && permitted.size() == model.options() && quality.size() == model.options() &&
           cost.size() == model.choices() && seen.size() == model.choices() && initial.size() > 0);
    Poll poll(seconds);
    nb::gil_scoped_release release;
    return learn_quality(model, permitted.data(), numbers(initial), cost.data(), quality.data(), seen.data(),
                         {episodes, longest, explore, seed}, poll);
}

}  // namespace

void bind_permissive(nb::module_& m) {
    using namespace nb::literals;
    nb::class_<World>(m, "Enlargement", "A permissive scheduler that grows; keeps its arrays alive.")
        .def(nb::init<In<uint64_t>, In<uint64_t>, In<uint32_t>, In<double>, In<uint64_t>, In<uint64_t>, In<uint32_t>, In<double>,
                      In<uint32_t>, In<uint32_t>, double, uint64_t>(),
             "choice_start"_a, "branch_start"_a, "target"_a, "probability"_a, "option_start"_a, "option_choice"_a, "initial"_a, "minimum"_a,
             "least"_a, "rank"_a, "bound"_a, "cap"_a)
        .def("reset", &World::reset, "seed"_a)
        .def("enlarge", &World::enlarge, "priority"_a, "slack"_a, "seconds"_a, "work"_a)
        .def("extension", &World::extension, "option"_a, "best"_a)
        .def("permit", &World::permit, "options"_a)
        .def("read", &World::read, "permitted"_a, "reached"_a, "value"_a)
        .def("work", &World::work, "How many branches were looked at so far.")
        .def("count", &World::count);
    m.def("reach_permitted", &mark_reached, "branch_start"_a, "target"_a, "option_start"_a, "option_choice"_a, "permitted"_a, "initial"_a,
          "reached"_a);
    m.def("least_risk_game", &play, "branch_start"_a, "target"_a, "probability"_a, "option_start"_a, "option_choice"_a, "value"_a, "best"_a,
          "seconds"_a);
    m.def("q_learn", &learn, "branch_start"_a, "target"_a, "probability"_a, "option_start"_a, "option_choice"_a, "permitted"_a, "initial"_a,
          "cost"_a, "quality"_a, "seen"_a, "episodes"_a, "longest"_a, "explore"_a, "seed"_a, "seconds"_a);
}

}  // namespace polvet
