// What a bound policy chooses, in batches; see policies/bound_policy.h.
#include "policies/bound_policy.h"

#include <algorithm>
#include <stdexcept>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace polvet {

void Inputs::check() const {
    const size_t variables = program->fields.size(), known = variables + (features ? features->state_rewards.size() : 0);
    for (const uint32_t column : columns)
        if (column >= known && column != ASKED) throw std::invalid_argument("an input is no variable of the program and no expression");
    if (features && (features->words != program->words || features->fields.size() != variables))
        throw std::invalid_argument("the expressions belong to another program");
}

Fault RowReader::row(const uint64_t* state, float* out) {
    const Program& program = *inputs_.program;
    const size_t variables = program.fields.size();
    for (const uint32_t column : inputs_.columns) {
        if (column < variables) {
            const Field& field = program.fields[column];
            const uint64_t bits = state[field.word] >> field.shift & field.mask;
            *out++ = field.real ? float(as_real(int64_t(state[field.word]))) : float(double(int64_t(bits + uint64_t(field.lower))));
        } else if (column == Inputs::ASKED) {
            *out++ = 0;
        } else {
            *out++ = float(as_real(machine_->value(inputs_.features->state_rewards[column - variables], state)));
            if (machine_->fault != Fault::NONE) return machine_->fault;
        }
    }
    return Fault::NONE;
}

void BoundPolicy::ask(const uint64_t* states, size_t n, float* rows) const {
    nb::gil_scoped_acquire gil;
    size_t answers = 0;
    for (const uint32_t column : inputs.columns) answers += column == Inputs::ASKED;
    const size_t shape[2] = {n, program->words};
    nb::object given = nb::cast(nb::ndarray<nb::numpy, const uint64_t>(states, 2, shape, nb::handle()), nb::rv_policy::copy);
    nb::object answer = nb::borrow(static_cast<PyObject*>(functions.get()))(given);
    auto values = nb::cast<nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>>(answer);
    if (values.shape(0) != n || values.shape(1) != answers) throw std::runtime_error("the functions answered another number of values");
    const float* value = values.data();
    for (size_t k = 0; k < n; ++k)
        for (size_t c = 0; c < width(); ++c)
            if (inputs.columns[c] == Inputs::ASKED) rows[k * width() + c] = *value++;
}

void Chooser::add(const uint64_t* state, const MoveRecord* begin, const MoveRecord* end) {
    const uint32_t number = uint32_t(chosen.size());
    if (begin == end) {
        chosen.push_back(DEADLOCK);
        return;
    }
    if (begin->label < 0) {
        chosen.push_back(PSEUDO_ACTION);
        return;
    }  // labelled moves stand first
    chosen.push_back(STUCK);
    const size_t width = policy_.width(), outputs = policy_.label_of_output.size();
    rows_.resize(rows_.size() + width);
    if (reader_.row(state, rows_.data() + rows_.size() - width) != Fault::NONE) {
        rows_.resize(rows_.size() - width);
        chosen.back() = BROKEN;
        return;
    }
    if (policy_.functions) states_.insert(states_.end(), state, state + policy_.program->words);
    masks_.resize(masks_.size() + outputs, 0);
    uint8_t* mask = masks_.data() + masks_.size() - outputs;
    for (const MoveRecord* move = begin; move != end && move->label >= 0; ++move)
        if (const int32_t output = policy_.output_of_label[size_t(move->label)]; output >= 0) mask[output] = 1;
    asked_.push_back(number);
}

void Chooser::decide() {
    const size_t n = asked_.size(), outputs = policy_.label_of_output.size();
    if (want_sure) sure.assign(chosen.size(), 1);
    if (n == 0) return;
    answers_.resize(n);
    if (policy_.functions) policy_.ask(states_.data(), n, rows_.data());
    const uint8_t* mask = policy_.filtered ? masks_.data() : nullptr;
    if (want_sure && policy_.network) {
        sure_rows_.resize(n);
        policy_.network->choose_surely(rows_.data(), n, mask, answers_.data(), sure_rows_.data());
        for (size_t k = 0; k < n; ++k) sure[asked_[k]] = sure_rows_[k];
    } else {
        policy_.scorer->choose(rows_.data(), n, mask, answers_.data());
    }
    for (size_t k = 0; k < n; ++k) {
        const int32_t output = answers_[k];
        if (output == SCORE_IS_NAN) chosen[asked_[k]] = BROKEN;
        else if (output >= 0 && masks_[k * outputs + size_t(output)]) chosen[asked_[k]] = policy_.label_of_output[size_t(output)];
    }
}

