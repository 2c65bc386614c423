// Strongly connected components and breadth-first trees of a multigraph, without recursion.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace polvet {

// The number of each node's strongly connected component, -1 where no cycle leads through the node; successors have smaller
// numbers (Tarjan 1972).
std::vector<int64_t> strong_components(uint32_t size, const int64_t* sources, const int64_t* targets, size_t edges);

// A breadth-first search from node 0: the nodes in the order they are met, and the edge each was entered by (-1: none).
struct SearchTree {
    std::vector<int64_t> order, entered;
};
SearchTree breadth_first(uint32_t size, const int64_t* sources, const int64_t* targets, size_t edges);

}  // namespace polvet
