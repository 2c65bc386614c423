// How an operation becomes simpler when its operands are known better: constants are computed, neutral operands go, ranges decide comparisons.
// SOUND and the kinds of faults: see vm/residual.h. The slow twin is model/evaluate.py.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "vm/residual.h"

namespace polvet {

static Range reals(double lo, double hi) {
    if (std::isnan(lo) || std::isnan(hi)) return ALL_REALS;
    return {as_bits(lo + 0.0), as_bits(hi + 0.0)};
}
static Range hull(bool real, Range a, Range b) {
    if (real) return reals(std::min(as_real(a.lo), as_real(b.lo)), std::max(as_real(a.hi), as_real(b.hi)));
    return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
}

Residuals::Known Residuals::fold(const Shape& shape, std::vector<Known>& children, std::vector<int64_t>& factors) {
    switch (shape.op) {
    case Term::AND:
    case Term::OR: return logical(shape.op, children);
    case Term::ITE: {
        const Known &test = children[0], &yes = children[1], &no = children[2];
        if (test.id == true_) return yes;
        if (test.id == false_) return no;
        if (is_fault(test.id)) return test;
        if (yes.id == no.id && !terms_[test.id].risky) return yes;
        bool real = terms_[yes.id].real || terms_[no.id].real;
        return keep(shape, children, real, false, hull(real, yes.range, no.range));
    }
    case Term::SELECT: work_factors_ = factors; return select(shape, children);
    default: break;
    }
    for (const Known& child : children)
        if (is_fault(child.id)) return child;
    switch (shape.op) {
    case Term::SUM: return sum(shape.constant, children, factors);
    case Term::LE0:
    case Term::EQ0: return against_zero(shape.op, children[0]);
    case Term::NOT: {
        const TermData& t = terms_[children[0].id];
        if (t.op == Term::INT) return truth(t.constant == 0);
        if (t.op == Term::NOT) return known(pool_[t.begin]);
        return keep(shape, children, false, false, TRUTH);
    }
    case Term::MUL:
    case Term::MIN:
    case Term::MAX:
    case Term::MOD:
    case Term::POW:
    case Term::ABS:
    case Term::SGN: return integer_op(shape, children);
    default: return real_op(shape, children);
    }
}

Residuals::Known Residuals::logical(Term op, std::vector<Known>& children) {
    const int32_t decisive = op == Term::AND ? false_ : true_, neutral = op == Term::AND ? true_ : false_;
    std::vector<int32_t> flat;
    flat.reserve(children.size());
    for (const Known& child : children) {
        if (child.id == decisive) return child;
        if (child.id == neutral) continue;
        const TermData& t = terms_[child.id];
        if (t.op == op) flat.insert(flat.end(), pool_.begin() + t.begin, pool_.begin() + t.begin + t.count);
        else flat.push_back(child.id);
    }
    std::sort(flat.begin(), flat.end());
    flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
    if (flat.empty()) return known(neutral);
    if (flat.size() == 1) return known(flat[0]);
    bool risk = false;
    for (int32_t id : flat) risk = risk || terms_[id].risky;
    work_children_ = std::move(flat);
    work_factors_.assign(work_children_.size(), 0);
    return {intern({op, 0, 0}, false, risk, true, TRUTH), TRUTH};
}

Residuals::Known Residuals::sum(int64_t constant, std::vector<Known>& children, std::vector<int64_t>& factors) {
    struct Part {
        int32_t id;
        Int128 factor;
        Range range;
    };
    std::vector<Part> parts;
    Int128 total = constant;
    for (size_t k = 0; k < children.size(); ++k) {
        const TermData& t = terms_[children[k].id];
        if (t.op == Term::INT) {
            total += Int128(t.constant) * factors[k];
        } else if (t.op == Term::SUM) {
            total += Int128(t.constant) * factors[k];
            for (uint32_t j = 0; j < t.count; ++j) {
                int32_t id = pool_[t.begin + j];
                parts.push_back({id, Int128(factors_[t.begin + j]) * factors[k], current(id)});
            }
        } else {
            parts.push_back({children[k].id, factors[k], children[k].range});
        }
    }
    std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.id < b.id; });
    size_t kept = 0;
    for (size_t k = 0; k < parts.size();) {
        Part part = parts[k];
        for (++k; k < parts.size() && parts[k].id == part.id; ++k) part.factor += parts[k].factor;
        if (part.factor == 0) continue;
        if (part.factor < -FAR || part.factor > FAR) return known(fault(Fault::OVERFLOWED));
        parts[kept++] = part;
    }
    parts.resize(kept);
    if (parts.empty()) return constant_int(total);
    if (total < -FAR || total > FAR) return known(fault(Fault::OVERFLOWED));
    if (parts.size() == 1 && total == 0 && parts[0].factor == 1) return {parts[0].id, parts[0].range};
    Int128 lo = total, hi = total;
    bool open_lo = false, open_hi = false;
    std::vector<Known> rest;
    std::vector<int64_t> rest_factors;
    for (const Part& part : parts) {
        Range r = part.factor > 0 ? part.range : Range{part.range.hi, part.range.lo};
        open_lo = open_lo || r.lo <= -FAR || r.lo >= FAR;
        open_hi = open_hi || r.hi <= -FAR || r.hi >= FAR;
        lo += part.factor * r.lo;
        hi += part.factor * r.hi;
        rest.push_back({part.id, part.range});
        rest_factors.push_back(int64_t(part.factor));
    }
    work_factors_ = std::move(rest_factors);
    Range range{open_lo ? -FAR : clamp(lo), open_hi ? FAR : clamp(hi)};
    return keep({Term::SUM, 0, int64_t(total)}, rest, false, false, range);
}

