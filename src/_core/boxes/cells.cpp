// What a row or a cell says of a box, without looking at its states; see cells.h.
#include "boxes/cells.h"

#include <algorithm>

namespace polvet {

Int128 Row::value(const int64_t* x) const {
    Int128 sum = 0;
    for (const Summand& t : terms) sum += Int128(t.coefficient) * x[t.variable];
    for (const Mark& m : marks)
        if (x[m.variable] == m.value) sum += m.coefficient;
    return sum;
}

bool Row::holds(const int64_t* x) const {
    const Int128 sum = value(x);
    return (lower == NO_LOWER || sum >= lower) && (upper == NO_UPPER || sum <= upper);
}

bool Cell::holds(const int64_t* x) const {
    if (!box.holds(x)) return false;
    for (const Row& row : rows)
        if (!row.holds(x)) return false;
    for (const Cell& hole : holes)
        if (hole.holds(x)) return false;
    return true;
}

void span(const Row& row, const Box& box, Int128& low, Int128& high) {
    low = high = 0;
    for (const Summand& t : row.terms) {
        const size_t v = size_t(t.variable);
        const Int128 a = Int128(t.coefficient) * box.lower[v], b = Int128(t.coefficient) * box.upper[v];
        low += std::min(a, b);
        high += std::max(a, b);
    }
    for (const Mark& m : row.marks) {
        const size_t v = size_t(m.variable);
        if (m.value < box.lower[v] || m.value > box.upper[v]) continue;
        const bool fixed = box.lower[v] == box.upper[v];
        low += fixed || m.coefficient < 0 ? m.coefficient : 0;
        high += fixed || m.coefficient > 0 ? m.coefficient : 0;
    }
}

Relation relation(const Cell& cell, const Box& box) {
    bool inside = true;
    for (size_t v = 0; v < box.lower.size(); ++v) {
        if (box.lower[v] > cell.box.upper[v] || box.upper[v] < cell.box.lower[v]) return Relation::OUTSIDE;
        inside = inside && box.lower[v] >= cell.box.lower[v] && box.upper[v] <= cell.box.upper[v];
    }
    for (const Row& row : cell.rows) {
        Int128 low, high;
        span(row, box, low, high);
        if ((row.lower != NO_LOWER && high < row.lower) || (row.upper != NO_UPPER && low > row.upper)) return Relation::OUTSIDE;
        inside = inside && (row.lower == NO_LOWER || low >= row.lower) && (row.upper == NO_UPPER || high <= row.upper);
    }
    for (const Cell& hole : cell.holes) {
        const Relation r = relation(hole, box);
        if (r == Relation::INSIDE) return Relation::OUTSIDE;
        inside = inside && r == Relation::OUTSIDE;
    }
    return inside ? Relation::INSIDE : Relation::MIXED;
}

bool contract(Box& box, const std::vector<const Row*>& rows) {
    bool changed = true;
    for (int round = 0; changed && round < 8; ++round) {
        changed = false;
        for (const Row* row : rows) {
            Int128 low, high;
            span(*row, box, low, high);
            if ((row->lower != NO_LOWER && high < row->lower) || (row->upper != NO_UPPER && low > row->upper)) return false;
            const bool tight_low = row->lower != NO_LOWER && low < row->lower, tight_high = row->upper != NO_UPPER && high > row->upper;
            if (!tight_low && !tight_high) continue;
            for (const Summand& t : row->terms) {
                const size_t v = size_t(t.variable);
                if (box.lower[v] == box.upper[v]) continue;
                const Int128 a = t.coefficient, x = a * box.lower[v], y = a * box.upper[v], least = std::min(x, y), most = std::max(x, y);
                int64_t new_low = box.lower[v], new_high = box.upper[v];
                if (tight_high) {  // a x <= upper - (low - least)
                    const Int128 room = Int128(row->upper) - (low - least);
                    if (a > 0) new_high = int64_t(std::min<Int128>(new_high, floor_div(room, a)));
                    else new_low = int64_t(std::max<Int128>(new_low, -floor_div(room, -a)));
                }
                if (tight_low) {  // a x >= lower - (high - most)
                    const Int128 room = Int128(row->lower) - (high - most);
                    if (a > 0) new_low = int64_t(std::max<Int128>(new_low, -floor_div(-room, a)));
                    else new_high = int64_t(std::min<Int128>(new_high, floor_div(-room, -a)));
                }
                if (new_low > new_high) return false;
                if (new_low != box.lower[v] || new_high != box.upper[v]) {
                    box.lower[v] = new_low;
                    box.upper[v] = new_high;
                    changed = true;
                    span(*row, box, low, high);
                }
            }
            for (const Mark& m : row->marks) {
                const size_t v = size_t(m.variable);
                if (box.lower[v] == box.upper[v] || m.value < box.lower[v] || m.value > box.upper[v]) continue;
                const Int128 c = m.coefficient, rest_low = low - std::min<Int128>(c, 0), rest_high = high - std::max<Int128>(c, 0);
                const bool can =
                    (row->upper == NO_UPPER || rest_low + c <= row->upper) && (row->lower == NO_LOWER || rest_high + c >= row->lower);
                const bool can_not =
                    (row->upper == NO_UPPER || rest_low <= row->upper) && (row->lower == NO_LOWER || rest_high >= row->lower);
                if (!can && !can_not) return false;
                if (!can_not) box.lower[v] = box.upper[v] = m.value;
                else if (can) continue;
                else if (m.value == box.lower[v]) ++box.lower[v];
                else if (m.value == box.upper[v]) --box.upper[v];
                else continue;
                if (box.lower[v] > box.upper[v]) return false;
                changed = true;
                span(*row, box, low, high);
            }
        }
    }
    return true;
}

}  // namespace polvet
