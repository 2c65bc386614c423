// Schoolbook arithmetic on limbs of 32 bits.
#include "vm/rational.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace polvet {

Natural::Natural(uint64_t value) : limbs_{uint32_t(value), uint32_t(value >> 32)} { trim(); }

void Natural::trim() {
    while (!limbs_.empty() && limbs_.back() == 0) limbs_.pop_back();
}

Natural Natural::from_hexadecimal(const std::string& digits) {
    Natural result;
    result.limbs_.assign(digits.size() / 8 + 1, 0);
    for (size_t k = 0; k < digits.size(); ++k) {
        const char c = digits[digits.size() - 1 - k];
        const uint32_t digit = c <= '9' ? uint32_t(c - '0') : uint32_t(c - 'a' + 10);
        result.limbs_[k / 8] |= digit << 4 * (k % 8);
    }
    result.trim();
    return result;
}

size_t Natural::bits() const { return limbs_.empty() ? 0 : 32 * limbs_.size() - size_t(std::countl_zero(limbs_.back())); }

uint64_t Natural::low() const {
    const uint64_t first = limbs_.empty() ? 0 : limbs_[0];
    return limbs_.size() < 2 ? first : first | uint64_t(limbs_[1]) << 32;
}

int Natural::compare(const Natural& x, const Natural& y) {
    if (x.limbs_.size() != y.limbs_.size()) return x.limbs_.size() < y.limbs_.size() ? -1 : 1;
    for (size_t k = x.limbs_.size(); k-- > 0;)
        if (x.limbs_[k] != y.limbs_[k]) return x.limbs_[k] < y.limbs_[k] ? -1 : 1;
    return 0;
}

Natural Natural::sum(const Natural& x, const Natural& y) {
    const size_t size = std::max(x.limbs_.size(), y.limbs_.size());
    Natural result;
    result.limbs_.resize(size + 1);
    uint64_t carry = 0;
    for (size_t k = 0; k <= size; ++k) {
        if (k < x.limbs_.size()) carry += x.limbs_[k];
        if (k < y.limbs_.size()) carry += y.limbs_[k];
        result.limbs_[k] = uint32_t(carry);
        carry >>= 32;
    }
    result.trim();
    return result;
}

Natural Natural::difference(const Natural& x, const Natural& y) {
    Natural result = x;
    int64_t borrow = 0;
    for (size_t k = 0; k < x.limbs_.size(); ++k) {
        int64_t limb = int64_t(x.limbs_[k]) - borrow - (k < y.limbs_.size() ? int64_t(y.limbs_[k]) : 0);
        borrow = limb < 0;
        result.limbs_[k] = uint32_t(limb);
    }
    result.trim();
    return result;
}

Natural Natural::product(const Natural& x, const Natural& y) {
    Natural result;
    if (x.is_zero() || y.is_zero()) return result;
    result.limbs_.assign(x.limbs_.size() + y.limbs_.size(), 0);
    for (size_t i = 0; i < x.limbs_.size(); ++i) {
        uint64_t carry = 0;
        for (size_t j = 0; j < y.limbs_.size(); ++j) {
            carry += uint64_t(x.limbs_[i]) * y.limbs_[j] + result.limbs_[i + j];
            result.limbs_[i + j] = uint32_t(carry);
            carry >>= 32;
        }
        result.limbs_[i + y.limbs_.size()] = uint32_t(carry);
    }
    result.trim();
    return result;
}

Natural Natural::shifted(size_t left) const {
    Natural result;
    if (is_zero()) return result;
    const size_t whole = left / 32, part = left % 32;
    result.limbs_.assign(limbs_.size() + whole + 1, 0);
    for (size_t k = 0; k < limbs_.size(); ++k) {
        const uint64_t wide = uint64_t(limbs_[k]) << part;
        result.limbs_[k + whole] |= uint32_t(wide);
        result.limbs_[k + whole + 1] = uint32_t(wide >> 32);
    }
    result.trim();
    return result;
}

