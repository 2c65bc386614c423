// Longest walks of a weighted multigraph, or cycles of positive weight that forbid them: Bellman and Ford.
//
// Source   Bellman 1958, Ford 1956; sweeps in alternating directions after Yen 1970, over active nodes only
// Differs  every node begins with a given value, as if a source led to it. A cycle of the graph of last improvements has positive
//          weight; such cycles are collected as they come, for a few sweeps more than the first needs. A node of a found
//          cycle takes no further part, so the cycles touch no node twice
// Cost     sweeps x edges; `sweeps` bounds those of one call, and the next call goes on
// Limits   whole numbers must be small enough that no walk's weight overflows: the caller's care
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace polvet {

class LongestWalks {
public:
    LongestWalks(uint32_t size, const int64_t* sources, const int64_t* targets, size_t edges);

    enum class Outcome { POTENTIAL, CYCLES, MORE };

    // From the values in `longest`; an improvement counts only above the tolerance.
    template <class T> Outcome begin(const T* weights, T tolerance, uint64_t sweeps, std::vector<T>& longest);
    template <class T> Outcome go_on(const T* weights, T tolerance, uint64_t sweeps, std::vector<T>& longest);

    std::vector<std::vector<int64_t>> cycles;  // after CYCLES: edges in the order of the walk

    uint32_t size() const { return size_; }
    size_t edges() const { return edges_.size(); }

private:
    void collect_cycles();

    uint32_t size_;
    std::vector<uint32_t> first_;   // where a node's edges begin
    std::vector<uint32_t> edges_;   // edges by source
    std::vector<uint32_t> target_;  // of the edge at a place in edges_
    std::vector<uint32_t> source_;  // of an edge by its number
    std::vector<int64_t> parent_;   // the edge that improved a node last, or -1
    std::vector<uint8_t> active_, done_;
    std::vector<uint32_t> mark_;
    bool forward_ = true;
    int patience_ = 0;
};

}  // namespace polvet
