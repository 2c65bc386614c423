// Questions about permitted options; see mdp/permitted.h.
#include "mdp/permitted.h"

#include <algorithm>
#include <random>

namespace polvet {

void reach_permitted(const OptionModel& model, const uint8_t* permitted, const std::vector<uint32_t>& initial, uint8_t* reached) {
    std::fill_n(reached, model.mdp.states, uint8_t{0});
    std::vector<uint32_t> stack;
    const auto reach = [&](uint32_t s) {
        if (reached[s]) return;
        reached[s] = 1;
        stack.push_back(s);
    };
    for (const uint32_t s : initial) reach(s);
    while (!stack.empty()) {
        const uint32_t s = stack.back();
        stack.pop_back();
        for (uint64_t o = model.first(s); o < model.first(s + 1); ++o)
            if (permitted[o]) model.each_target(o, reach);
    }
}

bool least_risk_game(const OptionModel& model, double* value, uint32_t* best, Poll& poll) {
    const View& mdp = model.mdp;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint64_t k = model.mdp.states; k-- > 0;) {
            const uint64_t begin = model.option_start[k], end = model.option_start[k + 1];
            if (begin == end) continue;
            double low = INFINITE;
            for (uint64_t o = begin; o < end; ++o) {
                double worst = 0;
                for (uint64_t c = model.option_choice[o]; c < model.option_choice[o + 1]; ++c) {
                    double sum = 0;
                    for (uint64_t b = mdp.branch_start[c]; b < mdp.branch_start[c + 1]; ++b)
                        sum += mdp.probability[b] * value[mdp.target[b]];
                    worst = std::max(worst, down(sum, double(mdp.branch_start[c + 1] - mdp.branch_start[c])));
                }
                if (worst < low) low = worst, best[k] = uint32_t(o);
            }
            if (low > value[k]) {
                changed |= low > value[k] + (1e-14 * value[k] + 1e-300);
                value[k] = low;
            }
            if (poll.expired(end - begin)) return false;
        }
    }
    return true;
}

uint64_t learn_quality(const OptionModel& model, const uint8_t* permitted, const std::vector<uint32_t>& initial, const double* cost,
                       double* quality, uint64_t* seen, const Episodes& episodes, Poll& poll) {
    const View& mdp = model.mdp;
    std::mt19937_64 random(episodes.seed);
    std::uniform_real_distribution<double> unit(0.0, 1.0);
    uint64_t steps = 0;
    const auto lowest = [&](uint32_t s) {
        double low = INFINITE;
        for (uint64_t o = model.option_start[s]; o < model.option_start[s + 1]; ++o)
            if (permitted[o]) low = std::min(low, quality[o]);
        return low == INFINITE ? 0.0 : low;
    };
    for (uint64_t episode = 0; episode < episodes.count; ++episode) {
        uint32_t s = initial[episode % initial.size()];
        for (uint64_t step = 0; step < episodes.longest; ++step) {
            uint64_t count = 0, chosen = 0;
            const double low = lowest(s);
            const bool any = unit(random) < episodes.explore;
            for (uint64_t o = model.option_start[s]; o < model.option_start[s + 1]; ++o)
                if (permitted[o] && (any || quality[o] <= low) && random() % ++count == 0) chosen = o;
            if (count == 0) break;
            const uint64_t begin = model.option_choice[chosen], width = model.option_choice[chosen + 1] - begin;
            const uint64_t c = begin + (width > 1 ? random() % width : 0);
            double draw = unit(random);
            uint64_t b = mdp.branch_start[c];
            while (b + 1 < mdp.branch_start[c + 1] && draw >= mdp.probability[b]) draw -= mdp.probability[b++];
            const uint32_t next = mdp.target[b];
            const double rate = 1.0 / (1.0 + 0.05 * double(++seen[c]));
            quality[chosen] += rate * (cost[c] + lowest(next) - quality[chosen]);
            s = next;
            ++steps;
            if (poll.expired(16)) return steps;
        }
    }
    return steps;
}

}  // namespace polvet