Residuals::Known Residuals::against_zero(Term op, const Known& child) {
    const TermData t = terms_[child.id];
    Range r = child.range;
    if (t.op == Term::INT) return truth(op == Term::LE0 ? t.constant <= 0 : t.constant == 0);
    if (!t.risky) {
        if (op == Term::LE0 && r.hi <= 0) return truth(true);
        if (r.lo > 0 || (op == Term::EQ0 && r.hi < 0)) return truth(false);
        if (op == Term::EQ0 && r.lo == 0 && r.hi == 0) return truth(true);
    }
    int32_t id = child.id;
    if (t.op == Term::SUM) {
        int64_t common = 0;
        for (uint32_t k = 0; k < t.count; ++k) common = std::gcd(common, factors_[t.begin + k]);
        if (op == Term::EQ0 && t.constant % common != 0) {
            if (!t.risky) return truth(false);
            common = 1;
        }
        // c + g * rest <= 0 is rest <= floor(-c / g); for equality also the sign is free.
        int64_t sign = op == Term::EQ0 && factors_[t.begin] < 0 ? -1 : 1;
        if (common > 1 || sign < 0) {
            std::vector<Known> rest;
            std::vector<int64_t> rest_factors;
            for (uint32_t k = 0; k < t.count; ++k) {
                int32_t part = pool_[t.begin + k];
                rest.push_back({part, current(part)});
                rest_factors.push_back(sign * (factors_[t.begin + k] / common));
            }
            int64_t constant = op == Term::EQ0 ? sign * (t.constant / common) : int64_t(-floor_div(-Int128(t.constant), common));
            Known reduced = sum(constant, rest, rest_factors);
            id = reduced.id;
            r = reduced.range;
        }
    }
    std::vector<Known> children{{id, r}};
    return keep({op, 0, 0}, children, false, false, TRUTH);
}

