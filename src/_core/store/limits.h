// Limits every kernel obeys: time, memory, size, and the user's Ctrl-C.
#pragma once
#include <nanobind/nanobind.h>

#include <chrono>
#include <cstdint>
#include <limits>

namespace polvet {

enum class Status : int32_t { DONE, TIME, MEMORY, STATES, INTERRUPTED, FAULT };

struct Limits {
    double seconds = std::numeric_limits<double>::infinity();
    uint64_t bytes = UINT64_MAX, states = UINT32_MAX - 2;
    nanobind::object progress;  // called with (states done, states known), or none
    std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now(), shown = begun;

    double elapsed() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count(); }

    // Called without the GIL every few thousand states.
    Status poll(uint64_t bytes_used, uint64_t done, uint64_t known) {
        if (known > states) return Status::STATES;
        if (bytes_used > bytes) return Status::MEMORY;
        auto now = std::chrono::steady_clock::now();
        if (std::chrono::duration<double>(now - begun).count() > seconds) return Status::TIME;
        if (std::chrono::duration<double>(now - shown).count() > 0.1) {
            shown = now;
            nanobind::gil_scoped_acquire gil;
            if (PyErr_CheckSignals() != 0) {
                PyErr_Clear();
                return Status::INTERRUPTED;
            }
            if (!progress.is_none()) progress(done, known);
        }
        return Status::DONE;
    }
};

}  // namespace polvet
