// The exact evaluation of probabilities. The slow twin is model/semantics.py.
#include "vm/chance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "vm/program.h"

namespace polvet {

namespace {

constexpr size_t MOST_BITS = 1 << 17;  // a longer number is a fault: nothing computes that long by intent
constexpr int64_t MOST_POWER = 1024;   // greater exponents are left to doubles, as in model/arithmetic.py

struct Broken {
    Fault fault;
};

Number whole(Rational value) { return {Number::WHOLE, std::move(value), 0}; }
Number fraction(Rational value) { return {Number::FRACTION, std::move(value), 0}; }
Number truth(bool value) { return whole(Rational(int64_t(value))); }

Number finite(double value) {
    if (!std::isfinite(value)) throw Broken{Fault::NOT_FINITE};
    return {Number::DOUBLE, {}, value};
}

Number bounded(Number value) {
    if (value.exact.bits() > MOST_BITS) throw Broken{Fault::OVERFLOWED};
    return value;
}

double to_double(const Number& x) { return x.sort == Number::DOUBLE ? x.real : finite(x.exact.nearest()).real; }
Rational exactly(const Number& x) { return x.sort == Number::DOUBLE ? Rational::of_double(x.real) : x.exact; }
int sign_of(const Number& x) { return x.sort == Number::DOUBLE ? (x.real > 0) - (x.real < 0) : x.exact.sign(); }

int compare(const Number& x, const Number& y) {
    if (x.sort == Number::DOUBLE && y.sort == Number::DOUBLE) return (x.real > y.real) - (x.real < y.real);
    return Rational::compare(exactly(x), exactly(y));
}

Rational truncated(const Rational& x) { return x.sign() < 0 ? x.negated().floor().negated() : x.floor(); }

Rational raised(Rational base, uint64_t exponent) {
    Rational result(1);
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1) result = bounded(fraction(result * base)).exact;
        if (exponent > 1) base = bounded(fraction(base * base)).exact;
    }
    return result;
}

Number power(const Number& x, const Number& y) {
    int64_t exponent;
    if (x.sort == Number::WHOLE && y.sort == Number::WHOLE) {
        if (y.exact.sign() < 0) throw Broken{Fault::OVERFLOWED};
        const bool small = Rational::compare(x.exact * x.exact, Rational(1)) <= 0;  // -1, 0, 1
        if (!y.exact.to_integer(exponent) || (exponent > 63 && !small)) {
            if (!small) throw Broken{Fault::OVERFLOWED};
            const Rational half = y.exact / Rational(2);
            exponent = Rational::compare(half, half.floor()) == 0 ? 2 : 1;  // only odd or even counts
        }
        return whole(raised(x.exact, uint64_t(small && exponent > 2 ? 2 - exponent % 2 : exponent)));
    }
    if (x.sort == Number::FRACTION && y.sort != Number::DOUBLE && y.exact.to_integer(exponent) && std::abs(exponent) <= MOST_POWER) {
        if (exponent >= 0) return fraction(raised(x.exact, uint64_t(exponent)));
        if (x.exact.sign() == 0) throw Broken{Fault::DIVISION};
        return fraction(raised(x.exact.inverse(), uint64_t(-exponent)));
    }
    return finite(std::pow(to_double(x), to_double(y)));
}

class Evaluation {
public:
    Evaluation(const Chances& chances, const int64_t* registers) : chances_(chances), registers_(registers) {}

    Number value(int32_t number) const {
        const ChanceNode& node = chances_.nodes[size_t(number)];
        using enum ChanceOp;
        switch (node.op) {
        case NUMBER: return chances_.constants[size_t(node.a)].number;
        case SLOT: {
            const int64_t bits = registers_[node.a];
            return node.b ? fraction(Rational::of_double(as_real(bits))) : whole(Rational(bits));
        }
        case NOT: return truth(!holds(node.a));
        case AND: return truth(holds(node.a) && holds(node.b));
        case OR: return truth(holds(node.a) || holds(node.b));
        case IMPLIES: return truth(!holds(node.a) || holds(node.b));
        case ITE: return holds(node.a) ? value(node.b) : value(node.c);
        case SELECT: return value(selected(chances_.lists[size_t(node.a)], size_t(node.b)));
        case ABS:
        case SGN:
        case FLOOR:
        case CEIL:
        case TRC: return unary(node.op, value(node.a));
        case FUN: return finite(apply_function(node.b, to_double(value(node.a))));
        default: {
            const Number x = value(node.a);
            return binary(node.op, x, value(node.b));
        }
        }
    }

private:
    bool holds(int32_t node) const { return sign_of(value(node)) != 0; }