// One bit of the quotient at a time: quotients are short here, and few.
std::pair<Natural, Natural> Natural::quotient(const Natural& x, const Natural& y) {
    Natural rest = x, result;
    if (compare(x, y) < 0) return {result, rest};
    for (size_t place = x.bits() - y.bits() + 1; place-- > 0;) {
        const Natural part = y.shifted(place);
        if (compare(rest, part) < 0) continue;
        rest = difference(rest, part);
        if (result.limbs_.size() <= place / 32) result.limbs_.resize(place / 32 + 1);
        result.limbs_[place / 32] |= uint32_t(1) << place % 32;
    }
    return {result, rest};
}

Rational::Rational(int64_t value) : negative_(value < 0), above_(value < 0 ? 0 - uint64_t(value) : uint64_t(value)), below_(1) {}

Rational::Rational(bool negative, Natural above, Natural below)
    : negative_(negative && !above.is_zero()), above_(std::move(above)), below_(std::move(below)) {}

Rational Rational::of_double(double value) {
    int exponent;
    const auto mantissa = int64_t(std::ldexp(std::frexp(value, &exponent), 53));
    exponent -= 53;
    const Rational whole(mantissa);
    if (exponent >= 0) return {value < 0, whole.above_.shifted(size_t(exponent)), Natural(1)};
    const int spare = mantissa == 0 ? 0 : std::min(-exponent, std::countr_zero(uint64_t(mantissa)));
    const Natural above(whole.above_.low() >> spare);
    return {value < 0, above, Natural(1).shifted(size_t(-exponent - spare))};
}

bool Rational::to_integer(int64_t& value) const {
    const auto [whole, rest] = Natural::quotient(above_, below_);
    if (!rest.is_zero() || whole.bits() > 63) return false;
    value = negative_ ? -int64_t(whole.low()) : int64_t(whole.low());
    return true;
}

Rational Rational::floor() const {
    auto [whole, rest] = Natural::quotient(above_, below_);
    if (negative_ && !rest.is_zero()) whole = Natural::sum(whole, Natural(1));
    return {negative_, std::move(whole), Natural(1)};
}

double Rational::nearest() const {
    if (above_.is_zero()) return 0.0;
    // 2^exponent <= value < 2^(exponent + 1)
    auto exponent = int64_t(above_.bits()) - int64_t(below_.bits());
    auto scaled = [&](int64_t left) {  // value * 2^left as a fraction
        return left >= 0 ? std::pair(above_.shifted(size_t(left)), below_) : std::pair(above_, below_.shifted(size_t(-left)));
    };
    const auto [x, y] = scaled(-exponent);
    if (Natural::compare(x, y) < 0) --exponent;
    const int64_t precision = std::min<int64_t>(53, exponent + 1075);  // fewer bits below the least normal double
    if (precision < 0) return negative_ ? -0.0 : 0.0;
    if (exponent > 1023) return negative_ ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    const auto [above, below] = scaled(precision - 1 - exponent);
    const auto [whole, rest] = Natural::quotient(above, below);
    const int half = Natural::compare(rest.shifted(1), below);
    uint64_t mantissa = whole.low();
    if (half > 0 || (half == 0 && mantissa & 1)) ++mantissa;
    const double size = std::ldexp(double(mantissa), int(exponent - precision + 1));
    return negative_ ? -size : size;
}

int Rational::compare(const Rational& x, const Rational& y) {
    if (x.sign() != y.sign()) return x.sign() < y.sign() ? -1 : 1;
    const int size = Natural::compare(Natural::product(x.above_, y.below_), Natural::product(y.above_, x.below_));
    return x.negative_ ? -size : size;
}

Rational operator+(const Rational& x, const Rational& y) {
    const bool same = Natural::compare(x.below_, y.below_) == 0;
    const Natural one = same ? x.above_ : Natural::product(x.above_, y.below_);
    const Natural other = same ? y.above_ : Natural::product(y.above_, x.below_);
    Natural below = same ? x.below_ : Natural::product(x.below_, y.below_);
    if (x.negative_ == y.negative_) return {x.negative_, Natural::sum(one, other), std::move(below)};
    if (Natural::compare(one, other) >= 0) return {x.negative_, Natural::difference(one, other), std::move(below)};
    return {y.negative_, Natural::difference(other, one), std::move(below)};
}

Rational operator*(const Rational& x, const Rational& y) {
    return {x.negative_ != y.negative_, Natural::product(x.above_, y.above_), Natural::product(x.below_, y.below_)};
}

}  // namespace polvet
