// Reachability probabilities and expected rewards, one strongly connected component after the other, bottom up, in one search.
//
// Source   Dai, Mausam, Weld & Goldsmith, Topological Value Iteration Algorithms, JAIR 42, 2011; end components as in Haddad & Monmege,
//          Interval Iteration Algorithm for MDPs and IMDPs, TCS 735, 2018. Tarjan's search is `search`, the acyclic case `settle`.
// Differs  the questions that graph analysis answers (value 0, value 1, infinite) are answered inside each component from the exact values of
//          its exits, so no backward index of the whole model is built; a state outside all cycles is settled when the search leaves it.
// Cost     linear but for the components that are iterated; 26 bytes per state beside the model.
#include <algorithm>

#include "mdp/component.h"
#include "mdp/mdp.h"

namespace polvet {
namespace {

struct Frame {
    uint32_t state, low, level;
    bool loop;
    uint64_t next, end;
};

class Solver {
public:
    Solver(const Problem& problem, Bounds* value, uint32_t* choice, Statistics& statistics, Poll& poll)
        : p_(problem),
          m_(problem.model),
          value_(value),
          choice_(choice),
          statistics_(statistics),
          poll_(poll),
          index_(m_.states, 0),
          component_(problem, index_, value, choice, statistics, poll) {
        for (uint32_t s = 0; s < m_.states; ++s)
            if (p_.stop[s] != 0) {
                index_[s] = DONE;
                choice_[s] = UNSET;
                const double end = p_.reward ? (p_.stop[s] == 1 ? 0.0 : INFINITE) : (p_.stop[s] == 1 ? 1.0 : 0.0);
                value_[s] = {end, end};
            }
    }

    void search(uint32_t root) {
        if (index_[root] == 0) enter(root);
        while (!frames_.empty()) {
            Frame& f = frames_.back();
            bool descended = false;
            while (f.next < f.end) {
                const uint32_t t = m_.target[f.next++];
                const uint32_t i = index_[t];
                if (i == 0) {
                    enter(t);
                    descended = true;
                    break;
                }
                if (i & DONE) {
                    f.level = std::max(f.level, i & ~DONE);
                } else {
                    f.low = std::min(f.low, i);
                    f.loop |= t == f.state;
                }
            }
            if (!descended) leave();
        }
    }

private:
    void enter(uint32_t s) {
        if (poll_.expired()) statistics_.limit = true;
        index_[s] = ++clock_;
        frames_.push_back({s, clock_, 0, false, m_.first_branch(s), m_.last_branch(s)});
    }

    void leave() {
        const Frame f = frames_.back();
        frames_.pop_back();
        const uint32_t entered = index_[f.state];
        if (f.low != entered) {
            stack_.push_back(f.state);
            Frame& parent = frames_.back();
            parent.low = std::min(parent.low, f.low);
            parent.level = std::max(parent.level, f.level);
            return;
        }
        uint32_t level = f.level;
        if (stack_.empty() || index_[stack_.back()] < entered) {
            settle(f.state, f.loop);
            statistics_.loops |= f.loop;
            if (p_.order != nullptr) p_.order->push_back(f.state);
            index_[f.state] = DONE | level;
        } else {
            // The stack holds the states that were left and wait for their component, so members come in the order in which the search left
            // them: every branch but those that close a cycle leads to an earlier member.
            auto first = stack_.end();
            while (first != stack_.begin() && index_[*(first - 1)] > entered) --first;
            std::vector<uint32_t> members(first, stack_.end());
            members.push_back(f.state);
            stack_.erase(first, stack_.end());
            ++level;
            component_.solve(members, level);
            for (uint32_t s : members) index_[s] = DONE | level;
        }
        if (!frames_.empty()) frames_.back().level = std::max(frames_.back().level, level);
    }

    bool is_cut(uint64_t c) const { return p_.cut != nullptr && p_.cut[c].lo >= 0; }