const float* Chooser::row(size_t k) const {
    const auto place = std::lower_bound(asked_.begin(), asked_.end(), uint32_t(k));
    if (place == asked_.end() || *place != k) return nullptr;
    return rows_.data() + size_t(place - asked_.begin()) * policy_.width();
}

const uint8_t* Chooser::mask(size_t k) const {
    const auto place = std::lower_bound(asked_.begin(), asked_.end(), uint32_t(k));
    if (place == asked_.end() || *place != k) return nullptr;
    return masks_.data() + size_t(place - asked_.begin()) * policy_.label_of_output.size();
}

void Chooser::rivals(size_t k, std::vector<int32_t>& labels, bool& may_stick) {
    labels.clear();
    may_stick = false;
    const float* inputs = row(k);
    if (!policy_.network || !inputs) return;
    const uint8_t* applicable = mask(k);
    const size_t outputs = policy_.label_of_output.size();
    std::vector<float> scores(outputs);
    std::vector<double> bounds(outputs);
    std::vector<uint8_t> possible(outputs);
    policy_.network->rounding_bounds(inputs, 1, scores.data(), bounds.data());
    possible_choices(scores.data(), bounds.data(), outputs, policy_.filtered ? applicable : nullptr, possible.data());
    for (size_t i = 0; i < outputs; ++i) {
        if (!possible[i]) continue;
        if (!applicable[i]) may_stick = true;
        else if (policy_.label_of_output[i] != chosen[k]) labels.push_back(policy_.label_of_output[i]);
    }
}

void keep_chosen(Expansion& e, std::vector<uint32_t>& ends, const std::vector<int32_t>& chosen, size_t words, size_t rewards) {
    uint32_t moves = 0, branches = 0, begin = 0;
    const bool earned = !e.rewards.empty();
    for (size_t k = 0; k < ends.size(); ++k) {
        const uint32_t end = ends[k];
        for (uint32_t v = begin; v < end; ++v) {
            const MoveRecord move = e.moves[v];
            if (chosen[k] < PSEUDO_ACTION || (move.label >= 0 && move.label != chosen[k])) continue;
            const uint32_t count = move.end - move.begin;
            if (branches != move.begin) {
                std::copy_n(e.words.begin() + move.begin * words, count * words, e.words.begin() + branches * words);
                std::copy_n(e.probability.begin() + move.begin, count, e.probability.begin() + branches);
                if (earned) std::copy_n(e.rewards.begin() + move.begin * rewards, count * rewards, e.rewards.begin() + branches * rewards);
            }
            e.moves[moves] = move;
            e.moves[moves].begin = branches;
            e.moves[moves++].end = branches + count;
            branches += count;
        }
        begin = end;
        ends[k] = moves;
    }
    e.moves.resize(moves);
    e.words.resize(branches * words);
    e.probability.resize(branches);
    if (earned) e.rewards.resize(branches * rewards);
}

namespace {

// A Python function of (rows, masks or None) as a scorer: tables, rule lists and users' own policies.
struct FunctionScorer final : Scorer {
    nb::handle function;  // `BoundPolicy::given` holds it

