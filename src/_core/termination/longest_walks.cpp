#include "termination/longest_walks.h"

namespace polvet {

// Sweeps after the first cycle: more cycles at once save their finder rounds.
static const int PATIENCE = 8;

LongestWalks::LongestWalks(uint32_t size, const int64_t* sources, const int64_t* targets, size_t edges)
    : size_(size),
      first_(size + 1, 0),
      edges_(edges),
      target_(edges),
      source_(edges),
      parent_(size, -1),
      active_(size, 1),
      done_(size, 0),
      mark_(size, 0) {
    for (size_t e = 0; e < edges; ++e) ++first_[size_t(sources[e]) + 1];
    for (uint32_t v = 0; v < size; ++v) first_[v + 1] += first_[v];
    std::vector<uint32_t> next(first_.begin(), first_.end() - 1);
    for (size_t e = 0; e < edges; ++e) {
        const uint32_t place = next[size_t(sources[e])]++;
        edges_[place] = uint32_t(e);
        target_[place] = uint32_t(targets[e]);
        source_[e] = uint32_t(sources[e]);
    }
}

template <class T> LongestWalks::Outcome LongestWalks::begin(const T* weights, T tolerance, uint64_t sweeps, std::vector<T>& longest) {
    parent_.assign(size_, -1);
    active_.assign(size_, 1);
    done_.assign(size_, 0);
    cycles.clear();
    patience_ = PATIENCE;
    forward_ = true;
    return go_on(weights, tolerance, sweeps, longest);
}

template <class T> LongestWalks::Outcome LongestWalks::go_on(const T* weights, T tolerance, uint64_t sweeps, std::vector<T>& longest) {
    for (uint64_t sweep = 0; sweep < sweeps; ++sweep) {
        bool improved = false;
        for (uint32_t k = 0; k < size_; ++k) {
            const uint32_t u = forward_ ? k : size_ - 1 - k;
            if (!active_[u]) continue;
            active_[u] = 0;
            if (done_[u]) continue;
            const T here = longest[u];
            for (uint32_t place = first_[u]; place < first_[u + 1]; ++place) {
                const uint32_t v = target_[place];
                const T reach = here + weights[edges_[place]];
                if (reach > longest[v] + tolerance && !done_[v]) {
                    longest[v] = reach;
                    parent_[v] = int64_t(edges_[place]);
                    active_[v] = 1;
                    improved = true;
                }
            }
        }
        forward_ = !forward_;
        if (improved) collect_cycles();
        if (!cycles.empty() && (!improved || patience_-- == 0)) return Outcome::CYCLES;
        if (!improved) return Outcome::POTENTIAL;
    }
    return Outcome::MORE;
}

// The graph in which every node points back over the edge that improved it last.
void LongestWalks::collect_cycles() {
    mark_.assign(size_, 0);
    for (uint32_t start = 0; start < size_; ++start) {
        uint32_t node = start;
        while (mark_[node] == 0) {
            mark_[node] = start + 1;
            if (parent_[node] < 0) break;
            node = source_[size_t(parent_[node])];
        }
        if (mark_[node] != start + 1 || parent_[node] < 0) continue;
        // The walk back met itself: the cycle is walked once more to write it down.
        std::vector<int64_t> backwards;
        const uint32_t last = node;
        do {
            backwards.push_back(parent_[node]);
            done_[node] = 1;
            node = source_[size_t(parent_[node])];
        } while (node != last);
        parent_[last] = -1;
        cycles.emplace_back(backwards.rbegin(), backwards.rend());
    }
}

template LongestWalks::Outcome LongestWalks::begin<double>(const double*, double, uint64_t, std::vector<double>&);
template LongestWalks::Outcome LongestWalks::begin<int64_t>(const int64_t*, int64_t, uint64_t, std::vector<int64_t>&);
template LongestWalks::Outcome LongestWalks::go_on<double>(const double*, double, uint64_t, std::vector<double>&);
template LongestWalks::Outcome LongestWalks::go_on<int64_t>(const int64_t*, int64_t, uint64_t, std::vector<int64_t>&);

}  // namespace polvet
