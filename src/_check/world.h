// What a flat text means, in integers of 64 bits, doubles, and weights that are small fractions. Whatever does not fit is a `Doubt`: the
// reference then judges the state. docs/flat.md is the definition.
#pragma once
#include <map>
#include <memory>
#include <optional>

#include "text.h"

namespace polvet::judging {

// The state is left to the reference: an error of the model, or numbers that are too large here.
struct Doubt {};

union Cell {
    int64_t i;
    double d;
};
using Cells = std::vector<Cell>;

// A fraction with a denominator above 0, in lowest terms.
struct Ratio {
    int64_t top = 0, bottom = 1;
};

enum class Op : uint8_t {
    INTEGER,
    DOUBLE,
    PLACE,
    ERROR,
    NOT,
    AND,
    OR,
    IMPLIES,
    EQUAL,
    LESS,
    AT_MOST,
    ADD,
    SUBTRACT,
    MULTIPLY,
    LEAST,
    GREATEST,
    DIVIDE,
    MODULO,
    POWER,
    LOG,
    ABS,
    SIGN,
    FLOOR,
    CEIL,
    TRUNCATE,
    FUNCTION,
    IF,
    AT,
};

struct Expression {
    Op op = Op::ERROR;
    bool is_real = false;  // whether the value may be a double
    int64_t i = 0;         // of INTEGER its value, of PLACE the variable, of FUNCTION which
    double d = 0;
    std::vector<std::shared_ptr<const Expression>> parts;
};
using Expr = std::shared_ptr<const Expression>;

// A value as it is at run time: an integer or a double.
struct Number {
    bool is_real;
    Cell cell;
};
Number evaluate(const Expression& e, const Cell* state);
bool is_true(const Expression& e, const Cell* state);
double real_of(Number x);
Ratio weight_of(const Expression& e, const Cell* state);  // computed exactly

struct Variable {
    std::string name;
    bool is_real = false, has_low = false, has_high = false;
    Cell low{}, high{};
};

struct Assignment {
    uint32_t place;
    Expr value;
};
using Stage = std::vector<Assignment>;

struct Branch {
    Expr weight;
    std::vector<Stage> stages;
};

constexpr int32_t SILENT = -1;

struct Operator {
    int32_t label = SILENT;
    Expr guard;  // none: always
    std::vector<Branch> branches;
};

// What may happen in a state: moves with labels, each a range of outcomes; the states after them stand one after another.
struct Moves {
    struct Move {
        int32_t label;
        uint32_t begin, end;
    };
    std::vector<Move> moves;
    std::vector<Ratio> weights;
    Cells states;
};

struct Range {
    uint32_t place;
    bool has_low = true, has_high = true;
    Cell low{}, high{};
    std::vector<Expr> conditions;
};

class World {
public:
    explicit World(std::string_view text);

    uint32_t size() const { return uint32_t(count_); }
    const std::vector<Variable>& variables() const { return variables_; }
    Expr compile(const Item& item) const;
    int32_t label(const std::string& name) const;  // -2: no operator has it
    size_t labels() const { return labels_.size(); }
    const std::string& says(const std::string& key) const;
    bool avoids(const std::string& what) const;
    bool is_fail(const Cell* state) const { return is_true(*fail_, state); }
    bool is_goal(const Cell* state) const { return is_true(*goal_, state); }
    void expand(const Cell* state, Moves& moves) const;        // throws Doubt at an error of the model
    bool put(uint32_t place, Number value, Cell& cell) const;  // false: out of bounds
    // Call `each` with every start state, until it returns false; false: it did.
    template <class Each> bool starts(Each&& each) const;
    const std::vector<Item>* policy() const { return policy_.empty() ? nullptr : &policy_; }

private:
    void read(const Item& item);
    void declare(const Item& item);
    uint32_t place(const Item& word) const;
    Operator row(const Item& item) const;
    void fire(const Operator& op, const Cell* full, Moves& moves) const;
    template <class Each> bool extend(size_t depth, Cells& state, Each& each) const;

    std::vector<Variable> variables_;  // scratch variables last
    size_t count_ = 0;
    std::vector<Cell> scratch_;
    std::map<std::string, uint32_t> places_;
    std::map<std::string, Expr> defined_;
    std::map<std::string, int32_t> labels_;
    std::vector<Operator> operators_;
    std::map<uint32_t, std::map<int64_t, std::vector<Operator>>> rows_;
    std::map<uint32_t, std::vector<std::pair<uint32_t, std::vector<int64_t>>>> features_;
    std::map<uint32_t, std::vector<uint32_t>> events_;
    std::map<std::string, std::vector<std::string>> meaning_;
    Expr fail_, goal_;
    std::vector<Range> ranges_;
    std::vector<Cells> listed_starts_;
    bool has_start_ = false, is_chance_ = false, disables_ = false;
    std::vector<Item> policy_;
    // Of operators whose guards begin with `(= x 3)` those of each value of the variable that most test, and all others.
    std::optional<uint32_t> tested_;
    std::map<int64_t, std::vector<uint32_t>> by_value_;
    std::vector<uint32_t> others_;
};

template <class Each> bool World::extend(size_t depth, Cells& state, Each& each) const {
    if (depth == ranges_.size()) return each(state.data());
    const Range& range = ranges_[depth];
    for (int64_t value = range.low.i; variables_[range.place].is_real || value <= range.high.i; ++value) {
        state[range.place] = variables_[range.place].is_real ? range.low : Cell{.i = value};
        bool holds = true;
        for (const Expr& condition : range.conditions) {
            try {
                holds = is_true(*condition, state.data());
            } catch (const Doubt&) {
                holds = true;  // an error counts as true where a claim is about all start states
            }
            if (!holds) break;
        }
        if (holds && !extend(depth + 1, state, each)) return false;
        if (variables_[range.place].is_real) break;
    }
    return true;
}

template <class Each> bool World::starts(Each&& each) const {
    for (const Cells& state : listed_starts_)
        if (!each(state.data())) return false;
    if (ranges_.empty()) return true;
    for (const Range& range : ranges_)
        if (!range.has_low || !range.has_high || (variables_[range.place].is_real && range.low.d != range.high.d))
            throw Unhandled("infinitely many start states");
    Cells state(count_);
    return extend(0, state, each);
}

}  // namespace polvet::judging
