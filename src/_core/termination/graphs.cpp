#include "termination/graphs.h"

namespace polvet {

namespace {

// Edges by the node they leave.
struct Leaving {
    std::vector<uint32_t> first, edges;

    Leaving(uint32_t size, const int64_t* sources, size_t count) : first(size + 1, 0), edges(count) {
        for (size_t e = 0; e < count; ++e) ++first[size_t(sources[e]) + 1];
        for (uint32_t v = 0; v < size; ++v) first[v + 1] += first[v];
        std::vector<uint32_t> next(first.begin(), first.end() - 1);
        for (size_t e = 0; e < count; ++e) edges[next[size_t(sources[e])]++] = uint32_t(e);
    }
};

}  // namespace

std::vector<int64_t> strong_components(uint32_t size, const int64_t* sources, const int64_t* targets, size_t edges) {
    const Leaving leaving(size, sources, edges);
    std::vector<uint8_t> loop(size, 0), waiting(size, 0);
    for (size_t e = 0; e < edges; ++e)
        if (sources[e] == targets[e]) loop[size_t(sources[e])] = 1;
    const uint32_t unseen = 0;
    std::vector<uint32_t> index(size, unseen), low(size, 0), stack, frames, place(leaving.first.begin(), leaving.first.end() - 1);
    std::vector<int64_t> owner(size, -1);
    uint32_t count = 0;
    int64_t components = 0;
    auto enter = [&](uint32_t node) {
        index[node] = low[node] = ++count;
        stack.push_back(node);
        waiting[node] = 1;
        frames.push_back(node);
    };
    for (uint32_t root = 0; root < size; ++root) {
        if (index[root] != unseen) continue;
        enter(root);
        while (!frames.empty()) {
            const uint32_t node = frames.back();
            if (place[node] < leaving.first[node + 1]) {
                const uint32_t target = uint32_t(targets[leaving.edges[place[node]++]]);
                if (index[target] == unseen) enter(target);
                else if (waiting[target] && index[target] < low[node]) low[node] = index[target];
                continue;
            }
            frames.pop_back();
            if (!frames.empty() && low[node] < low[frames.back()]) low[frames.back()] = low[node];
            if (low[node] != index[node]) continue;
            const bool cyclic = stack.back() != node || loop[node];
            uint32_t member;
            do {
                member = stack.back();
                stack.pop_back();
                waiting[member] = 0;
                if (cyclic) owner[member] = components;
            } while (member != node);
            components += cyclic;
        }
    }
    return owner;
}

SearchTree breadth_first(uint32_t size, const int64_t* sources, const int64_t* targets, size_t edges) {
    const Leaving leaving(size, sources, edges);
    SearchTree tree{{}, std::vector<int64_t>(size, -1)};
    if (size == 0) return tree;
    std::vector<uint8_t> met(size, 0);
    tree.order.push_back(0);
    met[0] = 1;
    for (size_t k = 0; k < tree.order.size(); ++k) {
        const size_t node = size_t(tree.order[k]);
        for (uint32_t place = leaving.first[node]; place < leaving.first[node + 1]; ++place) {
            const uint32_t edge = leaving.edges[place];
            const size_t target = size_t(targets[edge]);
            if (met[target]) continue;
            met[target] = 1;
            tree.entered[target] = int64_t(edge);
            tree.order.push_back(targets[edge]);
        }
    }
    return tree;
}

}  // namespace polvet
