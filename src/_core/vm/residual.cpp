// Terms that exist once, and what is left of them; vm/residual.h says what for, vm/folding.cpp how operations become simpler.
#include "vm/residual.h"

#include <algorithm>
#include <cmath>

namespace polvet {

static uint64_t mix(uint64_t h, uint64_t v) {
    h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
    h *= 0xff51afd7ed558ccdull;
    return h ^ h >> 32;
}

Residuals::Residuals() : index_(1024) {
    false_ = integer(0);
    true_ = integer(1);
}

size_t Residuals::bytes() const {
    return terms_.capacity() * sizeof(TermData) + pool_.capacity() * 4 + factors_.capacity() * 8 + index_.capacity() * 4 +
           hashes_.capacity() * 8 + stamp_.capacity() * 4 + memo_.capacity() * sizeof(Known);
}

int32_t Residuals::integer(int64_t value) {
    work_children_.clear();
    work_factors_.clear();
    return intern({Term::INT, 0, value}, false, false, true, {clamp(value), clamp(value)});
}
int32_t Residuals::number(double value) {
    if (!std::isfinite(value)) return fault(Fault::NOT_FINITE);
    work_children_.clear();
    work_factors_.clear();
    int64_t bits = as_bits(value + 0.0);
    return intern({Term::REAL, 0, bits}, true, false, true, {bits, bits});
}
int32_t Residuals::fault(Fault kind) {
    work_children_.clear();
    work_factors_.clear();
    return intern({Term::FAULT, int32_t(kind), 0}, false, true, true, ALL_INTEGERS);
}
int32_t Residuals::variable(int64_t lower, int64_t upper) {
    work_children_.clear();
    work_factors_.clear();
    domains_.push_back({lower, upper});
    return intern({Term::VAR, int32_t(domains_.size()) - 1, 0}, false, false, true, {clamp(lower), clamp(upper)});
}
Residuals::Known Residuals::constant_int(Int128 value) {
    if (value < INT64_MIN || value > INT64_MAX) return known(fault(Fault::OVERFLOWED));
    return known(integer(int64_t(value)));
}
Residuals::Known Residuals::constant_real(double value) { return known(number(value)); }

// The term with work_children_ and work_factors_ as its children.
int32_t Residuals::intern(const Shape& shape, bool real, bool risky, bool settled, Range range) {
    uint64_t h = mix(mix(uint64_t(shape.op), uint64_t(uint32_t(shape.aux))), uint64_t(shape.constant));
    for (int32_t child : work_children_) h = mix(h, uint64_t(child));
    for (int64_t factor : work_factors_) h = mix(h, uint64_t(factor));
    size_t mask = index_.size() - 1, slot = h & mask;
    for (; index_[slot] != 0; slot = (slot + 1) & mask) {
        int32_t id = int32_t(index_[slot]) - 1;
        const TermData& t = terms_[id];
        if (hashes_[id] != h || t.op != shape.op || t.aux != shape.aux || t.constant != shape.constant || t.count != work_children_.size())
            continue;
        if (std::equal(work_children_.begin(), work_children_.end(), pool_.begin() + t.begin) &&
            std::equal(work_factors_.begin(), work_factors_.end(), factors_.begin() + t.begin))
            return id;
    }
    int32_t id = int32_t(terms_.size());
    TermData data{shape.op,       real, risky, settled, NO_LEVEL, shape.aux, uint32_t(pool_.size()), uint32_t(work_children_.size()),
                  shape.constant, range};
    if (shape.op == Term::VAR) data.level = shape.aux;
    for (int32_t child : work_children_) data.level = std::min(data.level, terms_[child].level);
    pool_.insert(pool_.end(), work_children_.begin(), work_children_.end());
    factors_.insert(factors_.end(), work_factors_.begin(), work_factors_.end());
    factors_.resize(pool_.size());
    terms_.push_back(data);
    hashes_.push_back(h);
    index_[slot] = uint32_t(id) + 1;
    if (terms_.size() * 2 > index_.size()) {
        index_.assign(index_.size() * 2, 0);
        mask = index_.size() - 1;
        for (size_t k = 0; k < terms_.size(); ++k) {
            size_t s = hashes_[k] & mask;
            while (index_[s] != 0) s = (s + 1) & mask;
            index_[s] = uint32_t(k) + 1;
        }
    }
    return id;
}

int32_t Residuals::term(Term op, int32_t aux, int64_t constant, const std::vector<int32_t>& children, const std::vector<int64_t>& factors) {
    std::vector<Known> given;
    for (int32_t child : children) given.push_back(known(child));
    std::vector<int64_t> copies = factors;
    copies.resize(children.size());
    level_ = -1;
    return fold({op, aux, constant}, given, copies).id;
}

int32_t Residuals::narrow(int32_t id, int32_t level, int64_t lo, int64_t hi) {
    level_ = level;
    lo_ = lo;
    hi_ = hi;
    if (stamp_.size() < terms_.size()) {
        stamp_.resize(terms_.capacity());
        memo_.resize(terms_.capacity());
    }
    ++now_;
    int32_t result = step(id).id;
    level_ = -1;
    return result;
}

Residuals::Known Residuals::step(int32_t id) {
    const TermData t = terms_[id];
    if (t.level != level_) return {id, t.range};
    if (t.op == Term::VAR) return lo_ == hi_ ? known(integer(lo_)) : Known{id, {clamp(lo_), clamp(hi_)}};
    if (stamp_[id] == now_) return memo_[id];
    std::vector<Known> children(t.count);
    std::vector<int64_t> factors(factors_.begin() + t.begin, factors_.begin() + t.begin + t.count);
    for (uint32_t k = 0; k < t.count; ++k) {
        children[k] = step(pool_[t.begin + k]);
        // Nothing decides an alternative or a conjunction faster than its first decisive member.
        if ((t.op == Term::AND && children[k].id == false_) || (t.op == Term::OR && children[k].id == true_)) {
            stamp_[id] = now_;
            return memo_[id] = children[k];
        }
    }
    Known result = fold({t.op, t.aux, t.constant}, children, factors);
    stamp_[id] = now_;
    return memo_[id] = result;
}

bool Residuals::risky(const std::vector<Known>& children) const {
    for (const Known& child : children)
        if (terms_[child.id].risky) return true;
    return false;
}

Range Residuals::current(int32_t id) const {
    const TermData& t = terms_[id];
    return t.op == Term::VAR && t.level == level_ ? Range{clamp(lo_), clamp(hi_)} : t.range;
}

static bool is_truth(Term op) {
    switch (op) {
    case Term::LE0:
    case Term::EQ0:
    case Term::AND:
    case Term::OR:
    case Term::NOT:
    case Term::FLE:
    case Term::FLT:
    case Term::FEQ: return true;
    default: return false;
    }
}

static bool has_own_risk(Term op) {
    switch (op) {
    case Term::SUM:
    case Term::MUL:
    case Term::MIN:
    case Term::MAX:
    case Term::ABS:
    case Term::SGN:
    case Term::ITE:
    case Term::I2F:
    case Term::FMIN:
    case Term::FMAX:
    case Term::FABS:
    case Term::FSGN: return false;
    default: return !is_truth(op);
    }
}

// The term itself, after nothing could be simplified. The range returned is that over the narrowed domains; what is
// stored with the term, which outlives this narrowing, is true over the full domains or says nothing.
Residuals::Known Residuals::keep(const Shape& shape, const std::vector<Known>& children, bool real, bool own_risk, Range range) {
    bool full = true, risk = risky(children);
    work_children_.clear();
    for (const Known& child : children) {
        const TermData& t = terms_[child.id];
        work_children_.push_back(child.id);
        full = full && t.settled && t.range.lo == child.range.lo && t.range.hi == child.range.hi;
    }
    if (shape.op != Term::SUM && shape.op != Term::SELECT) work_factors_.assign(children.size(), 0);
    bool settled = full || is_truth(shape.op);
    Range nothing = real ? ALL_REALS : ALL_INTEGERS;
    bool stored_risk = risk || (settled ? own_risk : own_risk || has_own_risk(shape.op));
    int32_t id = intern(shape, real, stored_risk, settled, settled ? range : nothing);
    TermData& t = terms_[id];
    if (settled && !t.settled) {
        t.risky = stored_risk;
        t.range = range;
        t.settled = true;
    }
    return {id, range};
}

}  // namespace polvet