    // The value of one choice of a state whose other successors are settled; `self` is the probability to stay where the state has a loop.
    Bounds worth(uint32_t s, uint64_t c, bool loop, bool& stays) const {
        stays = false;
        if (is_cut(c)) return p_.cut[c];
        const double reward = p_.reward ? p_.reward[c] : 0.0;
        const uint64_t first = m_.branch_start[c], last = m_.branch_start[c + 1];
        if (last - first == 1) {
            if (m_.target[first] == s) {
                stays = true;
                return {0, 0};
            }
            const Bounds v = value_[m_.target[first]];
            return reward == 0.0 ? v : Bounds{down(v.lo + reward, 1), up(v.hi + reward, 1)};
        }
        double lo = 0, hi = 0, mass = 0;
        bool self = false;
        if (!loop) {
            for (uint64_t b = first; b < last; ++b) {
                const Bounds v = value_[m_.target[b]];
                lo += m_.probability[b] * v.lo;
                hi += m_.probability[b] * v.hi;
            }
        } else {
            for (uint64_t b = first; b < last; ++b) {
                if (m_.target[b] == s) {
                    self = true;
                    continue;
                }
                const Bounds v = value_[m_.target[b]];
                mass += m_.probability[b];
                lo += m_.probability[b] * v.lo;
                hi += m_.probability[b] * v.hi;
            }
            if (mass == 0) {
                stays = true;
                return {0, 0};
            }
        }
        lo += reward;
        hi += reward;
        double terms = double(last - first);
        if (self) {
            // SOUND: the exact row sums to 1, so 1 - p(self) is the exact sum of the other probabilities, which `mass` has to (terms) units.
            lo /= mass;
            hi /= mass;
            terms *= 2;
        }
        Bounds v{down(lo, terms), up(hi, terms)};
        if (p_.reward == nullptr) {
            if (lo > 0.999999 && each(s, c, [](const Bounds& x) { return x.lo == 1.0; })) v.lo = 1.0;
            if (v.hi > 1.0) v.hi = 1.0;
        }
        if (hi < 1e-290 && reward == 0.0 && each(s, c, [](const Bounds& x) { return x.hi == 0.0; })) v.hi = 0.0;
        return v;
    }

    template <class Test> bool each(uint32_t s, uint64_t c, Test test) const {
        for (uint64_t b = m_.branch_start[c]; b < m_.branch_start[c + 1]; ++b)
            if (m_.target[b] != s && !test(value_[m_.target[b]])) return false;
        return true;
    }

    void settle(uint32_t s, bool loop) {
        const uint64_t first = m_.choice_start[s], last = m_.choice_start[s + 1];
        const double worst = p_.reward ? INFINITE : 0.0;
        Bounds best{worst, worst};
        uint32_t chosen = UNSET;
        for (uint64_t c = first; c < last; ++c) {
            bool stays;
            Bounds v = worth(s, c, loop, stays);
            if (stays) {
                // Staying for ever is worth 0 (probability) or infinitely much (reward): good for one side only, never needed by the other.
                if (p_.maximise == (p_.reward == nullptr)) continue;
                v = {worst, worst};
            }
            if (chosen == UNSET) {
                best = v;
                chosen = uint32_t(c - first);
            } else if (p_.maximise) {
                if (v.lo > best.lo || (v.lo == best.lo && v.hi > best.hi)) chosen = uint32_t(c - first);
                best = {std::max(best.lo, v.lo), std::max(best.hi, v.hi)};
            } else {
                if (v.hi < best.hi || (v.hi == best.hi && v.lo < best.lo)) chosen = uint32_t(c - first);
                best = {std::min(best.lo, v.lo), std::min(best.hi, v.hi)};
            }
        }
        if (chosen == UNSET && first < last) chosen = 0;
        value_[s] = best;
        choice_[s] = chosen;
    }

    const Problem& p_;
    const View m_;
    Bounds* value_;
    uint32_t* choice_;
    Statistics& statistics_;
    Poll& poll_;
    std::vector<uint32_t> index_, stack_;
    std::vector<Frame> frames_;
    ComponentSolver component_;
    uint32_t clock_ = 0;
};

}  // namespace

void solve_topologically(const Problem& problem, const uint32_t* roots, uint64_t root_count, Bounds* value, uint32_t* choice,
                         Statistics& statistics, Poll& poll) {
    Solver solver(problem, value, choice, statistics, poll);
    for (uint64_t i = 0; i < root_count; ++i) solver.search(roots[i]);
}

}  // namespace polvet
