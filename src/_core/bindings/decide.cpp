// Python's view of the safety solvers.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings/arrays.h"
#include "bindings/listener.h"
#include "decide/decide.h"
#include "policies/bound_policy.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace polvet {

namespace {

// What Python holds: the solvers (one per thread), and the last fault of the model.
struct Decider {
    Decider() = default;
    Decider(const Decider&) = delete;
    Decider& operator=(const Decider&) = delete;

    std::vector<std::unique_ptr<Solver>> solvers;
    std::shared_ptr<Board> board;  // with sharing and several threads
    uint32_t words = 1;
    nb::object preferred = nb::none();
    Fault fault = Fault::NONE;
    std::vector<uint64_t> faulty;
    Status status = Status::DONE;
    std::vector<double> busy;  // CPU seconds of each thread in the last batch
};

SolverOptions read_options(const std::string& algorithm, const std::string& order, uint64_t seed, bool share, uint32_t radius) {
    SolverOptions options;
    options.algorithm = algorithm;
    options.seed = seed;
    options.share = share;
    options.radius = radius;
    if (order == "policy") options.order = Order::POLICY;
    else if (order == "random") options.order = Order::RANDOM;
    else if (order == "last") options.order = Order::LAST;
    else if (order != "app") throw nb::value_error("order is app, policy, random or last");
    return options;
}

// The policy is a compiled one, or a Python function of the packed state.
void ask_policy(Decider& decider, SolverOptions& options, nb::object preferred) {
    decider.preferred = preferred;
    if (options.order == Order::POLICY && preferred.is_none()) throw nb::value_error("the order 'policy' needs a policy");
    if (preferred.is_none()) return;
    if (const BoundPolicy* policy; nb::try_cast(preferred, policy)) {
        if (policy->program->words != decider.words) throw nb::value_error("the policy is bound to another model");
        options.preferred = [policy](const uint64_t* state, const std::vector<MoveRecord>& moves) {
            Chooser chooser(*policy);
            chooser.add(state, moves.data(), moves.data() + moves.size());
            chooser.decide();
            return chooser.chosen[0];
        };
        return;
    }
    options.preferred = [&decider](const uint64_t* state, const std::vector<MoveRecord>&) {
        nb::gil_scoped_acquire gil;
        return nb::cast<int32_t>(decider.preferred(give(std::vector<uint64_t>(state, state + decider.words))));
    };
}

// Runs without the GIL; what stops the work is kept on the decider.
template <class Work> bool guarded(Decider& decider, Work work) {
    decider.status = Status::DONE;
    nb::gil_scoped_release release;
    try {
        work();
    } catch (const Stop& stop) { decider.status = stop.status; } catch (const BrokenModel& broken) {
        decider.status = Status::FAULT;
        decider.fault = broken.fault;
        decider.faulty = broken.state;
    }
    return decider.status == Status::DONE;
}

// What the first solver says about the states, by one of its member functions.
template <class Evidence>
Evidence evidence_of(Decider& decider, Evidence (Solver::*ask)(const uint64_t*, size_t, Watch&), const Array<uint64_t>& states,
                     double seconds, uint64_t bytes) {
    Limits limits{seconds, bytes, UINT32_MAX - 2, listening({})};
    Watch watch{[&limits](uint64_t used, uint64_t known) { return limits.poll(used, known, known); }};
    Evidence evidence;
    guarded(decider, [&] { evidence = (decider.solvers[0].get()->*ask)(states.data(), states.shape(0), watch); });
    return evidence;
}

}  // namespace