Residuals::Known Residuals::integer_op(const Shape& shape, std::vector<Known>& c) {
    const bool unary = c.size() == 1;
    const Range a = c[0].range, b = unary ? a : c[1].range;
    const bool fixed = is_int(c[0].id) && (unary || is_int(c[1].id));
    const int64_t x = terms_[c[0].id].constant, y = unary ? 0 : terms_[c[1].id].constant;
    const bool finite = a.lo > -FAR && a.hi < FAR && b.lo > -FAR && b.hi < FAR;
    const bool risk = risky(c);
    bool own = false;
    Range range = ALL_INTEGERS;
    switch (shape.op) {
    case Term::MUL: {
        if (fixed) return constant_int(Int128(x) * y);
        for (int side = 0; side < 2; ++side) {
            if (!is_int(c[side].id)) continue;
            std::vector<Known> one{c[1 - side]};
            std::vector<int64_t> factor{terms_[c[side].id].constant};
            return sum(0, one, factor);
        }
        if (finite) {
            Int128 corners[4] = {Int128(a.lo) * b.lo, Int128(a.lo) * b.hi, Int128(a.hi) * b.lo, Int128(a.hi) * b.hi};
            range = {clamp(*std::min_element(corners, corners + 4)), clamp(*std::max_element(corners, corners + 4))};
        }
        if (c[0].id > c[1].id) std::swap(c[0], c[1]);
        break;
    }
    case Term::MIN:
    case Term::MAX: {
        bool low = shape.op == Term::MIN;
        if (fixed) return known(integer(low ? std::min(x, y) : std::max(x, y)));
        if (c[0].id == c[1].id) return c[0];
        if (!risk && finite && a.hi <= b.lo) return low ? c[0] : c[1];
        if (!risk && finite && b.hi <= a.lo) return low ? c[1] : c[0];
        range = low ? Range{std::min(a.lo, b.lo), std::min(a.hi, b.hi)} : Range{std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
        if (c[0].id > c[1].id) std::swap(c[0], c[1]);
        break;
    }
    case Term::MOD: {
        if (is_int(c[1].id)) {
            if (y == 0) return known(fault(Fault::DIVISION));
            if (y == INT64_MIN) return known(fault(Fault::OVERFLOWED));
            int64_t n = y < 0 ? -y : y;
            if (fixed) {
                int64_t m = n == 1 ? 0 : x % n;
                return known(integer(m < 0 ? m + n : m));
            }
            if (!risk && finite && a.lo >= 0 && a.hi < n) return c[0];
            range = {0, std::min(n - 1, FAR)};
        } else {
            own = b.lo <= 0 && b.hi >= 0;
            range = {0, b.lo <= -FAR || b.hi >= FAR ? FAR : std::max<int64_t>(std::max(-b.lo, b.hi) - 1, 0)};
        }
        break;
    }
    case Term::POW: {
        int64_t result;
        if (fixed) return power(x, y, result) ? known(integer(result)) : known(fault(Fault::OVERFLOWED));
        own = true;
        break;
    }
    case Term::ABS:
        if (fixed) return constant_int(x < 0 ? -Int128(x) : x);
        if (!risk && a.lo >= 0) return c[0];
        range = {a.lo >= 0 ? a.lo : a.hi <= 0 ? -a.hi : 0, std::max(-a.lo, a.hi)};
        break;
    default:  // SGN
        if (fixed) return known(integer((x > 0) - (x < 0)));
        range = {(a.lo > 0) - (a.lo < 0), (a.hi > 0) - (a.hi < 0)};
        if (!risk && range.lo == range.hi) return known(integer(range.lo));
    }
    return keep(shape, c, false, own, range);
}

Residuals::Known Residuals::real_op(const Shape& shape, std::vector<Known>& c) {
    const bool unary = c.size() == 1;
    const Known& first = c[0];
    const Known& second = c[unary ? 0 : 1];
    const bool risk = risky(c);
    bool own = false;
    if (shape.op == Term::I2F) {
        if (is_int(first.id)) return constant_real(double(terms_[first.id].constant));
        // Beyond FAR a range is open, and the double of an int64 is monotone.
        double lo = first.range.lo <= -FAR ? -INFINITY : double(first.range.lo),
               hi = first.range.hi >= FAR ? INFINITY : double(first.range.hi);
        return keep(shape, c, true, false, reals(lo, hi));
    }
    const bool fixed = is_real(first.id) && is_real(second.id);
    const double x = as_real(terms_[first.id].constant), y = as_real(terms_[second.id].constant);
    const double alo = as_real(first.range.lo), ahi = as_real(first.range.hi), blo = as_real(second.range.lo),
                 bhi = as_real(second.range.hi);
    switch (shape.op) {
    case Term::FLE:
    case Term::FLT: {
        bool strict = shape.op == Term::FLT;
        if (fixed) return truth(strict ? x < y : x <= y);
        if (!risk && (strict ? ahi < blo : ahi <= blo)) return truth(true);
        if (!risk && (strict ? alo >= bhi : alo > bhi)) return truth(false);
        return keep(shape, c, false, false, TRUTH);
    }
    case Term::FEQ:
        if (fixed) return truth(x == y);
        if (!risk && (ahi < blo || bhi < alo)) return truth(false);
        return keep(shape, c, false, false, TRUTH);
    case Term::FSGN:
        if (fixed) return known(integer((x > 0) - (x < 0)));
        return keep(shape, c, false, false, {(alo > 0) - (alo < 0), (ahi > 0) - (ahi < 0)});
    case Term::FLOOR:
    case Term::CEIL:
    case Term::TRC: {
        auto round = [&](double v) {
            return shape.op == Term::FLOOR ? std::floor(v) : shape.op == Term::CEIL ? std::ceil(v) : std::trunc(v);
        };
        if (fixed) {
            double v = round(x);
            return std::fabs(v) < 9.2e18 ? known(integer(int64_t(v))) : known(fault(Fault::OVERFLOWED));
        }
        double lo = round(alo), hi = round(ahi);
        bool small = std::fabs(lo) < 4e18 && std::fabs(hi) < 4e18;
        return keep(shape, c, false, !small, small ? Range{int64_t(lo), int64_t(hi)} : ALL_INTEGERS);
    }
    default: break;
    }
    Range range = ALL_REALS;
    const double inf = INFINITY;
    const bool finite = alo > -inf && ahi < inf && blo > -inf && bhi < inf;
    auto corners = [&](auto op) {
        double v[4] = {op(alo, blo), op(alo, bhi), op(ahi, blo), op(ahi, bhi)};
        return reals(*std::min_element(v, v + 4), *std::max_element(v, v + 4));
    };
    switch (shape.op) {
    case Term::FADD:
        if (fixed) return constant_real(x + y);
        if (finite) range = reals(alo + blo, ahi + bhi);
        break;
    case Term::FSUB:
        if (fixed) return constant_real(x - y);
        if (finite) range = reals(alo - bhi, ahi - blo);
        break;
    case Term::FMUL:
        if (fixed) return constant_real(x * y);
        if (finite) range = corners([](double p, double q) { return p * q; });
        break;
    case Term::FDIV:
        if (is_real(second.id) && y == 0) return known(fault(Fault::DIVISION));
        if (fixed) return constant_real(x / y);
        if (finite && (blo > 0 || bhi < 0)) range = corners([](double p, double q) { return p / q; });
        else own = true;
        break;
    case Term::FMIN:
        if (fixed) return x <= y ? first : second;
        range = reals(std::min(alo, blo), std::min(ahi, bhi));
        break;
    case Term::FMAX:
        if (fixed) return x >= y ? first : second;
        range = reals(std::max(alo, blo), std::max(ahi, bhi));
        break;
    case Term::FMOD:
        if (is_real(second.id) && y == 0) return known(fault(Fault::DIVISION));
        if (fixed) {
            double n = std::fabs(y), m = std::fmod(x, n);
            return constant_real(m < 0 ? m + n : m);
        }
        own = true;
        break;
    case Term::FPOW:
        if (fixed) return constant_real(std::pow(x, y));
        own = true;
        break;
    case Term::FLOG:
        if (fixed) return x > 0 && y > 0 && y != 1 ? constant_real(std::log(x) / std::log(y)) : known(fault(Fault::NOT_FINITE));
        own = true;
        break;
    case Term::FABS:
        if (fixed) return constant_real(std::fabs(x));
        range = reals(alo >= 0 ? alo : ahi <= 0 ? -ahi : 0.0, std::max(-alo, ahi));
        break;
    default:  // FUN
        if (fixed) return constant_real(apply_function(shape.aux, x));
        own = true;
    }
    if (!(std::isfinite(as_real(range.lo)) && std::isfinite(as_real(range.hi)))) own = true;
    return keep(shape, c, true, own, range);
}

// Children: `aux` indices, then the items in row-major order; the factors of the first `aux` children are the lengths.
Residuals::Known Residuals::select(const Shape& shape, std::vector<Known>& c) {
    const size_t dimensions = size_t(shape.aux);
    const std::vector<int64_t> lengths(work_factors_.begin(), work_factors_.begin() + dimensions);
    bool fixed = true, own = false, risk = false;
    size_t position = 0;
    for (size_t k = 0; k < dimensions; ++k) {
        if (is_fault(c[k].id)) return c[k];
        const TermData& t = terms_[c[k].id];
        risk = risk || t.risky;
        own = own || c[k].range.lo < 0 || c[k].range.hi >= lengths[k];
        if (t.op != Term::INT) {
            fixed = false;
            continue;
        }
        if (t.constant < 0 || t.constant >= lengths[k]) return known(fault(Fault::INDEX));
        position = position * size_t(lengths[k]) + size_t(t.constant);
    }
    if (fixed) return c[dimensions + position];
    bool real = false, same = true;
    for (size_t k = dimensions; k < c.size(); ++k) {
        real = real || terms_[c[k].id].real;
        risk = risk || terms_[c[k].id].risky;
        same = same && c[k].id == c[dimensions].id;
    }
    if (same && !risk && !own) return c[dimensions];
    // With one index, only the items it may point at matter.
    size_t begin = 0, end = c.size() - dimensions;
    if (dimensions == 1) {
        begin = size_t(std::clamp<int64_t>(c[0].range.lo, 0, lengths[0] - 1));
        end = size_t(std::clamp<int64_t>(c[0].range.hi, 0, lengths[0] - 1)) + 1;
    }
    Range range = c[dimensions + begin].range;
    for (size_t k = begin + 1; k < end; ++k) range = hull(real, range, c[dimensions + k].range);
    return keep(shape, c, real, own, range);
}

}  // namespace polvet
