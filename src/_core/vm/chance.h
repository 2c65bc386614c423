// Probabilities that depend on the state, decided exactly: which branches are possible, and whether they are a distribution.
//
// A probability is a tree of nodes {op, a, b, c}, children before parents, evaluated as the interpreter does
// (model/evaluate.py with `exact`): integers and fractions without limits, a real variable as the fraction its double is, and
// doubles only from functions without rational results. Lowering (kernel/chances.py) is the only writer.
#pragma once
#include <cstdint>
#include <vector>

#include "vm/rational.h"

namespace polvet {

enum class Fault : int32_t;

enum class ChanceOp : int32_t {  // the order of kernel/chances.py's NODES
    NUMBER,                      // constant a
    SLOT,                        // the variable in register a; b: it is real
    NOT,
    AND,
    OR,
    IMPLIES,
    EQ,
    NE,
    LT,
    LE,
    GT,
    GE,
    ADD,
    SUB,
    MUL,
    DIV,
    MIN,
    MAX,
    MOD,
    POW,
    LOG,  // a op b
    ABS,
    SGN,
    FLOOR,
    CEIL,
    TRC,     // op a
    FUN,     // function b of a
    ITE,     // a ? b : c
    SELECT,  // list a: the nodes of b indices, their lengths, the nodes of all items
};

struct ChanceNode {
    ChanceOp op;
    int32_t a, b, c;
};

struct Number {
    enum Sort : uint8_t { WHOLE, FRACTION, DOUBLE } sort = WHOLE;
    Rational exact;   // unless DOUBLE
    double real = 0;  // where DOUBLE
};

struct Constant {
    Number number;
    long double near, off;  // the number is at most `off` away from `near`; infinite where it has none
};

Constant constant_of(bool is_whole, Rational value);

struct ComputedEdge {              // an edge with probabilities that depend on the state
    std::vector<int32_t> chances;  // the node of each branch
    std::vector<int32_t> reads;    // the registers they read
};

struct Chances {  // of a program
    std::vector<ComputedEdge> edges;
    std::vector<ChanceNode> nodes;
    std::vector<Constant> constants;
    std::vector<std::vector<int32_t>> lists;
};

// The probability of each branch of an edge, scaled to sum to 1: 0 exactly where it is impossible, else the nearest positive
// double, or one that is off from it by a small part of its last unit. The registers hold the state. Returns a fault where an
// operation is undefined or the branches are no distribution.
Fault exact_chances(const Chances& chances, const ComputedEdge& edge, const int64_t* registers, double* result);

// What `exact_chances` said, by the values that an edge's probabilities read; old answers give way to new ones.
class ChanceTable {
public:
    // Returns the probabilities of the edge's branches, null on a fault.
    const double* find(const Chances& chances, const ComputedEdge& edge, const int64_t* registers, Fault& fault);

private:
    static constexpr size_t LEAST = 16, MOST = 1024;
    std::vector<int64_t> keys_;
    std::vector<double> values_;
    std::vector<uint8_t> filled_;
};

}  // namespace polvet