void bind_decide(nb::module_& m) {
    nb::class_<Decider>(m, "Decider")
        .def(nb::new_([](std::shared_ptr<Program> program, int32_t fail, int32_t goal, const std::string& algorithm,
                         const std::string& order, uint64_t seed, bool share, uint32_t threads, uint32_t radius, nb::object preferred) {
                 auto decider = std::make_unique<Decider>();
                 SolverOptions options = read_options(algorithm, order, seed, share, radius);
                 decider->words = program->words;
                 ask_policy(*decider, options, preferred);
                 if (share && threads > 1) decider->board = options.board = std::make_shared<Board>(program->words);
                 for (uint32_t k = 0; k < std::max(threads, 1u); ++k) decider->solvers.push_back(make_solver(program, fail, goal, options));
                 return decider.release();
             }),
             "program"_a, "fail"_a, "goal"_a, "algorithm"_a, "order"_a, "seed"_a, "share"_a, "threads"_a, "radius"_a, "preferred"_a.none())
        .def_static(
            "of_table",
            [](Array<uint8_t> born, Array<uint32_t> action_start, Array<uint32_t> outcome_start, Array<uint32_t> target,
               const std::string& algorithm, const std::string& order, uint64_t seed, bool share, uint32_t threads, uint32_t radius,
               nb::object preferred, uint64_t patience) {
                auto table = std::make_shared<TableGame::Table>();
                table->born.assign(born.data(), born.data() + born.size());
                table->action_start.assign(action_start.data(), action_start.data() + action_start.size());
                table->outcome_start.assign(outcome_start.data(), outcome_start.data() + outcome_start.size());
                table->target.assign(target.data(), target.data() + target.size());
                auto decider = std::make_unique<Decider>();
                SolverOptions options = read_options(algorithm, order, seed, share, radius);
                options.patience = patience;
                ask_policy(*decider, options, preferred);
                if (share && threads > 1) decider->board = options.board = std::make_shared<Board>(1);
                for (uint32_t k = 0; k < std::max(threads, 1u); ++k) decider->solvers.push_back(make_solver(table, options));
                return decider.release();
            },
            "born"_a, "action_start"_a, "outcome_start"_a, "target"_a, "algorithm"_a, "order"_a = "app", "seed"_a = 0, "share"_a = true,
            "threads"_a = 1, "radius"_a = NONE, "preferred"_a.none() = nb::none(), "patience"_a = SolverOptions().patience,
            nb::rv_policy::take_ownership)
        .def_ro("status", &Decider::status)
        .def_ro("fault", &Decider::fault)
        .def_ro("busy", &Decider::busy, "CPU seconds of each thread in the last batch.")
        .def_prop_ro(
            "faulty", [](const Decider& d) { return give(std::vector(d.faulty), {1, d.words}); }, nb::rv_policy::move)
        .def_prop_ro("peak_bytes",
                     [](const Decider& d) {
                         uint64_t total = 0;
                         for (const auto& solver : d.solvers) total += solver->peak();
                         return total;
                     })
        .def_prop_ro("held_bytes",
                     [](const Decider& d) {
                         uint64_t total = d.board ? d.board->bytes() : 0;
                         for (const auto& solver : d.solvers) total += solver->held();
                         return total;
                     })
        .def_prop_ro("known_states",
                     [](const Decider& d) {
                         uint64_t total = 0;
                         for (const auto& solver : d.solvers) total += solver->known_states();
                         return total;
                     })
        .def(
            "decide",
            [](Decider& d, Array<uint64_t> states, double seconds, uint64_t bytes, uint64_t max_states, Progress progress) {
                const size_t n = states.shape(0);
                Limits limits{seconds, bytes, std::min<uint64_t>(max_states, UINT32_MAX - 2), listening(progress)};
                Batch batch;
                if (guarded(d, [&] { batch = decide_all(d.solvers, d.board.get(), states.data(), n, d.words, limits); }))
                    d.status = batch.status;
                batch.answers.resize(n);
                d.busy = batch.busy;
                std::vector<uint8_t> known(n);
                std::vector<int32_t> status(n);
                std::vector<uint64_t> looks(n), nanoseconds(n), passes(n);
                for (size_t k = 0; k < n; ++k) {
                    const Answer& a = batch.answers[k];
                    known[k] = a.known;
                    status[k] = int32_t(a.status);
                    looks[k] = a.looks;
                    nanoseconds[k] = a.nanoseconds;
                    passes[k] = a.passes;
                }
                return std::make_tuple(give(std::move(known)), give(std::move(status)), give(std::move(looks)), give(std::move(passes)),
                                       give(std::move(nanoseconds)));
            },
            "states"_a, "seconds"_a, "bytes"_a, "max_states"_a, "progress"_a,
            "known (0 undecided, 1 unsafe, 2 safe), status, looks, passes and nanoseconds per state.")
        .def(
            "foresee",
            [](Decider& d, const Program& program, std::vector<uint32_t> variables, std::vector<std::tuple<double, double, uint64_t>> lines,
               std::vector<std::pair<uint32_t, int64_t>> clocks, std::vector<std::pair<uint32_t, int64_t>> tops, Array<uint8_t> verdicts) {
                auto foreseen = std::make_shared<Foreseen>();
                uint64_t size = 1;
                size_t real = lines.size();
                for (size_t k = variables.size(); k-- > 0;) {
                    const Field& field = program.fields.at(variables[k]);
                    uint64_t count = field.range + 1;
                    if (field.real) {
                        if (real-- == 0) throw nb::value_error("a real variable has no cells");
                        const auto [lower, scale, cells] = lines[real];
                        foreseen->lines.push_back({field.word, lower, scale, count = cells, size});
                    } else {
                        if (field.range >= (uint64_t(1) << 32)) throw nb::value_error("a variable has too many values");
                        for (const auto& [variable, least] : tops) {
                            if (variable != variables[k]) continue;
                            if (least < field.lower) throw nb::value_error("the values from there on are all there are");
                            count = std::min(count, uint64_t(least - field.lower) + 1);
                        }
                        foreseen->places.push_back({field.word, field.shift, field.mask, size, count - 1});
                    }
                    size *= count;
                    if (size > (uint64_t(1) << 32)) throw nb::value_error("there are too many combinations");
                }
                for (const auto& [variable, latest] : clocks) {
                    const Field& field = program.fields.at(variable);
                    if (field.real || latest < field.lower) throw nb::value_error("this is no clock");
                    foreseen->clocks.push_back({field.word, field.shift, field.mask, uint64_t(latest - field.lower)});
                }
                if (verdicts.size() != size) throw nb::value_error("the table has another number of entries");
                foreseen->verdicts.assign(verdicts.data(), verdicts.data() + verdicts.size());
                foreseen->wins = std::find(foreseen->verdicts.begin(), foreseen->verdicts.end(), uint8_t(SAFE)) != foreseen->verdicts.end();
                for (auto& solver : d.solvers) solver->foresee(foreseen);
            },
            "program"_a, "variables"_a, "lines"_a, "clocks"_a, "tops"_a, "verdicts"_a,
            "Take the verdicts (0 none, 1 unsafe, 2 safe) on cells: combinations of values of the variables, the last one fastest. A real "
            "variable has a line (lower end, cells per unit, cells); a clock (variable, value) says up to when all this holds; a top "
            "(variable, value) makes all values from there on one.")
        .def(
            "safe_policy",
            [](Decider& d, Array<uint64_t> states, double seconds, uint64_t bytes) {
                SafePolicy evidence = evidence_of(d, &Solver::safe_policy, states, seconds, bytes);
                const size_t n = evidence.labels.size();
                return std::make_tuple(give(std::move(evidence.states), {n, d.words}), give(std::move(evidence.labels)));
            },
            "states"_a, "seconds"_a, "bytes"_a,
            "A closed set of safe states around the given ones, each with its label (-1 silent, -2 ended).")
        .def(
            "unsafe_rank",
            [](Decider& d, Array<uint64_t> states, double seconds, uint64_t bytes) {
                UnsafeRank evidence = evidence_of(d, &Solver::unsafe_rank, states, seconds, bytes);
                const size_t n = evidence.rank.size();
                return std::make_tuple(give(std::move(evidence.states), {n, d.words}), give(std::move(evidence.rank)),
                                       give(std::move(evidence.pair_start)), give(std::move(evidence.label)),
                                       give(std::move(evidence.witness)));
            },
            "states"_a, "seconds"_a, "bytes"_a, "states, rank, pair_start, label, witness: why the given states are unsafe.")
        .def(
            "outlook",
            [](Decider& d, Array<uint64_t> states, double seconds, uint64_t bytes) {
                Outlook evidence = evidence_of(d, &Solver::outlook, states, seconds, bytes);
                const size_t n = evidence.outcome_start.back();
                return std::make_tuple(give(std::move(evidence.action_start)), give(std::move(evidence.label)),
                                       give(std::move(evidence.outcome_start)), give(std::move(evidence.outcomes), {n, d.words}));
            },
            "states"_a, "seconds"_a, "bytes"_a,
            "action_start, label (-1: silent), outcome_start, outcomes: all that can happen in each state; nothing where runs end.");
}

}  // namespace polvet
