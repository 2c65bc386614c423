// States whose verdict a smaller game has already told: a byte per cell, a cell being a combination of values of a few variables.
//
// What a relaxed game lost is unsafe, what a restricted game won is safe, whatever the other variables hold (safety/projections.py
// and safety/cells.py say why). The search then treats such a state as it treats `fail` and `goal`; there is no action
// behind it, so no evidence either, unless only lost ones were told: safe policies enter none of these, and ranks begin there at 0.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "decide/board.h"
#include "vm/program.h"

namespace polvet {

struct Foreseen {
    struct Place {
        uint32_t word, shift;
        uint64_t mask, stride, top;
    };  // an integer: its value as stored; those from `top` on are one
    struct Line {
        uint32_t word;
        double lower, scale;
        uint64_t count, stride;
    };  // a real: cells of equal width
    struct Clock {
        uint32_t word, shift;
        uint64_t mask, latest;
    };  // holds only up to that value
    std::vector<Place> places;
    std::vector<Line> lines;
    std::vector<Clock> clocks;
    std::vector<uint8_t> verdicts;
    bool wins = false;  // some verdict is safe

    Known find(const uint64_t* state) const {
        for (const Clock& c : clocks)
            if ((state[c.word] >> c.shift & c.mask) > c.latest) return UNDECIDED;
        uint64_t index = 0;
        for (const Place& p : places) index += std::min(state[p.word] >> p.shift & p.mask, p.top) * p.stride;
        for (const Line& l : lines) {
            // SOUND: cells overlap by more than this rounds.
            const double at = std::floor((std::bit_cast<double>(state[l.word]) - l.lower) * l.scale);
            if (!(at >= 0 && at < double(l.count))) return UNDECIDED;
            index += uint64_t(at) * l.stride;
        }
        return Known(verdicts[index]);
    }
};

}  // namespace polvet
