// What register code means: fields come into registers, instructions run, values go back into fields. What a state leads to
// stands in vm/expand.cpp. The slow twin is model/evaluate.py.
#include <cmath>
#include <numbers>

#include "store/portable.h"
#include "vm/program.h"

namespace polvet {

Machine::Machine(std::shared_ptr<const Program> program_)
    : program(std::move(program_)),
      registers_(program->registers),
      next_(program->slots),
      written_(program->slots),
      menu_edges_(program->menus.size()),
      menu_epoch_(program->menus.size()),
      menu_branches_(program->menus.size()),
      chance_tables_(program->chances.edges.size()) {}

void Machine::load(const std::vector<Load>& reads, const uint64_t* state) {
    int64_t* r = registers_.data();
    for (const Load& l : reads) r[l.slot] = int64_t(uint64_t(l.lower) + (state[l.word] >> l.shift & l.mask));
}

void Machine::unpack(const uint64_t* state, int64_t* values) const {
    for (size_t i = 0; i < program->fields.size(); ++i) {
        const Field& f = program->fields[i];
        uint64_t raw = state[f.word] >> f.shift & f.mask;
        values[i] = f.real ? int64_t(raw) : int64_t(uint64_t(f.lower) + raw);
    }
}

static inline bool within(const Field& f, int64_t value) {
    if (f.real) {
        double real = as_real(value);
        return real >= f.real_lower && real <= f.real_upper && std::isfinite(real);
    }
    return uint64_t(value) - uint64_t(f.lower) <= f.range;
}

static inline void write(const Field& f, int64_t value, uint64_t* words) {
    if (f.real) value = as_bits(as_real(value) + 0.0);
    uint64_t raw = f.real ? uint64_t(value) : uint64_t(value) - uint64_t(f.lower);
    words[f.word] = (words[f.word] & ~(f.mask << f.shift)) | raw << f.shift;
}

bool Machine::pack(const int64_t* values, uint64_t* state) const {
    for (uint32_t w = 0; w < program->words; ++w) state[w] = 0;
    for (size_t i = 0; i < program->fields.size(); ++i) {
        if (!within(program->fields[i], values[i])) return false;
        write(program->fields[i], values[i], state);
    }
    return true;
}

double apply_function(int32_t function, double x) {
    switch (function) {  // the order of kernel/assemble.py's FUNCTIONS
    case 0: return std::sin(x);
    case 1: return std::cos(x);
    case 2: return std::tan(x);
    case 3: return std::asin(x);
    case 4: return std::acos(x);
    case 5: return std::atan(x);
    case 6: return std::sinh(x);
    case 7: return std::cosh(x);
    case 8: return std::tanh(x);
    case 9: return std::asinh(x);
    case 10: return std::acosh(x);
    case 11: return std::atanh(x);
    case 12: return 1.0 / std::tan(x);
    case 13: return 1.0 / std::cos(x);
    case 14: return 1.0 / std::sin(x);
    case 15: return std::numbers::pi / 2 - std::atan(x);
    case 16: return std::acos(1.0 / x);
    case 17: return std::asin(1.0 / x);
    case 18: return 1.0 / std::tanh(x);
    case 19: return 1.0 / std::cosh(x);
    case 20: return 1.0 / std::sinh(x);
    case 21: return std::atanh(1.0 / x);
    case 22: return std::acosh(1.0 / x);
    case 23: return std::asinh(1.0 / x);
    default: return std::exp(x);
    }
}

bool power(int64_t base, int64_t exponent, int64_t& result) {
    if (exponent < 0) return false;
    result = 1;
    if (base == 0 || base == 1 || base == -1) {
        result = exponent == 0 ? 1 : base == 0 ? 0 : (base == 1 || exponent % 2 == 0) ? 1 : -1;
        return true;
    }
    for (; exponent > 0; --exponent)
        if (multiply_overflows(result, base, &result)) return false;
    return true;
}

// Runs until HALT, RET or a fault. The dispatch is a computed goto: one indirect jump per instruction.
POLVET_NOINLINE bool Machine::run(int32_t pc) {
    static const void* const table[] = {
        &&L_HALT, &&L_EMIT, &&L_JMP,   &&L_SWITCH, &&L_JEQ,  &&L_JNE,  &&L_JLT,  &&L_JLE,   &&L_FJEQ,   &&L_FJNE, &&L_FJLT,
        &&L_FJLE, &&L_JNZ,  &&L_JZ,    &&L_MOV,    &&L_ADD,  &&L_SUB,  &&L_MUL,  &&L_MIN,   &&L_MAX,    &&L_MOD,  &&L_POW,
        &&L_ABS,  &&L_SGN,  &&L_FADD,  &&L_FSUB,   &&L_FMUL, &&L_FDIV, &&L_FMIN, &&L_FMAX,  &&L_FMOD,   &&L_FPOW, &&L_FLOG,
        &&L_FABS, &&L_FSGN, &&L_FLOOR, &&L_CEIL,   &&L_TRC,  &&L_FUN,  &&L_I2F,  &&L_RANGE, &&L_GATHER, &&L_SETW, &&L_INC,
        &&L_STI,  &&L_STF,  &&L_STX,   &&L_STR,    &&L_PUT,  &&L_PUTX, &&L_RET,
    };
    const Program& p = *program;
    const Instruction* code = p.code.data();
    const Instruction* i = code + pc;
    int64_t* r = registers_.data();
    uint64_t* const out = target_;
#define GO goto* table[i->op]
#define NEXT \
    do {     \
        ++i; \
        GO;  \
    } while (0)
#define JUMP_IF(condition)   \
    do {                     \
        if (condition) {     \
            i = code + i->c; \
            GO;              \
        }                    \
        NEXT;                \
    } while (0)
#define FINITE(expression)                                     \
    do {                                                       \
        double x = expression;                                 \
        if (!std::isfinite(x)) return fail(Fault::NOT_FINITE); \
        r[i->a] = as_bits(x);                                  \
        NEXT;                                                  \
    } while (0)
    GO;
L_HALT:
    return true;
L_EMIT:
    emitted_.push_back({i->a, i->b});
    NEXT;
L_JMP:
    i = code + i->c;
    GO;
L_SWITCH: {
    const Jumps& j = p.jumps[i->b];
    uint64_t k = uint64_t(r[i->a]) - uint64_t(j.base);
    i = code + (k < j.targets.size() ? j.targets[k] : j.otherwise);
    GO;
}
L_JEQ:
    JUMP_IF(r[i->a] == r[i->b]);
L_JNE:
    JUMP_IF(r[i->a] != r[i->b]);
L_JLT:
    JUMP_IF(r[i->a] < r[i->b]);
L_JLE:
    JUMP_IF(r[i->a] <= r[i->b]);
L_FJEQ:
    JUMP_IF(as_real(r[i->a]) == as_real(r[i->b]));
L_FJNE:
    JUMP_IF(as_real(r[i->a]) != as_real(r[i->b]));
L_FJLT:
    JUMP_IF(as_real(r[i->a]) < as_real(r[i->b]));
L_FJLE:
    JUMP_IF(as_real(r[i->a]) <= as_real(r[i->b]));
L_JNZ:
    JUMP_IF(r[i->a] != 0);
L_JZ:
    JUMP_IF(r[i->a] == 0);
L_MOV:
    r[i->a] = r[i->b];
    NEXT;
L_ADD:
    if (add_overflows(r[i->b], r[i->c], &r[i->a])) return fail(Fault::OVERFLOWED);
    NEXT;
L_SUB:
    if (subtract_overflows(r[i->b], r[i->c], &r[i->a])) return fail(Fault::OVERFLOWED);
    NEXT;
L_MUL:
    if (multiply_overflows(r[i->b], r[i->c], &r[i->a])) return fail(Fault::OVERFLOWED);
    NEXT;
L_MIN:
    r[i->a] = r[i->b] <= r[i->c] ? r[i->b] : r[i->c];
    NEXT;
L_MAX:
    r[i->a] = r[i->b] >= r[i->c] ? r[i->b] : r[i->c];
    NEXT;
L_MOD: {
    int64_t n = r[i->c];
    if (n == 0) return fail(Fault::DIVISION);
    if (n == INT64_MIN) return fail(Fault::OVERFLOWED);
    if (n < 0) n = -n;
    int64_t m = n == 1 ? 0 : r[i->b] % n;
    r[i->a] = m < 0 ? m + n : m;
    NEXT;
}
L_POW: {
    int64_t x;
    if (!power(r[i->b], r[i->c], x)) return fail(Fault::OVERFLOWED);
    r[i->a] = x;
    NEXT;
}
L_ABS:
    if (r[i->b] == INT64_MIN) return fail(Fault::OVERFLOWED);
    r[i->a] = r[i->b] < 0 ? -r[i->b] : r[i->b];
    NEXT;
L_SGN:
    r[i->a] = (r[i->b] > 0) - (r[i->b] < 0);
    NEXT;
L_FADD:
    FINITE(as_real(r[i->b]) + as_real(r[i->c]));
L_FSUB:
    FINITE(as_real(r[i->b]) - as_real(r[i->c]));
L_FMUL:
    FINITE(as_real(r[i->b]) * as_real(r[i->c]));
L_FDIV:
    if (as_real(r[i->c]) == 0) return fail(Fault::DIVISION);
    FINITE(as_real(r[i->b]) / as_real(r[i->c]));
L_FMIN:
    r[i->a] = as_real(r[i->b]) <= as_real(r[i->c]) ? r[i->b] : r[i->c];
    NEXT;
L_FMAX:
    r[i->a] = as_real(r[i->b]) >= as_real(r[i->c]) ? r[i->b] : r[i->c];
    NEXT;
L_FMOD: {
    double n = std::fabs(as_real(r[i->c]));
    if (n == 0) return fail(Fault::DIVISION);
    double m = std::fmod(as_real(r[i->b]), n);
    r[i->a] = as_bits(m < 0 ? m + n : m == 0 ? 0.0 : m);
    NEXT;
}
L_FPOW:
    FINITE(std::pow(as_real(r[i->b]), as_real(r[i->c])));
L_FLOG: {
    double x = as_real(r[i->b]), y = as_real(r[i->c]);
    if (!(x > 0 && y > 0 && y != 1)) return fail(Fault::NOT_FINITE);
    r[i->a] = as_bits(std::log(x) / std::log(y));
    NEXT;
}
L_FABS:
    r[i->a] = as_bits(std::fabs(as_real(r[i->b])));
    NEXT;
L_FSGN: {
    double x = as_real(r[i->b]);
    r[i->a] = (x > 0) - (x < 0);
    NEXT;
}
L_FLOOR: {
    double x = std::floor(as_real(r[i->b]));
    if (!(std::fabs(x) < 9.2e18)) return fail(Fault::OVERFLOWED);
    r[i->a] = int64_t(x);
    NEXT;
}
L_CEIL: {
    double x = std::ceil(as_real(r[i->b]));
    if (!(std::fabs(x) < 9.2e18)) return fail(Fault::OVERFLOWED);
    r[i->a] = int64_t(x);
    NEXT;
}
L_TRC: {
    double x = std::trunc(as_real(r[i->b]));
    if (!(std::fabs(x) < 9.2e18)) return fail(Fault::OVERFLOWED);
    r[i->a] = int64_t(x);
    NEXT;
}
L_FUN:
    FINITE(apply_function(i->c, as_real(r[i->b])));
L_I2F:
    r[i->a] = as_bits(double(r[i->b]));
    NEXT;
L_RANGE:
    if (uint64_t(r[i->a]) >= uint64_t(uint32_t(i->b))) return fail(Fault::INDEX);
    NEXT;
L_GATHER:
    r[i->a] = r[p.tables[i->c][r[i->b]]];
    NEXT;
L_SETW:
    out[i->a] = (out[i->a] & ~p.masks[i->b]) | p.masks[i->c];
    NEXT;
L_INC: {
    const Field& f = p.fields[i->a];
    uint64_t raw = uint64_t(r[i->b]) + uint64_t(r[i->c]) - uint64_t(f.lower);
    if (raw > f.range) return fail(Fault::OUT_OF_BOUNDS);
    out[f.word] = (out[f.word] & ~(f.mask << f.shift)) | raw << f.shift;
    NEXT;
}
L_STI: {
    const Field& f = p.fields[i->a];
    uint64_t raw = uint64_t(r[i->b]) - uint64_t(f.lower);
    if (raw > f.range) return fail(Fault::OUT_OF_BOUNDS);
    out[f.word] = (out[f.word] & ~(f.mask << f.shift)) | raw << f.shift;
    NEXT;
}
L_STF: {
    const Field& f = p.fields[i->a];
    double x = as_real(r[i->b]) + 0.0;
    if (!std::isfinite(x)) return fail(Fault::NOT_FINITE);
    if (!(x >= f.real_lower && x <= f.real_upper)) return fail(Fault::OUT_OF_BOUNDS);
    out[f.word] = uint64_t(as_bits(x));
    NEXT;
}
L_STX: {
    const Field& f = p.fields[p.tables[i->a][r[i->b]]];
    if (!within(f, r[i->c])) return fail(Fault::OUT_OF_BOUNDS);
    write(f, r[i->c], out);
    NEXT;
}
L_STR: {
    if (!within(p.scratch_bounds[i->a - p.variables], r[i->b])) return fail(Fault::OUT_OF_BOUNDS);
    r[i->a] = r[i->b];
    NEXT;
}
L_PUT: {
    uint32_t slot = i->a;
    if (written_[slot] == stamp_) return fail(Fault::WRITTEN_TWICE);
    written_[slot] = stamp_;
    const Field& f = slot < p.variables ? p.fields[slot] : p.scratch_bounds[slot - p.variables];
    if (!within(f, r[i->b])) return fail(Fault::OUT_OF_BOUNDS);
    next_[slot] = f.real ? as_bits(as_real(r[i->b]) + 0.0) : r[i->b];
    NEXT;
}
L_PUTX: {
    uint32_t slot = p.tables[i->a][r[i->b]];
    if (written_[slot] == stamp_) return fail(Fault::WRITTEN_TWICE);
    written_[slot] = stamp_;
    const Field& f = slot < p.variables ? p.fields[slot] : p.scratch_bounds[slot - p.variables];
    if (!within(f, r[i->c])) return fail(Fault::OUT_OF_BOUNDS);
    next_[slot] = f.real ? as_bits(as_real(r[i->c]) + 0.0) : r[i->c];
    NEXT;
}
L_RET:
    result_ = r[i->a];
    return true;
}

int64_t Machine::value(const Piece& piece, const uint64_t* state) {
    fault = Fault::NONE;
    load(piece.reads, state);
    return run(piece.entry) ? result_ : 0;
}

}  // namespace polvet
