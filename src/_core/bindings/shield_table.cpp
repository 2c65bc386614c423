// What a shield allows in many states at once: a table from states (one number per variable) to masks of labels.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <stdexcept>
#include <vector>

#include "store/store.h"

namespace nb = nanobind;

namespace polvet {
namespace {

using States = nb::ndarray<const int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Masks = nb::ndarray<const uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using MasksOut = nb::ndarray<uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using PlacesOut = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

class ShieldTable {
public:
    ShieldTable(States states, Masks masks)
        : store_(uint32_t(states.shape(1))), labels_(masks.shape(1)), masks_(masks.data(), masks.data() + masks.size()) {
        if (states.shape(1) == 0 || states.shape(0) != masks.shape(0))
            throw std::invalid_argument("the table's arrays do not fit together");
        for (size_t row = 0; row < states.shape(0); ++row)
            if (!store_.insert(words(states, row)).second) throw std::invalid_argument("a state stands twice");
    }

    // Takes from each row of `masks` what the shield forbids there; `places` are the rows of the table, -1 where it has none.
    void mask(States states, MasksOut masks, PlacesOut places) const {
        if (states.shape(1) != store_.words() || masks.shape(1) != labels_ || masks.shape(0) != states.shape(0) ||
            places.shape(0) != states.shape(0))
            throw std::invalid_argument("states, masks and places do not fit together");
        nb::gil_scoped_release release;
        for (size_t row = 0; row < states.shape(0); ++row) {
            const int64_t place = places.data()[row] = store_.find(words(states, row));
            uint8_t* mine = masks.data() + row * labels_;
            // SOUND: what the table does not know is forbidden.
            for (size_t label = 0; label < labels_; ++label) mine[label] &= place < 0 ? 0 : masks_[size_t(place) * labels_ + label];
        }
    }

private:
    static const uint64_t* words(const States& states, size_t row) {
        return reinterpret_cast<const uint64_t*>(states.data()) + row * states.shape(1);
    }

    Store<0> store_;
    size_t labels_;
    std::vector<uint8_t> masks_;
};

}  // namespace

void bind_shield_table(nb::module_& m) {
    using namespace nb::literals;
    nb::class_<ShieldTable>(m, "ShieldTable", "Which labels a shield allows, by states.")
        .def(nb::init<States, Masks>(), "states"_a, "masks"_a)
        .def("mask", &ShieldTable::mask, "states"_a, "masks"_a, "places"_a);
}

}  // namespace polvet
