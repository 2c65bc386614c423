// The search for needs over packed states of every width.
#include "decide/need.h"

namespace polvet {

std::unique_ptr<NeedSearch> make_need_search(std::shared_ptr<const Program> program, int32_t fail, int32_t goal, const Counter& counter,
                                             const std::vector<Floor>& floors) {
    switch (program->words) {
    case 1: return std::make_unique<Needs<1>>(program, fail, goal, counter, floors);
    case 2: return std::make_unique<Needs<2>>(program, fail, goal, counter, floors);
    case 3: return std::make_unique<Needs<3>>(program, fail, goal, counter, floors);
    default: return std::make_unique<Needs<0>>(program, fail, goal, counter, floors);
    }
}

}  // namespace polvet