    int32_t selected(const std::vector<int32_t>& list, size_t indices) const {
        int64_t place = 0;
        for (size_t k = 0; k < indices; ++k) {
            const int64_t length = list[indices + k];
            int64_t index;
            if (!truncated(exactly(value(list[k]))).to_integer(index) || index < 0 || index >= length) throw Broken{Fault::INDEX};
            place = place * length + index;
        }
        return list[2 * indices + size_t(place)];
    }

    static Number unary(ChanceOp op, Number x) {
        using enum ChanceOp;
        if (op == ABS) return sign_of(x) >= 0 ? x : x.sort == Number::DOUBLE ? finite(-x.real) : Number{x.sort, x.exact.negated(), 0};
        if (op == SGN) return whole(Rational(int64_t(sign_of(x))));
        const Rational exact = exactly(x);
        return whole(op == FLOOR ? exact.floor() : op == CEIL ? exact.negated().floor().negated() : truncated(exact));
    }

    static Number binary(ChanceOp op, const Number& x, const Number& y) {
        using enum ChanceOp;
        const bool real = x.sort == Number::DOUBLE || y.sort == Number::DOUBLE;
        const Number::Sort sort = x.sort == Number::WHOLE && y.sort == Number::WHOLE ? Number::WHOLE : Number::FRACTION;
        switch (op) {
        case EQ: return truth(compare(x, y) == 0);
        case NE: return truth(compare(x, y) != 0);
        case LT: return truth(compare(x, y) < 0);
        case LE: return truth(compare(x, y) <= 0);
        case GT: return truth(compare(x, y) > 0);
        case GE: return truth(compare(x, y) >= 0);
        case POW: return power(x, y);
        case LOG: {
            const double of = to_double(x), base = to_double(y);
            if (!(of > 0 && base > 0 && base != 1)) throw Broken{Fault::NOT_FINITE};
            return finite(std::log(of) / std::log(base));
        }
        case DIV:
        case MOD:
            if (sign_of(y) == 0) throw Broken{Fault::DIVISION};
            break;
        default: break;
        }
        if (real) return of_doubles(op, to_double(x), to_double(y));
        const Rational &a = x.exact, &b = y.exact;
        switch (op) {
        case ADD: return bounded({sort, a + b, 0});
        case SUB: return bounded({sort, a - b, 0});
        case MUL: return bounded({sort, a * b, 0});
        case DIV: return bounded(fraction(a / b));
        case MIN: return {sort, Rational::compare(a, b) <= 0 ? a : b, 0};
        case MAX: return {sort, Rational::compare(a, b) >= 0 ? a : b, 0};
        default: {  // MOD: never negative
            const Rational by = b.sign() < 0 ? b.negated() : b;
            return bounded({sort, a - (a / by).floor() * by, 0});
        }
        }
    }

    static Number of_doubles(ChanceOp op, double x, double y) {
        using enum ChanceOp;
        switch (op) {
        case ADD: return finite(x + y);
        case SUB: return finite(x - y);
        case MUL: return finite(x * y);
        case DIV: return finite(x / y);
        case MIN: return finite(x <= y ? x : y);
        case MAX: return finite(x >= y ? x : y);
        default: {
            const double by = std::fabs(y), rest = std::fmod(x, by);
            return finite(rest < 0 ? rest + by : rest);
        }
        }
    }

    const Chances& chances_;
    const int64_t* registers_;
};

// A value that is at most `error` away from the exact one; whole numbers are exact.
struct Near {
    long double value, error;
    bool whole;
};

// A first try without long numbers. It answers only where it is sure, which is almost everywhere; else Unsure is thrown.
class Estimate {
public:
    struct Unsure {};

