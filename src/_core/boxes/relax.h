// Straight lines above and below a unit over an interval. One way for all units, from their values and the range of their slopes:
// the interval is cut into cells; in a cell with slopes in [d, D] the unit stays below both f(left) + D (x - left) and
// f(right) + d (x - right). So *any* slope k has a constant that is sound, and the highest chord over the middle tells a good k.
#pragma once
#include <algorithm>
#include <cmath>

#include "policies/units.h"

namespace polvet {

struct Line {
    double slope, constant;
};

class Relaxer {
public:
    Relaxer(UnitKind kind, double low, double high, double a, double b) : kind_(kind), a_(a), b_(b), low_(low), high_(high) {
        finite_ = low <= high && std::fabs(low) < 0x1p125 && std::fabs(high) < 0x1p125;
        if (!finite_) return;
        add(low);
        if (low == high) return;
        add(high);
        const units::Places places = units::turns(kind, a, b);
        for (int i = 0; i < places.count; ++i)
            if (places.at[i] > low && places.at[i] < high) add(places.at[i]);
        if (!units::is_straight(kind) && kind != UnitKind::equal) {
            // Most units bend near zero only.
            const bool anywhere =
                kind == UnitKind::exp || kind == UnitKind::square || kind == UnitKind::sqrt || kind == UnitKind::reciprocal;
            const double from = anywhere ? low : std::max(low, -5.0), to = anywhere ? high : std::min(high, 5.0);
            if (from > low && from < high) add(from);
            if (to > low && to < high && to != from) add(to);
            for (int i = 1; i < GRID && from < to; ++i) add(from + (to - from) * i / GRID);
        }
        std::sort(points_, points_ + count_, [](const Point& p, const Point& q) { return p.x < q.x; });
        for (int i = 0; i + 1 < count_; ++i) ranges_[i] = units::slopes(kind_, points_[i].x, points_[i + 1].x, a_, b_);
    }

    // The line is at least the unit's true value everywhere in the interval (sign = 1), or at most it (sign = -1).
    Line line(double sign) const {
        if (!finite_) return {0, sign * units::INFINITE};
        if (kind_ == UnitKind::equal) {
            const units::Range range = units::slopes(kind_, low_, high_, a_, b_);
            if (range.most > 0) return {0, sign > 0 ? 1.0 : 0.0};
        }
        const double k = low_ == high_ ? 0 : best_slope(sign);
        const double c = greatest(sign, k);
        return {sign * k, sign * c};
    }

    // At least the greatest value of sign * f over the interval.
    double greatest(double sign) const {
        if (!finite_) return units::INFINITE;
        if (kind_ == UnitKind::equal && units::slopes(kind_, low_, high_, a_, b_).most > 0) return sign > 0 ? 1 : 0;
        return greatest(sign, 0);
    }

private:
    static constexpr int GRID = 8, DEPTH = 4;
    struct Point {
        double x, f;
    };

    void add(double x) { points_[count_++] = {x, units::value(kind_, x, a_, b_)}; }

    // The slope of the highest chord of sign * f over the middle of the interval.
    double best_slope(double sign) const {
        const double middle = low_ + (high_ - low_) / 2;
        double best = -units::INFINITE, slope = 0;
        for (int i = 0; i < count_ && points_[i].x <= middle; ++i)
            for (int j = count_ - 1; j > i && points_[j].x >= middle; --j) {
                const double k = sign * (points_[j].f - points_[i].f) / (points_[j].x - points_[i].x);
                const double height = sign * points_[i].f + k * (middle - points_[i].x);
                if (height > best) {
                    best = height;
                    slope = k;
                }
            }
        return std::isfinite(slope) ? slope : 0;
    }

    // At least the greatest value of sign * f(x) - k x.
    double greatest(double sign, double k) const {
        double best = -units::INFINITE, size = 0;
        for (int i = 0; i < count_; ++i) {
            best = std::max(best, sign * points_[i].f - k * points_[i].x);
            size = std::max(size, std::fabs(points_[i].f) + std::fabs(k * points_[i].x));
        }
        for (int i = 0; i + 1 < count_; ++i) best = in_cell(points_[i], points_[i + 1], ranges_[i], sign, k, best, DEPTH);
        // SOUND: what the C library and these few operations are off is far below this.
        return best + (size + 1) * 0x1p-40;
    }

    double in_cell(const Point& p, const Point& q, const units::Range& range, double sign, double k, double best, int depth) const {
        const double width = q.x - p.x;
        if (width <= 0) return best;
        const double least = sign > 0 ? range.least : -range.most, most = sign > 0 ? range.most : -range.least;
        const double left = sign * p.f - k * p.x, right = sign * q.f - k * q.x;
        if (least >= k || most <= k) return std::max({best, left, right});  // monotone: an end is greatest
        if (!std::isfinite(least) || !std::isfinite(most)) return units::INFINITE;
        const double at = std::clamp((right - left + (k - least) * width) / (most - least), 0.0, width);
        const double bound = std::max({left, right, left + (most - k) * at});
        if (bound <= best) return best;
        if (depth == 0) return bound;
        const double x = p.x + width / 2;
        const Point middle{x, units::value(kind_, x, a_, b_)};
        best = std::max(best, sign * middle.f - k * x);
        best = in_cell(p, middle, units::slopes(kind_, p.x, x, a_, b_), sign, k, best, depth - 1);
        return in_cell(middle, q, units::slopes(kind_, x, q.x, a_, b_), sign, k, best, depth - 1);
    }

    UnitKind kind_;
    double a_, b_, low_, high_;
    bool finite_;
    Point points_[GRID + 8];
    units::Range ranges_[GRID + 8];
    int count_ = 0;
};

}  // namespace polvet
