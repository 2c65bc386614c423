// How a kernel that runs without the interpreter's lock is heard, and hears of Ctrl-C.
#pragma once
#include <nanobind/nanobind.h>

#include "store/limits.h"

namespace polvet {

// Call the Python function `progress`, or nobody where it is None. What it raises passes through the kernel.
inline Listener listening(nanobind::object progress) {
    return [progress](uint64_t done, uint64_t known) {
        nanobind::gil_scoped_acquire gil;
        if (PyErr_CheckSignals() != 0) {
            PyErr_Clear();
            return false;
        }
        if (!progress.is_none()) progress(done, known);
        return true;
    };
}

}  // namespace polvet
