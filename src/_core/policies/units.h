// The units of a network, in one table: the value, the range of the derivative over an interval, where the unit has kinks, and how
// far a library's float32 value may be from the true one (the *enclosure*, docs/policies.md). Everything else about a unit, its
// rounding bound and its linear bounds over a box, follows from these.
//
//   clip        min(max(x, a), b): ReLU is a = 0, b = infinity          exact
//   leaky       x > 0 ? x : a x                                         one rounding
//   abs         |x|                                                     exact
//   equal       1 where x, cut off to an integer, is a or b; else 0     exact
//   tanh, sigmoid, erf, softsign                                        2^-20
//   softplus, silu, gelu, gelu_tanh, mish, hard_swish                   2^-20 max(1, |x|)
//   elu         x > 0 ? b x : a b (e^x - 1): SELU has its own b         2^-20 max(1, |x|) max(1, |b|, |a b|)
//   exp                                                                 2^-20 max(1, |value|)
//   square, sqrt, reciprocal                                            2^-20 |value|
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace polvet {

enum class UnitKind : uint8_t {
    clip,
    leaky,
    abs,
    equal,
    tanh,
    sigmoid,
    erf,
    softsign,
    softplus,
    silu,
    gelu,
    gelu_tanh,
    mish,
    hard_swish,
    elu,
    exp,
    square,
    sqrt,
    reciprocal,
};
constexpr std::array<const char*, 19> UNIT_NAMES = {"clip",     "leaky",    "abs",    "equal", "tanh",      "sigmoid", "erf",
                                                    "softsign", "softplus", "silu",   "gelu",  "gelu_tanh", "mish",    "hard_swish",
                                                    "elu",      "exp",      "square", "sqrt",  "reciprocal"};

namespace units {

constexpr double INFINITE = std::numeric_limits<double>::infinity();
constexpr double ENCLOSURE = 0x1p-20;
constexpr double ROOT_HALF = 0.70710678118654752440, DENSITY = 0.39894228040143267794;  // 1/sqrt(2), 1/sqrt(2 pi)
constexpr double GELU_SCALE = 0.79788456080286535588, GELU_CUBE = 0.044715;             // sqrt(2/pi)

// e^x to a few units in the last place, by additions and multiplications alone: the same bits everywhere, and loops over it are vectors.
// x = k log 2 + r with a whole k, |r| <= log 2 / 2; e^r by its series; 2^k by the exponent's bits. Beyond +-700 it stays what it is there.
inline double exponential(double x) {
    constexpr double whole = 0x1.8p52;  // adding it leaves a whole number in the low bits
    x = x < -700 ? -700 : x;
    x = x > 700 ? 700 : x;
    const double shifted = x * 1.44269504088896340736 + whole, k = shifted - whole;
    const double r = (x - k * 0x1.62e42fefa0000p-1) - k * 0x1.cf79abc9e3b3ap-40;
    double sum = 1.0 / 479001600;
    sum = sum * r + 1.0 / 39916800;
    sum = sum * r + 1.0 / 3628800;
    sum = sum * r + 1.0 / 362880;
    sum = sum * r + 1.0 / 40320;
    sum = sum * r + 1.0 / 5040;
    sum = sum * r + 1.0 / 720;
    sum = sum * r + 1.0 / 120;
    sum = sum * r + 1.0 / 24;
    sum = sum * r + 1.0 / 6;
    sum = sum * r + 0.5;
    sum = sum * r + 1;
    sum = sum * r + 1;
    uint64_t bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 52) + 0x3ff0000000000000;
    double power;
    std::memcpy(&power, &bits, sizeof power);
    return sum * power;
}

inline double logistic(double x) { return 1 / (1 + exponential(-x)); }

// Near zero a series, so that small values keep their digits.
inline double hyperbolic_tangent(double x) {
    const double size = std::fabs(x), s = x * x;
    double series = -929569.0 / 638512875;
    series = series * s + 21844.0 / 6081075;
    series = series * s - 1382.0 / 155925;
    series = series * s + 62.0 / 2835;
    series = series * s - 17.0 / 315;
    series = series * s + 2.0 / 15;
    series = series * s - 1.0 / 3;
    const double near = x + x * s * series, far = std::copysign(1 - 2 / (exponential(2 * size) + 1), x);
    return size < 0.15 ? near : far;
}

// tanh(log(1 + e^x)) = n / (n + 2) with n = e^x (e^x + 2).
inline double tangent_of_softplus(double x) {
    const double e = exponential(x > 300 ? 300 : x), n = e * (e + 2);
    return n / (n + 2);
}
inline double soft(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

inline double value(UnitKind kind, double x, double a, double b) {
    switch (kind) {
    case UnitKind::clip: return std::min(std::max(x, a), b);
    case UnitKind::leaky: return x > 0 ? x : a * x;
    case UnitKind::abs: return std::fabs(x);
    case UnitKind::equal: {
        const double whole = std::trunc(x);
        return whole == a || whole == b ? 1 : 0;
    }
    case UnitKind::tanh: return hyperbolic_tangent(x);
    case UnitKind::sigmoid: return logistic(x);
    case UnitKind::erf: return std::erf(x);
    case UnitKind::softsign: return x / (1 + std::fabs(x));
    case UnitKind::softplus: return soft(x);
    case UnitKind::silu: return x * logistic(x);
    case UnitKind::gelu: return 0.5 * x * std::erfc(-x * ROOT_HALF);
    case UnitKind::gelu_tanh: return x * logistic(2 * GELU_SCALE * (x + GELU_CUBE * x * x * x));
    case UnitKind::mish: return x * tangent_of_softplus(x);
    case UnitKind::hard_swish: return x * std::min(std::max(x + 3, 0.0), 6.0) / 6;
    case UnitKind::elu: return x > 0 ? b * x : a * b * (exponential(x > 0 ? 0 : x) - 1);
    case UnitKind::exp: return std::exp(x);
    case UnitKind::square: return x * x;
    case UnitKind::sqrt: return std::sqrt(x);
    case UnitKind::reciprocal: return 1 / x;
    }
    return 0;
}

// The derivative; at a kink the one from the left or from the right.
inline double slope(UnitKind kind, double x, double a, double b, bool left) {
    switch (kind) {
    case UnitKind::clip: return a < b && (left ? x > a && x <= b : x >= a && x < b) ? 1 : 0;
    case UnitKind::leaky: return (left ? x > 0 : x >= 0) ? 1 : a;
    case UnitKind::abs: return (left ? x > 0 : x >= 0) ? 1 : -1;
    case UnitKind::equal: return 0;
    case UnitKind::tanh: {
        const double t = hyperbolic_tangent(x);
        return (1 - t) * (1 + t);
    }
    case UnitKind::sigmoid: return logistic(x) * logistic(-x);
    case UnitKind::erf: return 2 * GELU_SCALE * ROOT_HALF * exponential(-x * x);
    case UnitKind::softsign: return 1 / ((1 + std::fabs(x)) * (1 + std::fabs(x)));
    case UnitKind::softplus: return logistic(x);
    case UnitKind::silu: return logistic(x) * (1 + x * logistic(-x));
    case UnitKind::gelu: return 0.5 * std::erfc(-x * ROOT_HALF) + x * DENSITY * exponential(-x * x / 2);
    case UnitKind::gelu_tanh: {
        const double inner = 2 * GELU_SCALE * (x + GELU_CUBE * x * x * x);
        const double s = logistic(inner), rest = logistic(-inner);
        return s + x * s * rest * 2 * GELU_SCALE * (1 + 3 * GELU_CUBE * x * x);
    }
    case UnitKind::mish: {
        const double t = tangent_of_softplus(x);
        return t + x * logistic(x) * (1 - t) * (1 + t);
    }
    case UnitKind::hard_swish:
        if (left ? x <= -3 : x < -3) return 0;
        if (left ? x > 3 : x >= 3) return 1;
        return x / 3 + 0.5;
    case UnitKind::elu: return (left ? x > 0 : x >= 0) ? b : a * b * exponential(x);
    case UnitKind::exp: return std::exp(x);
    case UnitKind::square: return 2 * x;
    case UnitKind::sqrt: return x > 0 ? 0.5 / std::sqrt(x) : INFINITE;
    case UnitKind::reciprocal: return x == 0 ? -INFINITE : -1 / (x * x);
    }
    return 0;
}

// Where the derivative turns from growing to falling or back, or jumps; at most two places.
struct Places {
    double at[2];
    int count;
};
inline Places turns(UnitKind kind, double a, double b) {
    switch (kind) {
    case UnitKind::clip: return {{a, b}, 2};
    case UnitKind::leaky:
    case UnitKind::abs:
    case UnitKind::elu:
    case UnitKind::tanh:
    case UnitKind::sigmoid:
    case UnitKind::erf:
    case UnitKind::softsign: return {{0, 0}, 1};
    case UnitKind::silu: return {{-2.3993572805154677, 2.3993572805154677}, 2};
    case UnitKind::gelu: return {{-1.4142135623730951, 1.4142135623730951}, 2};
    case UnitKind::gelu_tanh: return {{-1.4185040087908283, 1.4185040087908283}, 2};
    case UnitKind::mish: return {{-2.256376396360793, 1.4905711794854286}, 2};
    case UnitKind::hard_swish: return {{-3, 3}, 2};
    default: return {{0, 0}, 0};
    }
}

inline bool is_straight(UnitKind kind) { return kind == UnitKind::clip || kind == UnitKind::leaky || kind == UnitKind::abs; }
inline bool is_bounded(UnitKind kind) {
    return kind == UnitKind::tanh || kind == UnitKind::sigmoid || kind == UnitKind::erf || kind == UnitKind::softsign ||
           kind == UnitKind::equal;
}

struct Range {
    double least, most;
};

// The least and greatest derivative over [low, high]. SOUND: between two turns the derivative is monotone, so its ends and the
// turns decide; a turn just outside is counted, too, and the result is moved outwards by more than the C library can be off.
inline Range slopes(UnitKind kind, double low, double high, double a, double b) {
    if (kind == UnitKind::equal) {
        const double from = std::trunc(low), to = std::trunc(high);
        const bool steps = from != to && ((a >= from && a <= to) || (b >= from && b <= to));
        return steps ? Range{-INFINITE, INFINITE} : Range{0, 0};
    }
    if ((kind == UnitKind::sqrt && !(low > 0)) || (kind == UnitKind::reciprocal && !(low > 0 || high < 0))) return {-INFINITE, INFINITE};
    Range found{INFINITE, -INFINITE};
    auto meet = [&](double at) {
        found.least = std::min(found.least, at);
        found.most = std::max(found.most, at);
    };
    // At an end of the interval only the derivative inside it counts.
    meet(slope(kind, low, a, b, low == high));
    meet(slope(kind, high, a, b, true));
    const Places places = turns(kind, a, b);
    const bool straight = is_straight(kind);
    for (int i = 0; i < places.count; ++i) {
        const double at = places.at[i], near = straight || kind == UnitKind::elu || kind == UnitKind::hard_swish ? 0 : 1e-6;
        if (near == 0 ? at > low && at < high : at >= low - near && at <= high + near) {
            meet(slope(kind, at, a, b, true));
            meet(slope(kind, at, a, b, false));
        }
    }
    if (!straight) {
        found.least -= (1 + std::fabs(found.least)) * 0x1p-40;
        found.most += (1 + std::fabs(found.most)) * 0x1p-40;
    }
    return found;
}

// How far a library's float32 value can be from the true value at its own input x, where |x| <= size and |value| <= result.
inline double enclosure(UnitKind kind, double size, double result, double a, double b) {
    switch (kind) {
    case UnitKind::clip:
    case UnitKind::abs:
    case UnitKind::equal: return 0;
    case UnitKind::leaky: return std::fabs(a) * size * 0x1p-23 + 0x1p-126;
    case UnitKind::tanh:
    case UnitKind::sigmoid:
    case UnitKind::erf:
    case UnitKind::softsign: return ENCLOSURE;
    case UnitKind::exp: return ENCLOSURE * std::max(1.0, result);
    case UnitKind::square:
    case UnitKind::sqrt:
    case UnitKind::reciprocal: return ENCLOSURE * result + 0x1p-120;
    case UnitKind::elu: return ENCLOSURE * std::max(1.0, size) * std::max({1.0, std::fabs(b), std::fabs(a * b)});
    default: return ENCLOSURE * std::max(1.0, size);
    }
}

}  // namespace units
}  // namespace polvet
