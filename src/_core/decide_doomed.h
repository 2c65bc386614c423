// States that a relaxed game has already lost: a bit per combination of values of a few variables.
//
// Where the bit is set, every state with these values is unsafe, whatever the other variables hold (safety/projections.py
// says why). The search then treats such a state as it treats `fail`; there is no rank behind it, so no evidence either.
#pragma once
#include <cstdint>
#include <vector>

#include "program.h"

namespace polvet {

struct Doomed {
    struct Place { uint32_t word, shift; uint64_t mask, stride; };
    std::vector<Place> places;
    std::vector<uint8_t> lost;

    bool holds(const uint64_t* state) const {
        uint64_t index = 0;
        for (const Place& p : places) index += (state[p.word] >> p.shift & p.mask) * p.stride;
        return lost[index] != 0;
    }
};

}  // namespace polvet
