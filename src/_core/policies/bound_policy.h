// A policy bound to a program: packed states to rows of inputs, outputs to labels, and the label it takes in each state.
//
// `Chooser` collects the states of a batch with their enabled moves, then asks the policy once for all of them.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "policies/policies.h"
#include "vm/program.h"

namespace polvet {

// What stands in the place of a label.
constexpr int32_t PSEUDO_ACTION = -1;  // only silent operators are enabled
constexpr int32_t STUCK = -2;          // the policy's label is not applicable
constexpr int32_t DEADLOCK = -3;       // nothing is enabled
constexpr int32_t BROKEN = -4;         // a score is not a number

// What is read of a state, one number per column: a variable's number, or, from the number of variables on, that of an expression:
// a state reward of the program `features`, which has the same variables and no edges. ASKED columns are filled by someone else.
struct Inputs {
    static constexpr uint32_t ASKED = UINT32_MAX;
    std::shared_ptr<const Program> program, features;
    std::vector<uint32_t> columns;

    void check() const;  // throws where a number names nothing
};

// Packed states to rows of inputs; one for each thread.
class RowReader {
public:
    explicit RowReader(const Inputs& inputs) : inputs_(inputs) {
        if (inputs.features) machine_ = std::make_unique<Machine>(inputs.features);
    }
    // Each value as the float32 nearest to it; truth values are 0 and 1, locations their number. NONE, or why an expression has no value.
    Fault row(const uint64_t* state, float* out);

private:
    const Inputs& inputs_;
    std::unique_ptr<Machine> machine_;
};

struct BoundPolicy {
    std::shared_ptr<const Program> program;
    std::shared_ptr<void> given;          // the Python object of the scorer, or a function: held where the garbage collector sees it
    std::shared_ptr<const Scorer> owned;  // a Python function dressed as a scorer
    const Scorer* scorer = nullptr;
    const Enclosed* network = nullptr;     // where the scorer is a network: the one kind with several evaluations
    bool filtered = true, threads = true;  // threads: may be asked by several threads at once
    // How often something may be done between two looks at limits: a function of Python takes its time.
    size_t patience(size_t times) const { return threads ? times : 1; }
    Inputs inputs;
    std::shared_ptr<void> functions;       // a Python function of packed states that returns the values of the ASKED columns, or null
    std::vector<int32_t> label_of_output;  // -1: the model has no such label
    std::vector<int32_t> output_of_label;  // -1: the policy has no such output

    size_t width() const { return inputs.columns.size(); }
    // Fill the ASKED columns of n rows.
    void ask(const uint64_t* states, size_t n, float* rows) const;
};

class Chooser {
public:
    explicit Chooser(const BoundPolicy& policy) : policy_(policy), reader_(policy.inputs) {}

    void clear() {
        chosen.clear();
        rows_.clear();
        states_.clear();
        masks_.clear();
        asked_.clear();
    }
    void add(const uint64_t* state, const MoveRecord* begin, const MoveRecord* end);
    void decide();  // fills `chosen`
    // Further labels that another float32 evaluation order might take in state k of the batch (after decide; networks only).
    void rivals(size_t k, std::vector<int32_t>& labels, bool& may_stick);
    const float* row(size_t k) const;  // the inputs of state k, null where the policy was not asked
    const uint8_t* mask(size_t k) const;

    std::vector<int32_t> chosen;  // per state: a label, or PSEUDO_ACTION, STUCK, DEADLOCK, BROKEN
    bool want_sure = false;
    std::vector<uint8_t> sure;  // per state, with want_sure: every evaluation order chooses the same

private:
    const BoundPolicy& policy_;
    RowReader reader_;
    std::vector<float> rows_;
    std::vector<uint64_t> states_;  // of the rows, where functions are asked about them
    std::vector<uint8_t> masks_, sure_rows_;
    std::vector<uint32_t> asked_;  // the states whose rows these are
    std::vector<int32_t> answers_;
};

// Keep of each state's moves those of its chosen label and the silent ones; `ends[k]` is where the moves of state k end.
void keep_chosen(Expansion& e, std::vector<uint32_t>& ends, const std::vector<int32_t>& chosen, size_t words, size_t rewards);

}  // namespace polvet
