// Where a probability is exactly 0 or 1, and the strongly connected components of a whole model: graph questions only.
//
// Source   Baier & Katoen, Principles of Model Checking, section 10.6.1: Algorithms 45 and 46 are `probability_one` and `probability_zero`.
// Cost     linear, but probability_one of the maximum: linear per round, at most as many rounds as states.
#include <algorithm>

#include "mdp/bounded.h"

namespace polvet {

BackwardIndex::BackwardIndex(const View& m) : start(m.states + 1, 0) {
    const uint64_t choices = m.choice_start[m.states], branches = m.branch_start[choices];
    for (uint64_t b = 0; b < branches; ++b) ++start[m.target[b] + 1];
    for (uint32_t s = 0; s < m.states; ++s) start[s + 1] += start[s];
    choice.resize(branches);
    owner.resize(choices);
    std::vector<uint64_t> fill(start.begin(), start.end() - 1);
    for (uint32_t s = 0; s < m.states; ++s)
        for (uint64_t c = m.choice_start[s]; c < m.choice_start[s + 1]; ++c) {
            owner[c] = s;
            for (uint64_t b = m.branch_start[c]; b < m.branch_start[c + 1]; ++b) choice[fill[m.target[b]]++] = uint32_t(c);
        }
}

void probability_zero(const View& m, const BackwardIndex& back, const uint8_t* safe, const uint8_t* goal, bool maximise, uint8_t* result) {
    // Positive: least set with the goal, and every safe state of which one choice (maximum) or every choice (minimum) may enter it.
    std::vector<uint32_t> queue;
    std::vector<uint64_t> open(m.states);
    std::vector<uint8_t> hit(back.owner.size(), 0);
    for (uint32_t s = 0; s < m.states; ++s) {
        open[s] = m.choice_start[s + 1] - m.choice_start[s];
        result[s] = !goal[s];
        if (goal[s]) queue.push_back(s);
    }
    while (!queue.empty()) {
        const uint32_t t = queue.back();
        queue.pop_back();
        for (uint64_t i = back.start[t]; i < back.start[t + 1]; ++i) {
            const uint32_t c = back.choice[i], s = back.owner[c];
            if (!result[s] || !safe[s] || hit[c]) continue;
            hit[c] = 1;
            if (maximise || --open[s] == 0) {
                result[s] = 0;
                queue.push_back(s);
            }
        }
    }
}

void probability_one(const View& m, const BackwardIndex& back, const uint8_t* safe, const uint8_t* goal, bool maximise, uint8_t* result) {
    std::vector<uint32_t> queue;
    if (!maximise) {
        // Not one under some scheduler: a path, before the goal, to where the minimum is zero.
        probability_zero(m, back, safe, goal, false, result);
        for (uint32_t s = 0; s < m.states; ++s)
            if (result[s]) queue.push_back(s);
        while (!queue.empty()) {
            const uint32_t t = queue.back();
            queue.pop_back();
            for (uint64_t i = back.start[t]; i < back.start[t + 1]; ++i) {
                const uint32_t s = back.owner[back.choice[i]];
                if (result[s] || goal[s]) continue;
                result[s] = 1;
                queue.push_back(s);
            }
        }
        for (uint32_t s = 0; s < m.states; ++s) result[s] = !result[s];
        return;
    }
    std::vector<uint8_t> usable(back.owner.size(), 1), reached(m.states);
    for (uint32_t s = 0; s < m.states; ++s) result[s] = 1;
    for (;;) {
        std::fill(reached.begin(), reached.end(), 0);
        for (uint32_t s = 0; s < m.states; ++s)
            if (goal[s]) {
                reached[s] = 1;
                queue.push_back(s);
            }
        while (!queue.empty()) {
            const uint32_t t = queue.back();
            queue.pop_back();
            for (uint64_t i = back.start[t]; i < back.start[t + 1]; ++i) {
                const uint32_t c = back.choice[i], s = back.owner[c];
                if (!usable[c] || reached[s] || !safe[s]) continue;
                reached[s] = 1;
                queue.push_back(s);
            }
        }
        bool changed = false;
        for (uint32_t s = 0; s < m.states; ++s) {
            if (reached[s] || !result[s]) continue;
            changed = true;
            result[s] = 0;
            for (uint64_t i = back.start[s]; i < back.start[s + 1]; ++i) usable[back.choice[i]] = 0;
        }
        if (!changed) return;
    }
}

uint32_t connected_components(const View& m, uint32_t* component, Poll& poll) {
    struct Frame {
        uint32_t state, low;
        uint64_t next, end;
    };
    std::vector<Frame> frames;
    std::vector<uint32_t> index(m.states, 0), stack;
    uint32_t clock = 0, count = 0;
    const auto enter = [&](uint32_t s) {
        index[s] = ++clock;
        stack.push_back(s);
        frames.push_back({s, clock, m.first_branch(s), m.last_branch(s)});
        poll.expired();
    };
    for (uint32_t root = 0; root < m.states; ++root) {
        if (index[root] != 0) continue;
        enter(root);
        while (!frames.empty()) {
            Frame& f = frames.back();
            if (f.next < f.end) {
                const uint32_t t = m.target[f.next++];
                if (index[t] == 0) enter(t);
                else f.low = std::min(f.low, index[t]);
                continue;
            }
            const uint32_t s = f.state, low = f.low;
            frames.pop_back();
            if (!frames.empty()) frames.back().low = std::min(frames.back().low, low);
            if (low != index[s]) continue;
            uint32_t t;
            do {
                t = stack.back();
                stack.pop_back();
                index[t] = UNSET;
                component[t] = count;
            } while (t != s);
            ++count;
        }
    }
    return count;
}

}  // namespace polvet