    void scores(const float*, size_t, float*) const override { throw std::logic_error("a function has no scores here"); }
    void scores(const float*, size_t, double*) const override { throw std::logic_error("a function has no scores here"); }
    void choose(const float* rows, size_t n, const uint8_t* applicable, int32_t* out) const override {
        nb::gil_scoped_acquire gil;
        const size_t row_shape[2] = {n, inputs}, mask_shape[2] = {n, outputs};
        nb::object mask = nb::none();
        if (applicable)
            mask = nb::cast(nb::ndarray<nb::numpy, const uint8_t>(applicable, 2, mask_shape, nb::handle()), nb::rv_policy::copy);
        nb::object given = nb::cast(nb::ndarray<nb::numpy, const float>(rows, 2, row_shape, nb::handle()), nb::rv_policy::copy);
        auto choices = nb::cast<nb::ndarray<const int32_t, nb::shape<-1>, nb::c_contig, nb::device::cpu>>(function(given, mask));
        if (choices.shape(0) != n) throw std::runtime_error("the policy answered another number of rows");
        std::copy_n(choices.data(), n, out);
    }
};

// A function may know, through its module, the very policy that holds it: the collector must see that circle to free it.
int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (nb::inst_ready(self)) {
        Py_VISIT(static_cast<PyObject*>(nb::inst_ptr<BoundPolicy>(self)->given.get()));
        Py_VISIT(static_cast<PyObject*>(nb::inst_ptr<BoundPolicy>(self)->functions.get()));
    }
    return 0;
}

int clear(PyObject* self) {
    nb::inst_ptr<BoundPolicy>(self)->given.reset();
    nb::inst_ptr<BoundPolicy>(self)->functions.reset();
    return 0;
}

PyType_Slot collected[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)}, {Py_tp_clear, reinterpret_cast<void*>(clear)}, {0, nullptr}};

std::shared_ptr<void> held(nb::object object) {
    return {object.inc_ref().ptr(), [](void* one) {
                nb::gil_scoped_acquire gil;
                Py_DECREF(static_cast<PyObject*>(one));
            }};
}

}  // namespace

void bind_bound_policy(nb::module_& m) {
    nb::class_<BoundPolicy>(m, "BoundPolicy", nb::type_slots(collected))
        .def(
            "__init__",
            [](BoundPolicy* self, std::shared_ptr<Program> program, nb::object policy, std::vector<uint32_t> inputs,
               std::vector<int32_t> label_of_output, size_t labels, bool filtered, std::shared_ptr<Program> features,
               nb::object functions) {
                BoundPolicy bound;
                bound.program = program;
                bound.given = held(policy);
                bound.inputs = {program, features, inputs};
                bound.inputs.check();
                if (!functions.is_none()) bound.functions = held(functions);
                bound.filtered = filtered;
                if (nb::isinstance<Scorer>(policy)) {
                    bound.scorer = nb::cast<const Scorer*>(policy);
                    bound.network = dynamic_cast<const Enclosed*>(bound.scorer);
                    if (bound.scorer->inputs != inputs.size() || bound.scorer->outputs != label_of_output.size())
                        throw nb::value_error("the policy has another number of inputs or outputs");
                } else {
                    auto made = std::make_shared<FunctionScorer>();
                    made->function = policy;
                    made->inputs = inputs.size();
                    made->outputs = label_of_output.size();
                    bound.owned = made;
                    bound.scorer = made.get();
                    bound.threads = false;
                }
                if (bound.functions) bound.threads = false;
                bound.output_of_label.assign(labels, -1);
                for (size_t k = 0; k < label_of_output.size(); ++k) {
                    const int32_t label = label_of_output[k];
                    if (label >= int32_t(labels)) throw nb::value_error("an output names a label that does not exist");
                    if (label >= 0) bound.output_of_label[size_t(label)] = int32_t(k);
                }
                bound.label_of_output = std::move(label_of_output);
                new (self) BoundPolicy(std::move(bound));
            },
            "program"_a, "policy"_a, "inputs"_a, "label_of_output"_a, "labels"_a, "filtered"_a, "features"_a.none() = nb::none(),
            "functions"_a = nb::none())
        .def(
            "rows",
            [](const BoundPolicy& self, nb::ndarray<const uint64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> states) {
                const size_t n = states.shape(0), width = self.width();
                auto* rows = new std::vector<float>(n * width);
                nb::capsule owner(rows, [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); });
                RowReader reader(self.inputs);
                for (size_t k = 0; k < n; ++k)
                    if (reader.row(states.data() + k * self.program->words, rows->data() + k * width) != Fault::NONE)
                        throw nb::value_error("an input has no value in a state");
                if (self.functions && n) self.ask(states.data(), n, rows->data());
                return nb::ndarray<nb::numpy, float>(rows->data(), {n, width}, owner);
            },
            "states"_a, "One row of inputs per packed state.");
}

}  // namespace polvet