    Estimate(const Chances& chances, const int64_t* registers) : chances_(chances), registers_(registers) {}

    Near value(int32_t number) const {
        const ChanceNode& node = chances_.nodes[size_t(number)];
        using enum ChanceOp;
        switch (node.op) {
        case NUMBER: {
            const Constant& constant = chances_.constants[size_t(node.a)];
            if (!std::isfinite(constant.off)) throw Unsure{};
            const bool whole = constant.number.sort == Number::WHOLE && constant.off == 0 && std::fabs(constant.near) <= WHOLE;
            return {constant.near, constant.off, whole};
        }
        case SLOT: {
            const int64_t bits = registers_[node.a];
            if (node.b) return {as_real(bits), 0, false};
            return rounded(static_cast<long double>(bits), 0, true);
        }
        case ITE: return holds(node.a) ? value(node.b) : value(node.c);
        case ABS: {
            const Near x = value(node.a);
            return {std::fabs(x.value), x.error, x.whole};
        }
        case ADD:
        case SUB:
        case MUL:
        case DIV:
        case MIN:
        case MAX: {
            const Near x = value(node.a);
            return combined(node.op, x, value(node.b));
        }
        default: throw Unsure{};
        }
    }

private:
    static constexpr long double EPSILON = std::numeric_limits<long double>::epsilon(), WHOLE = 0x1p52;
    static constexpr long double LEAST = 0x1p-1000;  // what underflow may lose, and much more

    // SOUND: `error` comes from few operations, each at most half an epsilon off; a result of whole operands below 2^52 is exact.
    static Near rounded(long double value, long double error, bool whole) {
        if (whole && std::fabs(value) <= WHOLE) return {value, 0, true};
        const long double off = error * (1 + 16 * EPSILON) + std::fabs(value) * EPSILON + LEAST;
        if (!std::isfinite(value) || !std::isfinite(off)) throw Unsure{};
        return {value, off, false};
    }

    static Near combined(ChanceOp op, const Near& x, const Near& y) {
        using enum ChanceOp;
        const bool whole = x.whole && y.whole;
        switch (op) {
        case ADD: return rounded(x.value + y.value, x.error + y.error, whole);
        case SUB: return rounded(x.value - y.value, x.error + y.error, whole);
        case MUL: return rounded(x.value * y.value, std::fabs(x.value) * y.error + std::fabs(y.value) * x.error + x.error * y.error, whole);
        case DIV: {
            const long double size = std::fabs(y.value) - y.error;
            if (!(size > std::fabs(y.value) / 2)) throw Unsure{};
            const long double quotient = x.value / y.value;
            return rounded(quotient, (x.error + std::fabs(quotient) * y.error) / size, false);
        }
        case MIN: return {std::min(x.value, y.value), std::max(x.error, y.error), whole};
        default: return {std::max(x.value, y.value), std::max(x.error, y.error), whole};
        }
    }

    bool holds(int32_t number) const {
        const ChanceNode& node = chances_.nodes[size_t(number)];
        using enum ChanceOp;
        switch (node.op) {
        case SLOT: return registers_[node.a] != 0;
        case NOT: return !holds(node.a);
        case AND: return holds(node.a) && holds(node.b);
        case OR: return holds(node.a) || holds(node.b);
        case IMPLIES: return !holds(node.a) || holds(node.b);
        case EQ: return compared(node) == 0;
        case NE: return compared(node) != 0;
        case LT: return compared(node) < 0;
        case LE: return compared(node) <= 0;
        case GT: return compared(node) > 0;
        case GE: return compared(node) >= 0;
        default: throw Unsure{};
        }
    }

    int compared(const ChanceNode& node) const {
        const Near x = value(node.a), y = value(node.b);
        const long double slack = 2 * (x.error + y.error) + (std::fabs(x.value) + std::fabs(y.value)) * 4 * EPSILON;
        if (std::fabs(x.value - y.value) > slack) return x.value < y.value ? -1 : 1;
        if (x.error != 0 || y.error != 0) throw Unsure{};
        return (x.value > y.value) - (x.value < y.value);
    }

    const Chances& chances_;
    const int64_t* registers_;
};

