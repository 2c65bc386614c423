// Limits every kernel obeys: time, memory, size, and the user's Ctrl-C.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>

namespace polvet {

constexpr uint64_t MANY_BRANCHES = 1 << 16;  // after so many, limits are looked at, however few states they belong to

enum class Status : int32_t { DONE, TIME, MEMORY, STATES, INTERRUPTED, FAULT };

// GameVerdicts (states done, states known) ten times a second; false: the user wants the work to stop.
using Listener = std::function<bool(uint64_t, uint64_t)>;

struct Limits {
    double seconds = std::numeric_limits<double>::infinity();
    uint64_t bytes = UINT64_MAX, states = UINT32_MAX - 2;
    Listener listener;
    std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now(), shown = begun;

    // Called without the GIL every few thousand states.
    Status poll(uint64_t bytes_used, uint64_t done, uint64_t known) {
        if (known > states) return Status::STATES;
        if (bytes_used > bytes) return Status::MEMORY;
        auto now = std::chrono::steady_clock::now();
        if (std::chrono::duration<double>(now - begun).count() > seconds) return Status::TIME;
        if (std::chrono::duration<double>(now - shown).count() > 0.1) {
            shown = now;
            if (!listener(done, known)) return Status::INTERRUPTED;
        }
        return Status::DONE;
    }
};

}  // namespace polvet
