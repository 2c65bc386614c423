// A network compiled to register code, and the machine that runs it.
//
// Registers hold, in this order: one slot per variable and scratch variable, the constants, temporaries. Integers and
// truth values are int64, reals are doubles in the same 64 bits. Every instruction is {op, a, b, c}; what the letters
// mean stands beside each op below. Lowering (kernel/lower.py) is the only writer of such programs.
#pragma once
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "vm/chance.h"

namespace polvet {

enum Op : int32_t {
    HALT,    // stop
    EMIT,    // joint a may move with its edge b
    JMP,     // to c
    SWITCH,  // on register a, by jump table b
    JEQ,
    JNE,
    JLT,
    JLE,  // integers a, b: jump to c if the relation holds
    FJEQ,
    FJNE,
    FJLT,
    FJLE,  // reals a, b: likewise
    JNZ,
    JZ,   // truth value a: jump to c if it is (not) true
    MOV,  // a := b
    ADD,
    SUB,
    MUL,
    MIN,
    MAX,
    MOD,
    POW,  // a := b op c, integers, overflow caught
    ABS,
    SGN,  // a := op b, integers
    FADD,
    FSUB,
    FMUL,
    FDIV,
    FMIN,
    FMAX,
    FMOD_,
    FPOW,
    FLOG,  // a := b op c, reals
    FABS,
    FSGN,
    FLOOR,
    CEIL,
    TRC,     // a := op b, real to real (FABS) or to integer
    FUN,     // a := function c of b, reals
    I2F,     // a := real of integer b
    RANGE,   // fail unless 0 <= a < b (b: a plain number)
    GATHER,  // a := the register that table c names at position b
    SETW,    // word a of the target: clear mask constant b, set bits constant c
    INC,     // field a of the target := register b + constant register c, within bounds
    STI,     // field a of the target := integer b, within bounds
    STF,     // field a of the target := real b, within bounds
    STX,     // the field that table a names at position b := c
    STR,     // scratch register a := b, within bounds
    PUT,     // careful path: slot a := b, within bounds, written once per index
    PUTX,    // careful path: the slot that table a names at position b := c
    RET,     // stop, with register a as the result
};

enum class Fault : int32_t {
    NONE,
    OUT_OF_BOUNDS,
    OVERFLOWED,
    DIVISION,
    INDEX,
    WRITTEN_TWICE,
    PROBABILITY,
    NOT_FINITE,
    TOO_MANY,
};

struct Instruction {
    int32_t op, a, b, c;
};

struct Field {  // where a variable lives in a packed state
    uint32_t word, shift;
    uint64_t mask;   // of the value, not shifted; 0 for a variable with one value
    int64_t lower;   // integers: the value stored as 0
    uint64_t range;  // integers: upper - lower
    bool real;
    double real_lower, real_upper;
};

struct Load {  // how a variable comes from its field into its register
    uint64_t mask;
    int64_t lower;
    uint32_t word, shift, slot;
};
struct Piece {  // code that ends in RET, with the variables it reads; entry -1 for none
    int32_t entry;
    std::vector<Load> reads;
};

struct Branch {
    double probability;  // where it is a constant
    int32_t fast;
    uint32_t careful_begin, careful_end;
    int32_t constants = -1;  // where the fast path only writes constants: its SETW instructions
};
struct Edge {
    uint32_t branch_begin, branch_end;
    int32_t computed;  // its number among the edges with computed probabilities, -1 where all are constants
};
struct Joint {
    int32_t label;
    bool careful;
    uint32_t menu_begin, menu_end;
};
struct Careful {
    int32_t index, code;
};
struct Jumps {
    int64_t base;
    std::vector<int32_t> targets;
    int32_t otherwise;
};

struct Program {
    std::vector<Instruction> code;
    std::vector<int64_t> registers;  // initial contents: scratch defaults and constants
    std::vector<Field> fields;       // one per variable
    uint32_t words = 1, variables = 0, slots = 0;
    uint64_t most_branches = 0;  // of the operators of several edges that one state may have
    std::vector<uint64_t> masks;
    std::vector<Jumps> jumps;
    std::vector<std::vector<int32_t>> tables;
    std::vector<Edge> edges;
    std::vector<Branch> branches;
    Chances chances;
    std::vector<Careful> careful;
    std::vector<Joint> joints;
    std::vector<int32_t> menus;         // entry points: the edges of a further participant
    std::vector<uint32_t> menu_refs;    // per joint, the menus of its further participants
    std::vector<Load> reads;            // variables that guards, updates and probabilities read
    std::vector<Field> scratch_bounds;  // one per scratch variable
    int32_t lead = 0;                   // entry point: the edges of joints' first participants
    std::vector<Piece> conditions, state_rewards, step_rewards;
    bool disable_out_of_bounds = false, uniform = false;  // uniform: a Markov chain, enabled operators are equally likely
    bool writes_scratch = false;                          // some fast path assigns a transient variable
    bool is_simple() const {                              // every move is one edge of one automaton, taken on the fast path
        if (disable_out_of_bounds) return false;
        for (const Joint& joint : joints)
            if (joint.careful || joint.menu_begin != joint.menu_end) return false;
        return true;
    }
};

inline double as_real(int64_t bits) { return std::bit_cast<double>(bits); }
inline int64_t as_bits(double real) { return std::bit_cast<int64_t>(real); }
double apply_function(int32_t function, double x);            // the order of kernel/assemble.py's FUNCTIONS
bool power(int64_t base, int64_t exponent, int64_t& result);  // false where the result is no int64

struct MoveRecord {
    int32_t joint, label;
    uint32_t begin, end;
};

// Branches have probability > 0; what rounding leaves over falls to the last.
inline uint32_t draw_branch(const double* probability, uint32_t begin, uint32_t end, double rest) {
    while (begin + 1 < end && rest >= probability[begin]) rest -= probability[begin++];
    return begin;
}

// What a state leads to: moves in the order of the joints, each with its branches.
struct Expansion {
    std::vector<uint64_t> words;  // one packed state per branch
    std::vector<double> probability;
    std::vector<double> rewards;  // per branch and step reward, if asked for
    std::vector<MoveRecord> moves;
    std::vector<int32_t> edges;  // per move: the edges of its participants, if asked for
    std::vector<uint32_t> edge_begin;
    void clear() {
        words.clear();
        probability.clear();
        rewards.clear();
        moves.clear();
        edges.clear();
        edge_begin.clear();
    }
    size_t branches() const { return probability.size(); }
};

struct Ends {
    bool fail = false, goal = false;
};

class Machine {
public:
    explicit Machine(std::shared_ptr<const Program> program);