// The probabilities where each is surely 0 or known to a small part of a double's last unit and they surely sum to 1, to such a
// part; false elsewhere. Where a long double is no longer than a double, that is never.
bool estimated_chances(const Chances& chances, const ComputedEdge& edge, const int64_t* registers, double* result) {
    constexpr long double PART = 0x1p-57L;
    const Estimate estimate(chances, registers);
    long double total = 0, off = 0;
    try {
        for (size_t k = 0; k < edge.chances.size(); ++k) {
            const Near share = estimate.value(edge.chances[k]);
            const bool sure = share.error == 0 ? share.value >= 0 : share.value * PART > share.error && share.value > 0x1p-900L;
            if (!sure) return false;
            result[k] = double(share.value);
            total += share.value;
            off += share.error;
        }
    } catch (const Estimate::Unsure&) { return false; }
    return std::fabs(total - 1) + off <= PART / 2;
}

}  // namespace

Constant constant_of(bool is_whole, Rational value) {
    const double first = value.nearest();
    Constant result{
        {is_whole ? Number::WHOLE : Number::FRACTION, std::move(value), 0}, first, std::numeric_limits<long double>::infinity()};
    if (!std::isfinite(first)) return result;
    const Rational rest = result.number.exact - Rational::of_double(first);
    result.near += static_cast<long double>(rest.nearest());
    // SOUND: two doubles hold 106 bits; more than that is lost where they are added, and where the second underflows.
    const long double epsilon = std::numeric_limits<long double>::epsilon();
    result.off = rest.sign() == 0 ? 0 : std::fabs(result.near) * (epsilon + 0x1p-100L) + 0x1p-1070L;
    return result;
}

Fault exact_chances(const Chances& chances, const ComputedEdge& edge, const int64_t* registers, double* result) {
    if (estimated_chances(chances, edge, registers, result)) return Fault::NONE;
    const Evaluation evaluation(chances, registers);
    std::vector<Rational> shares;
    Rational total;
    try {
        for (int32_t node : edge.chances) {
            shares.push_back(exactly(evaluation.value(node)));
            if (shares.back().sign() < 0) return Fault::PROBABILITY;
            total = bounded(fraction(total + shares.back())).exact;
        }
    } catch (const Broken& broken) { return broken.fault; }
    const Rational off = total - Rational(1), tolerance(false, Natural(1), Natural(1'000'000));
    if (Rational::compare(off.sign() < 0 ? off.negated() : off, tolerance) > 0) return Fault::PROBABILITY;
    for (size_t k = 0; k < shares.size(); ++k) {
        const Rational& share = shares[k];
        result[k] = off.sign() == 0 ? share.nearest() : (share / total).nearest();
        if (share.sign() > 0) result[k] = std::max(result[k], std::numeric_limits<double>::denorm_min());
    }
    return Fault::NONE;
}

const double* ChanceTable::find(const Chances& chances, const ComputedEdge& edge, const int64_t* registers, Fault& fault) {
    const size_t reads = edge.reads.size(), branches = edge.chances.size();
    uint64_t hash = 0;
    for (int32_t slot : edge.reads) {
        hash = (hash ^ uint64_t(registers[slot])) * 0x9E3779B97F4A7C15;
        hash ^= hash >> 32;
    }
    auto reserve = [&](size_t size) {
        keys_.assign(size * reads, 0);
        values_.assign(size * branches, 0);
        filled_.assign(size, 0);
    };
    if (filled_.empty()) reserve(LEAST);
    size_t place = hash & (filled_.size() - 1);
    if (filled_[place]) {
        bool same = true;
        for (size_t k = 0; k < reads && same; ++k) same = keys_[place * reads + k] == registers[edge.reads[k]];
        if (same) return values_.data() + place * branches;
        if (filled_.size() < MOST) reserve(4 * filled_.size());
        place = hash & (filled_.size() - 1);
    }
    filled_[place] = 0;
    fault = exact_chances(chances, edge, registers, values_.data() + place * branches);
    if (fault != Fault::NONE) return nullptr;
    for (size_t k = 0; k < reads; ++k) keys_[place * reads + k] = registers[edge.reads[k]];
    filled_[place] = 1;
    return values_.data() + place * branches;
}

}  // namespace polvet
