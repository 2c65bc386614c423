// Rationals without limits, for the few places where a double cannot decide: numerators and denominators of any length.
//
// Fractions are not reduced: what is computed here is short. Whoever computes something long must ask `bits()` and stop.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace polvet {

// A natural number, least limb first, without leading zeros.
class Natural {
public:
    Natural() = default;
    explicit Natural(uint64_t value);
    static Natural from_hexadecimal(const std::string& digits);

    bool is_zero() const { return limbs_.empty(); }
    size_t bits() const;
    uint64_t low() const;  // the value modulo 2^64
    static int compare(const Natural& x, const Natural& y);
    static Natural sum(const Natural& x, const Natural& y);
    static Natural difference(const Natural& x, const Natural& y);  // x >= y
    static Natural product(const Natural& x, const Natural& y);
    static std::pair<Natural, Natural> quotient(const Natural& x, const Natural& y);  // and remainder; y > 0
    Natural shifted(size_t left) const;

private:
    void trim();
    std::vector<uint32_t> limbs_;
};

// A rational number: sign, numerator, denominator above 0.
class Rational {
public:
    Rational() : below_(1) {}
    explicit Rational(int64_t value);
    Rational(bool negative, Natural above, Natural below);
    static Rational of_double(double value);  // exactly; the value is finite

    int sign() const { return above_.is_zero() ? 0 : negative_ ? -1 : 1; }
    size_t bits() const { return above_.bits() + below_.bits(); }
    bool to_integer(int64_t& value) const;  // false where it is no integer of 64 bits
    double nearest() const;                 // the nearest double, ties to even; infinite where there is none
    Rational floor() const;
    Rational negated() const { return {!negative_, above_, below_}; }
    Rational inverse() const { return {negative_, below_, above_}; }  // not of 0

    static int compare(const Rational& x, const Rational& y);
    friend Rational operator+(const Rational& x, const Rational& y);
    friend Rational operator-(const Rational& x, const Rational& y) { return x + y.negated(); }
    friend Rational operator*(const Rational& x, const Rational& y);
    friend Rational operator/(const Rational& x, const Rational& y) { return x * y.inverse(); }

private:
    bool negative_ = false;
    Natural above_, below_;
};

}  // namespace polvet
