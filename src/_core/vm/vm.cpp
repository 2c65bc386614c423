// The machine: runs register code, expands states. The slow twin is model/semantics.py.
#include "vm/program.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "store/portable.h"

namespace polvet {

Machine::Machine(std::shared_ptr<const Program> program_)
    : program(std::move(program_)),
      registers_(program->registers),
      next_(program->slots),
      written_(program->slots),
      menu_edges_(program->menus.size()),
      menu_epoch_(program->menus.size()),
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
    switch (function) {  // the order of kernel/lower.py's FUNCTIONS
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

#define FAIL(kind)           \
    do {                     \
        fault = Fault::kind; \
        return false;        \
    } while (0)

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
#define FINITE(expression)                       \
    do {                                         \
        double x = expression;                   \
        if (!std::isfinite(x)) FAIL(NOT_FINITE); \
        r[i->a] = as_bits(x);                    \
        NEXT;                                    \
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
    if (add_overflows(r[i->b], r[i->c], &r[i->a])) FAIL(OVERFLOWED);
    NEXT;
L_SUB:
    if (subtract_overflows(r[i->b], r[i->c], &r[i->a])) FAIL(OVERFLOWED);
    NEXT;
L_MUL:
    if (multiply_overflows(r[i->b], r[i->c], &r[i->a])) FAIL(OVERFLOWED);
    NEXT;
L_MIN:
    r[i->a] = r[i->b] <= r[i->c] ? r[i->b] : r[i->c];
    NEXT;
L_MAX:
    r[i->a] = r[i->b] >= r[i->c] ? r[i->b] : r[i->c];
    NEXT;
L_MOD: {
    int64_t n = r[i->c];
    if (n == 0) FAIL(DIVISION);
    if (n == INT64_MIN) FAIL(OVERFLOWED);
    if (n < 0) n = -n;
    int64_t m = n == 1 ? 0 : r[i->b] % n;
    r[i->a] = m < 0 ? m + n : m;
    NEXT;
}
L_POW: {
    int64_t x;
    if (!power(r[i->b], r[i->c], x)) FAIL(OVERFLOWED);
    r[i->a] = x;
    NEXT;
}
L_ABS:
    if (r[i->b] == INT64_MIN) FAIL(OVERFLOWED);
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
    if (as_real(r[i->c]) == 0) FAIL(DIVISION);
    FINITE(as_real(r[i->b]) / as_real(r[i->c]));
L_FMIN:
    r[i->a] = as_real(r[i->b]) <= as_real(r[i->c]) ? r[i->b] : r[i->c];
    NEXT;
L_FMAX:
    r[i->a] = as_real(r[i->b]) >= as_real(r[i->c]) ? r[i->b] : r[i->c];
    NEXT;
L_FMOD: {
    double n = std::fabs(as_real(r[i->c]));
    if (n == 0) FAIL(DIVISION);
    double m = std::fmod(as_real(r[i->b]), n);
    r[i->a] = as_bits(m < 0 ? m + n : m == 0 ? 0.0 : m);
    NEXT;
}
L_FPOW:
    FINITE(std::pow(as_real(r[i->b]), as_real(r[i->c])));
L_FLOG: {
    double x = as_real(r[i->b]), y = as_real(r[i->c]);
    if (!(x > 0 && y > 0 && y != 1)) FAIL(NOT_FINITE);
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
    if (!(std::fabs(x) < 9.2e18)) FAIL(OVERFLOWED);
    r[i->a] = int64_t(x);
    NEXT;
}
L_CEIL: {
    double x = std::ceil(as_real(r[i->b]));
    if (!(std::fabs(x) < 9.2e18)) FAIL(OVERFLOWED);
    r[i->a] = int64_t(x);
    NEXT;
}
L_TRC: {
    double x = std::trunc(as_real(r[i->b]));
    if (!(std::fabs(x) < 9.2e18)) FAIL(OVERFLOWED);
    r[i->a] = int64_t(x);
    NEXT;
}
L_FUN:
    FINITE(apply_function(i->c, as_real(r[i->b])));
L_I2F:
    r[i->a] = as_bits(double(r[i->b]));
    NEXT;
L_RANGE:
    if (uint64_t(r[i->a]) >= uint64_t(uint32_t(i->b))) FAIL(INDEX);
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
    if (raw > f.range) FAIL(OUT_OF_BOUNDS);
    out[f.word] = (out[f.word] & ~(f.mask << f.shift)) | raw << f.shift;
    NEXT;
}
L_STI: {
    const Field& f = p.fields[i->a];
    uint64_t raw = uint64_t(r[i->b]) - uint64_t(f.lower);
    if (raw > f.range) FAIL(OUT_OF_BOUNDS);
    out[f.word] = (out[f.word] & ~(f.mask << f.shift)) | raw << f.shift;
    NEXT;
}
L_STF: {
    const Field& f = p.fields[i->a];
    double x = as_real(r[i->b]) + 0.0;
    if (!std::isfinite(x)) FAIL(NOT_FINITE);
    if (!(x >= f.real_lower && x <= f.real_upper)) FAIL(OUT_OF_BOUNDS);
    out[f.word] = uint64_t(as_bits(x));
    NEXT;
}
L_STX: {
    const Field& f = p.fields[p.tables[i->a][r[i->b]]];
    if (!within(f, r[i->c])) FAIL(OUT_OF_BOUNDS);
    write(f, r[i->c], out);
    NEXT;
}
L_STR: {
    if (!within(p.scratch_bounds[i->a - p.variables], r[i->b])) FAIL(OUT_OF_BOUNDS);
    r[i->a] = r[i->b];
    NEXT;
}
L_PUT: {
    uint32_t slot = i->a;
    if (written_[slot] == stamp_) FAIL(WRITTEN_TWICE);
    written_[slot] = stamp_;
    const Field& f = slot < p.variables ? p.fields[slot] : p.scratch_bounds[slot - p.variables];
    if (!within(f, r[i->b])) FAIL(OUT_OF_BOUNDS);
    next_[slot] = f.real ? as_bits(as_real(r[i->b]) + 0.0) : r[i->b];
    NEXT;
}
L_PUTX: {
    uint32_t slot = p.tables[i->a][r[i->b]];
    if (written_[slot] == stamp_) FAIL(WRITTEN_TWICE);
    written_[slot] = stamp_;
    const Field& f = slot < p.variables ? p.fields[slot] : p.scratch_bounds[slot - p.variables];
    if (!within(f, r[i->c])) FAIL(OUT_OF_BOUNDS);
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

bool Machine::update(const Branch& branch) {
    if (branch.constants < 0) return run(branch.fast);
    const Instruction* write = program->code.data() + branch.fast;
    for (const Instruction* end = write + branch.constants; write != end; ++write)
        target_[write->a] = (target_[write->a] & ~program->masks[size_t(write->b)]) | program->masks[size_t(write->c)];
    return true;
}

bool Machine::find_chances(const Edge& edge, const double*& computed) {
    computed = nullptr;
    if (edge.computed < 0) return true;
    const auto number = size_t(edge.computed);
    computed = chance_tables_[number].find(program->chances, program->chances.edges[number], registers_.data(), fault);
    return computed != nullptr;
}

void Machine::rewards_of(const uint64_t* source, size_t branch, Expansion& out) {
    const Program& p = *program;
    const uint64_t* target = out.words.data() + branch * p.words;
    for (size_t k = 0; k < p.step_rewards.size(); ++k) {
        const Piece& reward = p.step_rewards[k];
        if (reward.entry < 0) {
            out.rewards.push_back(0);
            continue;
        }
        load(reward.reads, target);
        out.rewards.push_back(run(reward.entry) ? as_real(result_) : 0);
        load(reward.reads, source);
    }
    forget_scratch();
}

void Machine::forget_scratch() {
    for (uint32_t s = program->variables; s < program->slots; ++s) registers_[s] = program->registers[s];
}

uint64_t* Machine::begin_branch(const uint64_t* state, Expansion& out) {
    const uint32_t words = program->words;
    if (words == 1) {
        out.words.push_back(*state);
        return &out.words.back();
    }
    const size_t at = out.words.size();
    out.words.insert(out.words.end(), state, state + words);
    return out.words.data() + at;
}

bool Machine::fast_branches(const uint64_t* state, const Edge& edge, Expansion& out) {
    const Program& p = *program;
    const double* computed;
    if (!find_chances(edge, computed)) return false;
    for (uint32_t b = edge.branch_begin; b < edge.branch_end; ++b) {
        const Branch& branch = p.branches[b];
        const double probability = computed ? computed[b - edge.branch_begin] : branch.probability;
        if (probability == 0) continue;
        target_ = begin_branch(state, out);
        if (!update(branch)) return false;
        out.probability.push_back(probability);
        if (want_rewards) rewards_of(state, out.probability.size() - 1, out);
        else if (p.writes_scratch) forget_scratch();
        if (fault != Fault::NONE) return false;
    }
    return true;
}

// Assignments by ascending index: those of one index read what the ones before it left, and write beside it.
bool Machine::execute_carefully(const uint64_t* state, size_t count, uint64_t* target) {
    const Program& p = *program;
    int64_t* r = registers_.data();
    before_.resize(p.variables);
    unpack(state, before_.data());
    for (uint32_t s = 0; s < p.variables; ++s) next_[s] = r[s] = before_[s];
    for (uint32_t s = p.variables; s < p.slots; ++s) next_[s] = r[s];
    steps_.clear();
    for (size_t k = 0; k < count; ++k) {
        const Branch& branch = p.branches[possible_[k][branch_at_[k]].branch];
        steps_.insert(steps_.end(), p.careful.begin() + branch.careful_begin, p.careful.begin() + branch.careful_end);
    }
    std::stable_sort(steps_.begin(), steps_.end(), [](const Careful& x, const Careful& y) { return x.index < y.index; });
    bool good = true;
    for (size_t begin = 0; begin < steps_.size() && good;) {
        size_t end = begin;
        ++stamp_;
        for (; end < steps_.size() && steps_[end].index == steps_[begin].index && good; ++end) good = run(steps_[end].code);
        for (uint32_t s = 0; s < p.slots; ++s) r[s] = next_[s];
        begin = end;
    }
    if (good && !pack(next_.data(), target)) {
        fault = Fault::OUT_OF_BOUNDS;
        good = false;
    }
    if (!want_rewards || !good) forget_scratch();
    for (uint32_t s = 0; s < p.variables; ++s) r[s] = before_[s];
    return good;
}

bool Machine::joined_branches(const uint64_t* state, const int32_t* edges, size_t count, bool careful, Expansion& out) {
    const Program& p = *program;
    // The branches of every participant with their probabilities, then an odometer over all combinations.
    if (possible_.size() < count) possible_.resize(count);
    branch_at_.assign(count, 0);
    for (size_t k = 0; k < count; ++k) {
        const Edge& edge = p.edges[edges[k]];
        auto& mine = possible_[k];
        mine.clear();
        const double* computed;
        if (!find_chances(edge, computed)) return false;
        for (uint32_t b = edge.branch_begin; b < edge.branch_end; ++b) {
            const double probability = computed ? computed[b - edge.branch_begin] : p.branches[b].probability;
            if (probability > 0) mine.push_back({b, probability});
        }
        if (mine.empty()) FAIL(PROBABILITY);
    }
    for (;;) {
        double probability = 1;
        for (size_t k = 0; k < count; ++k) probability *= possible_[k][branch_at_[k]].probability;
        // SOUND: what is possible stays possible where the product is too small for a double.
        probability = std::max(probability, std::numeric_limits<double>::denorm_min());
        target_ = begin_branch(state, out);
        if (careful) {
            if (!execute_carefully(state, count, target_)) return false;
        } else {
            for (size_t k = 0; k < count; ++k)
                if (!update(p.branches[possible_[k][branch_at_[k]].branch])) return false;
            if (!want_rewards && p.writes_scratch) forget_scratch();
        }
        out.probability.push_back(probability);
        if (want_rewards) rewards_of(state, out.probability.size() - 1, out);
        if (fault != Fault::NONE) return false;
        size_t k = count;
        while (k > 0 && ++branch_at_[k - 1] == possible_[k - 1].size()) branch_at_[--k] = 0;
        if (k == 0) return true;
    }
}

bool Machine::are_sole(const int32_t* edges, size_t count) const {
    return std::all_of(edges, edges + count, [this](int32_t number) {
        const Edge& edge = program->edges[size_t(number)];
        return edge.computed < 0 && edge.branch_end - edge.branch_begin == 1 && program->branches[edge.branch_begin].probability > 0;
    });
}

bool Machine::sole_branch(const uint64_t* state, const int32_t* edges, size_t count, Expansion& out) {
    const Program& p = *program;
    target_ = begin_branch(state, out);
    double probability = 1;
    for (size_t k = 0; k < count; ++k) {
        const Branch& branch = p.branches[p.edges[size_t(edges[k])].branch_begin];
        probability *= branch.probability;
        if (!update(branch)) return false;
    }
    out.probability.push_back(std::max(probability, std::numeric_limits<double>::denorm_min()));  // SOUND: as above
    if (want_rewards) rewards_of(state, out.probability.size() - 1, out);
    else if (p.writes_scratch) forget_scratch();
    return fault == Fault::NONE;
}

bool Machine::move(const uint64_t* state, int32_t joint, const int32_t* edges, size_t count, Expansion& out) {
    const Joint& j = program->joints[joint];
    const size_t begin = out.probability.size();
    const bool good = j.careful                ? joined_branches(state, edges, count, true, out)
                      : count == 1             ? fast_branches(state, program->edges[edges[0]], out)
                      : are_sole(edges, count) ? sole_branch(state, edges, count, out)
                                               : joined_branches(state, edges, count, false, out);
    if (!good) {
        if (fault != Fault::OUT_OF_BOUNDS || !program->disable_out_of_bounds) return false;
        fault = Fault::NONE;
        out.words.resize(begin * program->words);
        out.probability.resize(begin);
        if (want_rewards) out.rewards.resize(begin * program->step_rewards.size());
        forget_scratch();
        return true;
    }
    out.moves.push_back({joint, j.label, uint32_t(begin), uint32_t(out.probability.size())});
    if (want_edges) {
        out.edge_begin.push_back(uint32_t(out.edges.size()));
        out.edges.insert(out.edges.end(), edges, edges + count);
    }
    return true;
}

// Code names edges grouped by the variables it jumps on; moves come in the order of joints and edges. Few are named at once.
void Machine::sort_leads(std::vector<Lead>& leads) {
    for (size_t i = 1; i < leads.size(); ++i) {
        const Lead lead = leads[i];
        size_t k = i;
        for (; k > 0 && (leads[k - 1].joint > lead.joint || (leads[k - 1].joint == lead.joint && leads[k - 1].edge > lead.edge)); --k)
            leads[k] = leads[k - 1];
        leads[k] = lead;
    }
}

bool Machine::enabled(const uint64_t* state, std::vector<MoveRecord>& out) {
    fault = Fault::NONE;
    load(program->reads, state);
    emitted_.clear();
    if (!run(program->lead)) return false;
    leads_.swap(emitted_);
    sort_leads(leads_);
    for (const Lead& lead : leads_) out.push_back({lead.joint, program->joints[lead.joint].label, uint32_t(lead.edge), 0});
    return true;
}

bool Machine::take(const uint64_t* state, uint32_t number, double unit, uint64_t* target) {
    const Program& p = *program;
    const Edge& edge = p.edges[number];
    fault = Fault::NONE;
    load(p.reads, state);
    chances_.clear();
    branches_.clear();
    const double* computed;
    if (!find_chances(edge, computed)) return false;
    for (uint32_t b = edge.branch_begin; b < edge.branch_end; ++b) {
        const double probability = computed ? computed[b - edge.branch_begin] : p.branches[b].probability;
        if (probability > 0) {
            chances_.push_back(probability);
            branches_.push_back(b);
        }
    }
    if (chances_.empty()) FAIL(PROBABILITY);
    std::copy_n(state, p.words, target);
    target_ = target;
    const bool good = update(p.branches[branches_[draw_branch(chances_.data(), 0, uint32_t(chances_.size()), unit)]]);
    if (p.writes_scratch) forget_scratch();
    return good;
}

bool Machine::expand(const uint64_t* state, Expansion& out) {
    const Program& p = *program;
    fault = Fault::NONE;
    load(p.reads, state);
    ++epoch_;
    emitted_.clear();
    if (!run(p.lead)) return false;
    leads_.swap(emitted_);
    sort_leads(leads_);
    for (const Lead& lead : leads_) {
        const Joint& j = p.joints[lead.joint];
        const size_t others = j.menu_end - j.menu_begin;
        if (others == 0) {
            if (!move(state, lead.joint, &lead.edge, 1, out)) return false;
            continue;
        }
        const uint32_t* menus = p.menu_refs.data() + j.menu_begin;
        bool possible = true;
        for (size_t k = 0; k < others && possible; ++k) {
            const uint32_t m = menus[k];
            if (menu_epoch_[m] != epoch_) {
                menu_epoch_[m] = epoch_;
                emitted_.clear();
                if (!run(p.menus[m])) return false;
                sort_leads(emitted_);
                menu_edges_[m].clear();
                for (const Lead& e : emitted_) menu_edges_[m].push_back(e.edge);
            }
            possible = !menu_edges_[m].empty();
        }
        if (!possible) continue;
        chosen_.resize(others + 1);
        chosen_[0] = lead.edge;
        edge_at_.assign(others, 0);
        for (;;) {
            for (size_t k = 0; k < others; ++k) chosen_[k + 1] = menu_edges_[menus[k]][edge_at_[k]];
            if (!move(state, lead.joint, chosen_.data(), others + 1, out)) return false;
            size_t k = others;
            while (k > 0 && ++edge_at_[k - 1] == menu_edges_[menus[k - 1]].size()) edge_at_[--k] = 0;
            if (k == 0) break;
        }
    }
    return true;
}

}  // namespace polvet
