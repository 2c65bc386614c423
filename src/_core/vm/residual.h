// Conditions as hash-consed terms, and what is left of them when a variable is narrowed.
//
// Variables have levels 0, 1, ...; the term's level is the least one it reads, so a term whose lower levels were all
// replaced by constants has exactly one id: two partial assignments leave the same question iff they leave the same id.
// Sums are kept flat and sorted, comparisons are against zero and divided by the common factor, so that sums with equal
// remainders meet. Every term has a range over the full domains; a comparison whose range decides it is a constant.
//
// SOUND: ranges of reals are computed with the machine's own rounding. Rounding to nearest is monotone, so the range of
// + - * / between the corners' results contains every executed result. Functions without that property get no range.
// Faults (division by zero, an index outside its array, overflow) are terms of their own: `false` and-ed with a fault
// is false, `true` or-ed with one is true, anything else that needs it is the fault. Terms that may fault are never
// decided by their range.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "store/portable.h"
#include "vm/program.h"

namespace polvet {

enum class Term : uint8_t {  // the order of kernel/residuals.py's TERMS
    INT,
    REAL,
    FAULT,
    VAR,
    SUM,
    LE0,
    EQ0,
    AND,
    OR,
    NOT,
    ITE,
    MUL,
    MIN,
    MAX,
    MOD,
    POW,
    ABS,
    SGN,
    I2F,
    FADD,
    FSUB,
    FMUL,
    FDIV,
    FMIN,
    FMAX,
    FMOD,
    FPOW,
    FLOG,
    FABS,
    FSGN,
    FLOOR,
    CEIL,
    TRC,
    FUN,
    FLE,
    FLT,
    FEQ,
    SELECT,
};

struct Range {
    int64_t lo, hi;
};  // reals: the bits of two doubles

constexpr int64_t FAR = int64_t(1) << 62;  // beyond this a range is open
constexpr int32_t NO_LEVEL = INT32_MAX;
constexpr Range TRUTH{0, 1}, ALL_INTEGERS{-FAR, FAR};
inline const Range ALL_REALS{as_bits(-std::numeric_limits<double>::infinity()), as_bits(std::numeric_limits<double>::infinity())};
inline int64_t clamp(Int128 x) { return x < -FAR ? -FAR : x > FAR ? FAR : int64_t(x); }

struct TermData {
    Term op;
    bool real, risky, settled;  // risky: evaluating it may fault; settled: from ranges over full domains
    int32_t level, aux;
    uint32_t begin, count;  // children in the pool
    int64_t constant;
    Range range;
};

class Residuals {
public:
    Residuals();

    int32_t integer(int64_t value);
    int32_t number(double value);
    int32_t fault(Fault kind);
    int32_t variable(int64_t lower, int64_t upper);  // the next level
    int32_t term(Term op, int32_t aux, int64_t constant, const std::vector<int32_t>& children, const std::vector<int64_t>& factors);

    // What is left of a term when the variable of this level lies between lo and hi; its own value if they are equal.
    int32_t narrow(int32_t id, int32_t level, int64_t lo, int64_t hi);

    const TermData& operator[](int32_t id) const { return terms_[id]; }
    bool is_true(int32_t id) const { return id == true_; }
    bool is_false(int32_t id) const { return id == false_; }
    size_t size() const { return terms_.size(); }
    size_t bytes() const;
    const std::vector<Range>& domains() const { return domains_; }
    Fault fault_of(int32_t id) const { return Fault(terms_[id].aux); }
    bool is_fault(int32_t id) const { return terms_[id].op == Term::FAULT; }

private:
    struct Known {
        int32_t id;
        Range range;
    };
    struct Shape {
        Term op;
        int32_t aux;
        int64_t constant;
    };

    Known known(int32_t id) const { return {id, terms_[id].range}; }
    Known constant_int(Int128 value);
    Known constant_real(double value);
    Known truth(bool value) { return known(value ? true_ : false_); }
    bool is_int(int32_t id) const { return terms_[id].op == Term::INT; }
    bool is_real(int32_t id) const { return terms_[id].op == Term::REAL; }
    int32_t intern(const Shape& shape, bool real, bool risky, bool settled, Range range);
    Known step(int32_t id);
    Known fold(const Shape& shape, std::vector<Known>& children, std::vector<int64_t>& factors);
    Known sum(int64_t constant, std::vector<Known>& children, std::vector<int64_t>& factors);
    Known against_zero(Term op, const Known& child);
    Known logical(Term op, std::vector<Known>& children);
    Known integer_op(const Shape& shape, std::vector<Known>& children);
    Known real_op(const Shape& shape, std::vector<Known>& children);
    Known select(const Shape& shape, std::vector<Known>& children);
    Known keep(const Shape& shape, const std::vector<Known>& children, bool real, bool own_risk, Range range);
    Range current(int32_t id) const;
    bool risky(const std::vector<Known>& children) const;

    std::vector<TermData> terms_;
    std::vector<int32_t> pool_;
    std::vector<int64_t> factors_;  // beside the pool; used by sums and for the lengths of selections
    std::vector<uint32_t> index_;   // open addressing: id + 1, 0 for free
    std::vector<uint64_t> hashes_;
    std::vector<Range> domains_;
    std::vector<int32_t> work_children_;  // of the term being interned
    std::vector<int64_t> work_factors_;
    std::vector<uint32_t> stamp_;  // per term: the narrowing that visited it last
    std::vector<Known> memo_;
    uint32_t now_ = 0;
    int32_t level_ = -1;  // of the narrowing under way
    int64_t lo_ = 0, hi_ = 0;
    int32_t true_ = 0, false_ = 0;
};

}  // namespace polvet
