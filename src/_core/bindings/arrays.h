// Arrays that come from numpy, and vectors that become numpy arrays without being copied.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace polvet {

template <class T> using Array = nanobind::ndarray<const T, nanobind::c_contig, nanobind::device::cpu>;
template <class T> using In = nanobind::ndarray<const T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
template <class T> using Out = nanobind::ndarray<T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;  // filled in place
using Packed = nanobind::ndarray<const uint64_t, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;     // a row a state

// A numpy array that owns the vector; without a shape it has one dimension.
template <class T> nanobind::ndarray<nanobind::numpy, T> give(std::vector<T>&& values, std::vector<size_t> shape = {}) {
    auto* owned = new std::vector<T>(std::move(values));
    nanobind::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    if (shape.empty()) shape = {owned->size()};
    return nanobind::ndarray<nanobind::numpy, T>(owned->data(), shape.size(), shape.data(), owner);
}

// The state in which something broke, as a row of its words; no row where there is none.
inline nanobind::ndarray<nanobind::numpy, uint64_t> give_state(std::vector<uint64_t> state) {
    const size_t words = state.size();
    return give(std::move(state), {size_t(words != 0), words});
}

}  // namespace polvet
