// Networks: every value as a double with a distance that no execution exceeds (docs/flat.md, scores of networks), rounded outwards.
#pragma once
#include <functional>

#include "world.h"

namespace polvet::judging {

std::function<void(const Cell*, std::vector<float>&)> row_of(const World& world, const std::vector<Item>& parts);
std::function<void(const Cell*, const std::vector<uint32_t>&, std::vector<uint32_t>&)> network_scorer(const World& world,
                                                                                                      const std::vector<Item>& parts,
                                                                                                      size_t outputs);

}  // namespace polvet::judging
