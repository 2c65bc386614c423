// Closed sets and maximal end components of a part of an MDP; all iterative, on local numbers.
//
// Source   Baier & Katoen, Principles of Model Checking, Algorithms 45 (prob1) and 47 (end components); closed sets by counting.
// Differs  end components are searched only inside the greatest closed set, and only parts that lost a choice are decomposed again.
// Cost     closed sets: linear. End components: linear per round; at most as many rounds as nodes, in practice a few.
#include <algorithm>

#include "mdp/mdp.h"

namespace polvet {

void Local::clear() {
    choice_start.assign(1, 0);
    branch_start.assign(1, 0);
    target.clear();
    owner.clear();
    flags.clear();
}

void Predecessors::build(const Local& part) {
    start.assign(part.nodes() + 1, 0);
    for (uint32_t t : part.target) ++start[t + 1];
    for (uint32_t v = 0; v < part.nodes(); ++v) start[v + 1] += start[v];
    choice.resize(part.target.size());
    std::vector<uint32_t> fill(start.begin(), start.end() - 1);
    for (uint32_t c = 0; c < part.choices(); ++c)
        for (uint32_t b = part.branch_start[c]; b < part.branch_start[c + 1]; ++b) choice[fill[part.target[b]]++] = c;
}

namespace {

// Removes the nodes in `removed` and, transitively, every node that thereby loses its last allowed choice.
void remove_nodes(const Local& part, const Predecessors& back, std::vector<uint8_t>& allowed, std::vector<uint8_t>& inside,
                  std::vector<uint32_t>& count, std::vector<uint32_t>& removed) {
    while (!removed.empty()) {
        const uint32_t v = removed.back();
        removed.pop_back();
        for (uint32_t i = back.start[v]; i < back.start[v + 1]; ++i) {
            const uint32_t c = back.choice[i];
            if (!allowed[c]) continue;
            allowed[c] = 0;
            const uint32_t w = part.owner[c];
            if (inside[w] && --count[w] == 0) {
                inside[w] = 0;
                removed.push_back(w);
            }
        }
    }
}

// Strongly connected components of the nodes in `scope` along allowed choices. `component[v]` is numbered from `next` on.
void connect(const Local& part, const std::vector<uint8_t>& allowed, const std::vector<uint32_t>& scope, std::vector<uint32_t>& index,
             std::vector<uint32_t>& component, uint32_t& next) {
    struct Frame {
        uint32_t node, low, choice, branch;
    };
    std::vector<Frame> frames;
    std::vector<uint32_t> stack;
    uint32_t clock = 0;
    for (uint32_t v : scope) index[v] = 0;  // nodes outside of the scope keep UNSET
    const auto enter = [&](uint32_t v) {
        index[v] = ++clock;
        stack.push_back(v);
        const uint32_t c = part.choice_start[v];
        frames.push_back({v, clock, c, c < part.choices() ? part.branch_start[c] : 0});
    };
    for (uint32_t root : scope) {
        if (index[root] != 0) continue;
        enter(root);
        while (!frames.empty()) {
            Frame& f = frames.back();
            bool descended = false;
            while (f.choice < part.choice_start[f.node + 1]) {
                if (!allowed[f.choice] || f.branch == part.branch_start[f.choice + 1]) {
                    f.branch = part.branch_start[++f.choice];
                    continue;
                }
                const uint32_t w = part.target[f.branch++];
                if (index[w] == 0) {
                    enter(w);
                    descended = true;
                    break;
                }
                f.low = std::min(f.low, index[w]);  // UNSET where w is finished or outside
            }
            if (descended) continue;
            const uint32_t v = f.node, low = f.low;
            frames.pop_back();
            if (!frames.empty()) frames.back().low = std::min(frames.back().low, low);
            if (low == index[v]) {
                uint32_t w;
                do {
                    w = stack.back();
                    stack.pop_back();
                    index[w] = UNSET;
                    component[w] = next;
                } while (w != v);
                ++next;
            }
        }
    }
}

}  // namespace

uint32_t greatest_closed_set(const Local& part, const Predecessors& back, std::vector<uint8_t>& allowed, std::vector<uint8_t>& inside) {
    std::vector<uint32_t> count(part.nodes(), 0), removed;
    for (uint32_t c = 0; c < part.choices(); ++c)
        if (allowed[c]) ++count[part.owner[c]];
    inside.assign(part.nodes(), 1);
    for (uint32_t v = 0; v < part.nodes(); ++v)
        if (count[v] == 0) {
            inside[v] = 0;
            removed.push_back(v);
        }
    remove_nodes(part, back, allowed, inside, count, removed);
    uint32_t size = 0;
    for (uint8_t x : inside) size += x;
    for (uint32_t c = 0; c < part.choices(); ++c)
        if (!inside[part.owner[c]]) allowed[c] = 0;
    return size;
}

uint32_t end_components(const Local& part, const Predecessors& back, std::vector<uint8_t>& allowed, std::vector<uint32_t>& component) {
    std::vector<uint8_t> inside;
    component.assign(part.nodes(), UNSET);
    if (greatest_closed_set(part, back, allowed, inside) == 0) return 0;
    std::vector<uint32_t> count(part.nodes(), 0), scope, removed, index(part.nodes(), UNSET);
    for (uint32_t c = 0; c < part.choices(); ++c)
        if (allowed[c]) ++count[part.owner[c]];
    for (uint32_t v = 0; v < part.nodes(); ++v)
        if (inside[v]) scope.push_back(v);
    uint32_t next = 0;
    while (!scope.empty()) {
        const uint32_t first = next;
        connect(part, allowed, scope, index, component, next);
        std::vector<uint8_t> torn(next - first, 0);
        for (uint32_t v : scope)
            for (uint32_t c = part.choice_start[v]; c < part.choice_start[v + 1]; ++c) {
                if (!allowed[c]) continue;
                for (uint32_t b = part.branch_start[c]; b < part.branch_start[c + 1]; ++b)
                    if (component[part.target[b]] != component[v]) {
                        allowed[c] = 0;
                        torn[component[v] - first] = 1;
                        if (--count[v] == 0) {
                            inside[v] = 0;
                            removed.push_back(v);
                        }
                        break;
                    }
            }
        remove_nodes(part, back, allowed, inside, count, removed);
        std::vector<uint32_t> again;
        for (uint32_t v : scope) {
            if (!inside[v]) component[v] = UNSET;
            else if (torn[component[v] - first]) again.push_back(v);
        }
        scope.swap(again);
    }
    std::vector<uint32_t> renumber(next, UNSET);
    uint32_t total = 0;
    for (uint32_t v = 0; v < part.nodes(); ++v) {
        if (component[v] == UNSET) continue;
        if (renumber[component[v]] == UNSET) renumber[component[v]] = total++;
        component[v] = renumber[component[v]];
    }
    for (uint32_t c = 0; c < part.choices(); ++c)
        if (!inside[part.owner[c]]) allowed[c] = 0;
    return total;
}

}  // namespace polvet
