// Boxes and cells of integers: a cell is a box, rows that hold in it, and holes; what is known of all its states at once.
//
// Source   Davis, Constraint propagation with interval labels, AIJ 1987: `contract`, bounds propagation of linear rows over integers.
// Differs  rows have marks, coefficient * [x = value], so that tables of one variable are rows, too; sums have 128 bits.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "store/portable.h"

namespace polvet {

using Int128 = Int128;  // sums of products of 64-bit integers
constexpr int64_t NO_LOWER = INT64_MIN, NO_UPPER = INT64_MAX;

struct Mark {
    int32_t variable;
    int64_t value, coefficient;
};  // coefficient * [x = value]
struct Summand {
    int32_t variable;
    int64_t coefficient;
};

struct Row {
    std::vector<Summand> terms;
    std::vector<Mark> marks;
    int64_t lower = NO_LOWER, upper = NO_UPPER;
    Int128 value(const int64_t* x) const;
    bool holds(const int64_t* x) const;
};

struct Box {
    std::vector<int64_t> lower, upper;
    bool empty() const {
        for (size_t v = 0; v < lower.size(); ++v)
            if (lower[v] > upper[v]) return true;
        return false;
    }
    double count() const {  // rounded: only to be compared with small numbers
        double product = 1;
        for (size_t v = 0; v < lower.size(); ++v) product *= double(upper[v] - lower[v]) + 1;
        return product;
    }
    bool contains(const Box& other) const {
        for (size_t v = 0; v < lower.size(); ++v)
            if (other.lower[v] < lower[v] || other.upper[v] > upper[v]) return false;
        return true;
    }
    bool meets(const Box& other) const {
        for (size_t v = 0; v < lower.size(); ++v)
            if (other.lower[v] > upper[v] || other.upper[v] < lower[v]) return false;
        return true;
    }
    bool holds(const int64_t* x) const {
        for (size_t v = 0; v < lower.size(); ++v)
            if (x[v] < lower[v] || x[v] > upper[v]) return false;
        return true;
    }
};

struct Cell {
    Box box;
    std::vector<Row> rows;
    std::vector<Cell> holes;
    bool holds(const int64_t* x) const;
};

enum class Relation { OUTSIDE, MIXED, INSIDE };
// SOUND: OUTSIDE means no state of the box is in the cell, INSIDE means all are; MIXED promises nothing.
Relation relation(const Cell& cell, const Box& box);
void span(const Row& row, const Box& box, Int128& low, Int128& high);
// Shrink the box to what the rows allow, by bounds propagation; false if nothing is left.
bool contract(Box& box, const std::vector<const Row*>& rows);

}  // namespace polvet
