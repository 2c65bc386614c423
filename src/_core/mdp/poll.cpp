// The deadline, and the user's Ctrl-C, that the mdp kernels look at.
#include <nanobind/nanobind.h>

#include "mdp/mdp.h"

namespace polvet {

Poll::Poll(double seconds) : last_(std::chrono::steady_clock::now()) {
    using namespace std::chrono;
    deadline_ = seconds >= 0 && seconds < 1e9 ? last_ + duration_cast<steady_clock::duration>(duration<double>(seconds))
                                              : steady_clock::time_point::max();
}

bool Poll::look() {
    work_ = 0;
    const auto now = std::chrono::steady_clock::now();
    if (now > deadline_) over_ = true;
    if (now - last_ > std::chrono::milliseconds(50)) {
        last_ = now;
        nanobind::gil_scoped_acquire gil;
        if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
    }
    return over_;
}

}  // namespace polvet
