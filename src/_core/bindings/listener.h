// How a kernel that runs without the interpreter's lock is heard, and hears of Ctrl-C.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <optional>
#include <utility>

#include "store/limits.h"

namespace polvet {

// GameVerdicts (states done, states known), or nobody.
using Progress = std::optional<nanobind::typed<nanobind::callable, void(uint64_t, uint64_t)>>;

// Call the Python function `progress`. What it raises passes through the kernel.
inline Listener listening(Progress progress) {
    return [progress = std::move(progress)](uint64_t done, uint64_t known) {
        nanobind::gil_scoped_acquire gil;
        if (PyErr_CheckSignals() != 0) {
            PyErr_Clear();
            return false;
        }
        if (progress) (*progress)(done, known);
        return true;
    };
}

}  // namespace polvet