    void unpack(const uint64_t* state, int64_t* values) const;  // unpack everything, into `variables` values
    bool pack(const int64_t* values, uint64_t* state) const;    // false where a value is out of bounds
    bool expand(const uint64_t* state, Expansion& out);         // append all moves; false on a fault
    // Without building successors: the moves that are enabled in the state, `begin` being the edge (simple programs only).
    bool enabled(const uint64_t* state, std::vector<MoveRecord>& out);
    // One branch of an edge in `state`, drawn by `unit` in [0, 1), written to `target`; false on a fault.
    bool take(const uint64_t* state, uint32_t edge, double unit, uint64_t* target);
    int64_t value(const Piece& piece, const uint64_t* state);  // 0 on a fault
    bool holds(size_t condition, const uint64_t* state) { return value(program->conditions[condition], state) != 0; }
    // Whether runs end in the state; conditions below 0 are never true. Neither on a fault.
    Ends ends(int32_t fail, int32_t goal, const uint64_t* state) {
        fault = Fault::NONE;
        Ends ends;
        ends.fail = fail >= 0 && holds(size_t(fail), state);
        // SOUND: fail beats goal, and goal does not hide that fail cannot be computed.
        ends.goal = !ends.fail && fault == Fault::NONE && goal >= 0 && holds(size_t(goal), state);
        return ends;
    }

    std::shared_ptr<const Program> program;
    Fault fault = Fault::NONE;
    bool want_rewards = false, want_edges = false;

private:
    struct Lead {
        int32_t joint, edge;
    };

    bool fail(Fault kind) {
        fault = kind;
        return false;
    }
    void load(const std::vector<Load>& reads, const uint64_t* state);
    bool run(int32_t pc);
    bool update(const Branch& branch);  // write the branch's updates to the target, on the fast path
    static void sort_leads(std::vector<Lead>& leads);
    bool move(const uint64_t* state, int32_t joint, const int32_t* edges, size_t count, Expansion& out);
    bool fast_branches(const uint64_t* state, const Edge& edge, Expansion& out);
    bool are_sole(const int32_t* edges, size_t count) const;  // every participant has one branch, of constant probability
    bool sole_branch(const uint64_t* state, const int32_t* edges, size_t count, Expansion& out);
    bool joined_branches(const uint64_t* state, const int32_t* edges, size_t count, bool careful, Expansion& out);
    bool execute_carefully(const uint64_t* state, size_t count, uint64_t* target);
    // Where an edge computes its branches' probabilities: those of the loaded state, else null. False on a fault.
    bool find_chances(const Edge& edge, const double*& computed);
    uint64_t branches_of(int32_t edge) const { return program->edges[size_t(edge)].branch_end - program->edges[size_t(edge)].branch_begin; }
    uint64_t* begin_branch(const uint64_t* state, Expansion& out);  // room for one more branch, holding a copy of the state
    void forget_scratch();                                          // transient variables go back to their initial values
    void rewards_of(const uint64_t* source, size_t branch, Expansion& out);

    std::vector<int64_t> registers_;
    uint64_t* target_ = nullptr;     // the packed state being written
    std::vector<int64_t> next_;      // careful path: slots being written
    std::vector<uint32_t> written_;  // careful path: stamp of the last write
    uint32_t stamp_ = 0;
    int64_t result_ = 0;
    std::vector<Lead> emitted_, leads_;
    std::vector<std::vector<int32_t>> menu_edges_;
    std::vector<uint64_t> menu_epoch_, menu_branches_;
    uint64_t epoch_ = 0;
    // Buffers of joined moves, kept to spare allocations: each participant's possible branches, and where the odometers stand.
    struct Possible {
        uint32_t branch;
        double probability;
    };
    std::vector<std::vector<Possible>> possible_;
    std::vector<size_t> branch_at_, edge_at_;
    std::vector<int32_t> chosen_;
    std::vector<int64_t> before_;
    std::vector<double> chances_;  // of the branches of one edge
    std::vector<uint32_t> branches_;
    std::vector<Careful> steps_;
    std::vector<ChanceTable> chance_tables_;  // per edge with computed probabilities
};

}  // namespace polvet
