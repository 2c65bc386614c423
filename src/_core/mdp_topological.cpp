// Reachability probabilities and expected rewards, one strongly connected component after the other, bottom up, in one search.
//
// Source   Dai, Mausam, Weld & Goldsmith, Topological Value Iteration Algorithms, JAIR 42, 2011; end components as in Haddad & Monmege,
//          Interval Iteration Algorithm for MDPs and IMDPs, TCS 735, 2018. Tarjan's search is `search`, the acyclic case `settle`.
// Differs  the questions that graph analysis answers (value 0, value 1, infinite) are answered inside each component from the exact values of
//          its exits, so no backward index of the whole model is built; a state outside all cycles is settled when the search leaves it.
// Cost     linear but for the components that are iterated; 26 bytes per state beside the model.
#include <algorithm>

#include "mdp.hpp"

namespace polvet::mdp {
namespace {

constexpr u32 LOCAL = 0x40000000u, DONE = 0x80000000u;

struct Frame {
    u32 state, low, level;
    bool loop;
    u64 next, end;
};

class Solver {
  public:
    Solver(const Problem& problem, Bounds* value, u32* choice, Statistics& statistics, Poll& poll)
        : p_(problem), m_(problem.model), value_(value), choice_(choice), statistics_(statistics), poll_(poll), index_(m_.states, 0) {
        for (u32 s = 0; s < m_.states; ++s)
            if (p_.stop[s] != 0) {
                index_[s] = DONE;
                choice_[s] = NONE;
                const double end = p_.reward ? (p_.stop[s] == 1 ? 0.0 : INFINITE) : (p_.stop[s] == 1 ? 1.0 : 0.0);
                value_[s] = {end, end};
            }
    }

    void search(u32 root) {
        if (index_[root] == 0) enter(root);
        while (!frames_.empty()) {
            Frame& f = frames_.back();
            bool descended = false;
            while (f.next < f.end) {
                const u32 t = m_.target[f.next++];
                const u32 i = index_[t];
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
    void enter(u32 s) {
        if (poll_.expired()) statistics_.limit = true;
        index_[s] = ++clock_;
        frames_.push_back({s, clock_, 0, false, m_.first_branch(s), m_.last_branch(s)});
    }

    void leave() {
        const Frame f = frames_.back();
        frames_.pop_back();
        const u32 entered = index_[f.state];
        if (f.low != entered) {
            stack_.push_back(f.state);
            Frame& parent = frames_.back();
            parent.low = std::min(parent.low, f.low);
            parent.level = std::max(parent.level, f.level);
            return;
        }
        u32 level = f.level;
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
            std::vector<u32> members(first, stack_.end());
            members.push_back(f.state);
            stack_.erase(first, stack_.end());
            ++level;
            component(members, level);
            for (u32 s : members) index_[s] = DONE | level;
        }
        if (!frames_.empty()) frames_.back().level = std::max(frames_.back().level, level);
    }

    bool is_cut(u64 c) const { return p_.cut != nullptr && p_.cut[c].lo >= 0; }

    // The value of one choice of a state whose other successors are settled; `self` is the probability to stay where the state has a loop.
    Bounds worth(u32 s, u64 c, bool loop, bool& stays) const {
        stays = false;
        if (is_cut(c)) return p_.cut[c];
        const double reward = p_.reward ? p_.reward[c] : 0.0;
        const u64 first = m_.branch_start[c], last = m_.branch_start[c + 1];
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
            for (u64 b = first; b < last; ++b) {
                const Bounds v = value_[m_.target[b]];
                lo += m_.probability[b] * v.lo;
                hi += m_.probability[b] * v.hi;
            }
        } else {
            for (u64 b = first; b < last; ++b) {
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
        double terms = static_cast<double>(last - first);
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

    template <class Test>
    bool each(u32 s, u64 c, Test test) const {
        for (u64 b = m_.branch_start[c]; b < m_.branch_start[c + 1]; ++b)
            if (m_.target[b] != s && !test(value_[m_.target[b]])) return false;
        return true;
    }

    void settle(u32 s, bool loop) {
        const u64 first = m_.choice_start[s], last = m_.choice_start[s + 1];
        const double worst = p_.reward ? INFINITE : 0.0;
        Bounds best{worst, worst};
        u32 chosen = NONE;
        for (u64 c = first; c < last; ++c) {
            bool stays;
            Bounds v = worth(s, c, loop, stays);
            if (stays) {
                // Staying for ever is worth 0 (probability) or infinitely much (reward): good for one side only, never needed by the other.
                if (p_.maximise == (p_.reward == nullptr)) continue;
                v = {worst, worst};
            }
            if (chosen == NONE) {
                best = v;
                chosen = static_cast<u32>(c - first);
            } else if (p_.maximise) {
                if (v.lo > best.lo || (v.lo == best.lo && v.hi > best.hi)) chosen = static_cast<u32>(c - first);
                best = {std::max(best.lo, v.lo), std::max(best.hi, v.hi)};
            } else {
                if (v.hi < best.hi || (v.hi == best.hi && v.lo < best.lo)) chosen = static_cast<u32>(c - first);
                best = {std::min(best.lo, v.lo), std::min(best.hi, v.hi)};
            }
        }
        if (chosen == NONE && first < last) chosen = 0;
        value_[s] = best;
        choice_[s] = chosen;
    }

    // Whether some branch leaves the component to a state that is worth something.
    bool leads_to_anything(const std::vector<u32>& members) const {
        for (u32 s : members) {
            for (u64 b = m_.first_branch(s); b < m_.last_branch(s); ++b)
                if ((index_[m_.target[b]] & DONE) && value_[m_.target[b]].hi > 0) return true;
            if (p_.cut != nullptr)
                for (u64 c = m_.choice_start[s]; c < m_.choice_start[s + 1]; ++c)
                    if (p_.cut[c].hi > 0) return true;
        }
        return false;
    }

    void build_part(const std::vector<u32>& members) {
        part_.clear();
        u64 choices = 0, branches = 0;
        for (u32 i = 0; i < members.size(); ++i) {
            index_[members[i]] = LOCAL | i;
            choices += m_.choice_start[members[i] + 1] - m_.choice_start[members[i]];
            branches += m_.last_branch(members[i]) - m_.first_branch(members[i]);
        }
        part_.choice_start.resize(members.size() + 1);
        part_.branch_start.resize(choices + 1);
        part_.owner.resize(choices);
        part_.flags.resize(choices);
        part_.target.resize(branches);
        u32 choice = 0, inner = 0;
        for (u32 i = 0; i < members.size(); ++i) {
            part_.choice_start[i] = choice;
            for (u64 c = m_.choice_start[members[i]]; c < m_.choice_start[members[i] + 1]; ++c) {
                u8 flags = 0;
                if (is_cut(c)) flags = LEAVES | (p_.cut[c].hi > 0 ? NOT_ZERO : 0) | (p_.cut[c].lo < 1 ? NOT_ONE : 0);
                if (p_.reward != nullptr && p_.reward[c] != 0.0) flags |= REWARDED;
                for (u64 b = m_.branch_start[c]; b < m_.branch_start[c + 1]; ++b) {
                    const u32 t = m_.target[b], place = index_[t];
                    if (place & LOCAL) {
                        part_.target[inner++] = place & ~LOCAL;
                    } else {
                        const Bounds v = value_[t];
                        flags |= LEAVES | (v.hi > 0 ? NOT_ZERO : 0) | (v.lo < 1 ? NOT_ONE : 0) | (v.lo == INFINITE ? DIVERGES : 0);
                    }
                }
                part_.owner[choice] = i;
                part_.flags[choice++] = flags;
                part_.branch_start[choice] = inner;
            }
        }
        part_.choice_start[members.size()] = choice;
        part_.target.resize(inner);
    }

    void put(const std::vector<u32>& members, u32 i, Bounds v, u32 local_choice) {
        value_[members[i]] = v;
        choice_[members[i]] = local_choice - part_.choice_start[i];
    }

    // The states that reach a good exit (an allowed choice that leaves) almost surely, with the choice to take; `allowed` shrinks to what stays.
    // Rounds of: drop what cannot stay (linear, cascading), then drop what cannot reach an exit any more.
    u32 almost_sure(std::vector<u8>& allowed, std::vector<u32>& via) {
        const u32 n = part_.nodes();
        std::vector<u32> queue;
        std::vector<u8> inside;
        for (;;) {
            const u32 stay = greatest_closed_set(part_, back_, allowed, inside);
            via.assign(n, NONE);
            if (stay == 0) return 0;
            queue.clear();
            for (u32 c = 0; c < part_.choices(); ++c)
                if (allowed[c] && (part_.flags[c] & LEAVES) && via[part_.owner[c]] == NONE) {
                    via[part_.owner[c]] = c;
                    queue.push_back(part_.owner[c]);
                }
            for (std::size_t i = 0; i < queue.size() && queue.size() < stay; ++i)
                for (u32 j = back_.start[queue[i]]; j < back_.start[queue[i] + 1]; ++j) {
                    const u32 c = back_.choice[j], v = part_.owner[c];
                    if (allowed[c] && via[v] == NONE) {
                        via[v] = c;
                        queue.push_back(v);
                    }
                }
            if (queue.size() == stay) return stay;
            for (u32 v = 0; v < n; ++v)
                if (inside[v] && via[v] == NONE)
                    for (u32 c = part_.choice_start[v]; c < part_.choice_start[v + 1]; ++c) allowed[c] = 0;
        }
    }

    // Where everything is infinite: a choice that keeps it so (towards a closed set or an infinite exit).
    void diverge(const std::vector<u32>& members, const std::vector<u8>& closed, const std::vector<u8>& inside) {
        std::vector<u32> via(part_.nodes(), NONE), queue;
        for (u32 c = 0; c < part_.choices(); ++c) {
            const u32 v = part_.owner[c];
            if (via[v] == NONE && ((part_.flags[c] & DIVERGES) || (!inside.empty() && inside[v] && closed[c]))) {
                via[v] = c;
                queue.push_back(v);
            }
        }
        for (std::size_t i = 0; i < queue.size(); ++i)
            for (u32 j = back_.start[queue[i]]; j < back_.start[queue[i] + 1]; ++j) {
                const u32 c = back_.choice[j];
                if (via[part_.owner[c]] == NONE) {
                    via[part_.owner[c]] = c;
                    queue.push_back(part_.owner[c]);
                }
            }
        for (u32 v = 0; v < part_.nodes(); ++v) put(members, v, {INFINITE, INFINITE}, via[v]);
    }

    void component(const std::vector<u32>& members, u32 level) {
        ++statistics_.components;
        statistics_.largest = std::max<u64>(statistics_.largest, members.size());
        if (p_.reward == nullptr && !leads_to_anything(members)) {
            for (u32 s : members) {
                value_[s] = {0, 0};
                choice_[s] = 0;
            }
            return;
        }
        build_part(members);
        const u32 n = part_.nodes(), choices = part_.choices();
        u8 any = 0;
        bool inner = false;
        for (u8 f : part_.flags) {
            any |= f;
            inner |= !(f & LEAVES);
        }
        std::vector<u8> allowed, inside, keep(choices, 1);
        std::vector<double> fixed(n, -1.0);
        std::vector<u32> collapsed, via;
        bool back_built = false;
        const auto backwards = [&] {
            if (!back_built) back_.build(part_);
            back_built = true;
        };
        const auto inner_choices = [&](u8 except) {
            allowed.resize(choices);
            for (u32 c = 0; c < choices; ++c) allowed[c] = !(part_.flags[c] & except);
        };
        mec_.clear();
        if (p_.reward == nullptr && p_.maximise) {
            bool sure = false;
            for (u8 f : part_.flags) sure |= (f & LEAVES) && !(f & NOT_ONE);
            if (sure) {
                backwards();
                inner_choices(NOT_ONE);
                if (almost_sure(allowed, via) > 0)
                    for (u32 v = 0; v < n; ++v)
                        if (via[v] != NONE) {
                            fixed[v] = 1.0;
                            put(members, v, {1, 1}, via[v]);
                        }
            }
            if (inner) {
                backwards();
                inner_choices(LEAVES);
                for (u32 c = 0; c < choices; ++c)
                    if (fixed[part_.owner[c]] >= 0) allowed[c] = 0;
                if (end_components(part_, back_, allowed, mec_) > 0) collapsed.assign(allowed.begin(), allowed.end());
            }
        } else if (p_.reward == nullptr) {
            bool avoidable = false;
            for (u8 f : part_.flags) avoidable |= !(f & NOT_ZERO);
            u32 zeros = 0;
            if (avoidable) {
                backwards();
                inner_choices(NOT_ZERO);
                zeros = greatest_closed_set(part_, back_, allowed, inside);
                for (u32 v = 0; v < n && zeros; ++v)
                    if (inside[v]) {
                        fixed[v] = 0.0;
                        u32 c = part_.choice_start[v];
                        while (!allowed[c]) ++c;
                        put(members, v, {0, 0}, c);
                    }
            }
            if (zeros == 0 && !(any & NOT_ONE)) {
                for (u32 v = 0; v < n; ++v) put(members, v, {1, 1}, part_.choice_start[v]);
                return;
            }
        } else if (p_.maximise) {
            u32 closed = 0;
            if (inner) {
                backwards();
                inner_choices(LEAVES);
                closed = greatest_closed_set(part_, back_, allowed, inside);
            }
            if (closed > 0 || (any & DIVERGES)) {
                backwards();
                if (closed == 0) inside.clear();
                diverge(members, allowed, inside);
                return;
            }
            if (!(any & (NOT_ZERO | REWARDED))) {
                for (u32 v = 0; v < n; ++v) put(members, v, {0, 0}, part_.choice_start[v]);
                return;
            }
        } else {
            backwards();
            inner_choices(DIVERGES);
            almost_sure(allowed, via);
            bool idle = false;
            for (u32 c = 0; c < choices; ++c) {
                keep[c] = allowed[c];
                idle |= allowed[c] && !(part_.flags[c] & (LEAVES | REWARDED));
            }
            for (u32 v = 0; v < n; ++v)
                if (via[v] == NONE) {
                    fixed[v] = INFINITE;
                    put(members, v, {INFINITE, INFINITE}, part_.choice_start[v]);
                }
            bool free = false;  // some choice leaves at no cost to where nothing costs any more
            for (u8 f : part_.flags) free |= (f & LEAVES) && !(f & (NOT_ZERO | REWARDED));
            if (free) {
                inner_choices(NOT_ZERO | REWARDED);
                if (almost_sure(allowed, via) > 0)
                    for (u32 v = 0; v < n; ++v)
                        if (via[v] != NONE) {
                            fixed[v] = 0.0;
                            put(members, v, {0, 0}, via[v]);
                        }
            }
            if (idle) {
                for (u32 c = 0; c < choices; ++c) allowed[c] = keep[c] && fixed[part_.owner[c]] < 0 && !(part_.flags[c] & (LEAVES | REWARDED));
                if (end_components(part_, back_, allowed, mec_) > 0) collapsed.assign(allowed.begin(), allowed.end());
            }
        }
        numeric(members, level, fixed, keep, collapsed);
    }

    // Adds choice c of node i to the system, divided by the probability to leave the node.
    void add_row(u64 c, u32 local, u32 i, const std::vector<u32>& node, const std::vector<double>& fixed) {
        Bounds constant{0, 0};
        double mass = 0, leave = 0;
        bool self = false;
        const std::size_t before = system_.target.size();
        if (is_cut(c)) {
            constant = p_.cut[c];
            mass = leave = 1;
        }
        for (u64 b = m_.branch_start[c]; b < m_.branch_start[c + 1]; ++b) {
            const u32 t = m_.target[b], place = index_[t];
            const double q = m_.probability[b];
            if (!(place & LOCAL)) {
                leave += q;
                constant.lo += q * value_[t].lo;
                constant.hi += q * value_[t].hi;
            } else if (const u32 w = node[place & ~LOCAL]; w == i) {
                self = true;
                continue;
            } else if (w == NONE) {
                leave += q;
                constant.lo += q * fixed[place & ~LOCAL];
                constant.hi += q * fixed[place & ~LOCAL];
            } else {
                system_.target.push_back(w);
                system_.probability.push_back(q);
            }
            mass += q;
        }
        if (mass == 0) return;  // stays in the node for ever: never optimal here, see `component`
        if (p_.reward != nullptr) {
            constant.lo += p_.reward[c];
            constant.hi += p_.reward[c];
        }
        double terms = static_cast<double>(m_.branch_start[c + 1] - m_.branch_start[c]) + 2;
        if (self) {
            // SOUND: the exact row sums to 1, so `mass` is 1 - p(self) to (terms) units.
            constant.lo /= mass;
            constant.hi /= mass;
            leave /= mass;
            for (std::size_t b = before; b < system_.target.size(); ++b) system_.probability[b] /= mass;
            terms = 2 * terms + 2;
        }
        system_.constant.push_back(constant);
        system_.middle.push_back(0.5 * (constant.lo + constant.hi));
        system_.terms.push_back(terms);
        system_.leave.push_back(leave);
        system_.origin.push_back(local);
        system_.branch_start.push_back(static_cast<u32>(system_.target.size()));
    }

    // Solves what graph analysis left open: states of one end component become one node, fixed states become constants.
    void numeric(const std::vector<u32>& members, u32 level, const std::vector<double>& fixed, const std::vector<u8>& keep, const std::vector<u32>& collapsed) {
        const u32 n = part_.nodes();
        std::vector<u32> node(n, NONE), of_mec(mec_.size() ? n : 0, NONE), start, list;
        u32 nodes = 0;
        for (u32 v = 0; v < n; ++v) {
            if (fixed[v] >= 0) continue;
            if (!collapsed.empty() && mec_[v] != NONE) {
                if (of_mec[mec_[v]] == NONE) of_mec[mec_[v]] = nodes++;
                node[v] = of_mec[mec_[v]];
            } else {
                node[v] = nodes++;
            }
        }
        if (nodes == 0) return;
        start.assign(nodes + 1, 0);
        for (u32 v = 0; v < n; ++v)
            if (node[v] != NONE) ++start[node[v] + 1];
        for (u32 i = 0; i < nodes; ++i) start[i + 1] += start[i];
        list.resize(start[nodes]);
        {
            std::vector<u32> fill(start.begin(), start.end() - 1);
            for (u32 v = 0; v < n; ++v)
                if (node[v] != NONE) list[fill[node[v]]++] = v;
        }
        system_.clear();
        for (u32 i = 0; i < nodes; ++i) {
            for (u32 j = start[i]; j < start[i + 1]; ++j) {
                const u64 first = m_.choice_start[members[list[j]]];
                for (u32 c = part_.choice_start[list[j]]; c < part_.choice_start[list[j] + 1]; ++c)
                    if (keep[c] && (collapsed.empty() || !collapsed[c])) add_row(first + c - part_.choice_start[list[j]], c, i, node, fixed);
            }
            system_.choice_start.push_back(static_cast<u32>(system_.origin.size()));
        }
        std::vector<Bounds> value;
        std::vector<u32> best;
        const double share = std::max(0.9 * p_.gap / (static_cast<double>(level) * (level + 1.0)), 1e-13);
        const double ceiling = p_.reward ? INFINITE : 1.0;
        if (!iterate(system_, p_.maximise, share, ceiling, value, best, statistics_, poll_)) statistics_.limit |= poll_.over();
        for (u32 i = 0; i < nodes; ++i) {
            const u32 c = system_.origin[best[i]];
            if (start[i + 1] - start[i] > 1) lead_to(members, list, start[i], start[i + 1], part_.owner[c], value[i], collapsed);
            put(members, part_.owner[c], value[i], c);
        }
    }

    // Inside a collapsed end component every other state walks towards the one that takes the leaving choice.
    void lead_to(const std::vector<u32>& members, const std::vector<u32>& list, u32 first, u32 last, u32 exit, Bounds v, const std::vector<u32>& collapsed) {
        via_.resize(part_.nodes(), NONE);
        for (u32 j = first; j < last; ++j) via_[list[j]] = NONE;
        std::vector<u32> queue{exit};
        via_[exit] = 0;
        for (std::size_t i = 0; i < queue.size(); ++i)
            for (u32 j = back_.start[queue[i]]; j < back_.start[queue[i] + 1]; ++j) {
                const u32 c = back_.choice[j], w = part_.owner[c];
                if (collapsed[c] && w != exit && mec_[w] == mec_[exit] && via_[w] == NONE) {
                    via_[w] = c;
                    queue.push_back(w);
                    put(members, w, v, c);
                }
            }
    }

    const Problem& p_;
    const View m_;
    Bounds* value_;
    u32* choice_;
    Statistics& statistics_;
    Poll& poll_;
    std::vector<u32> index_, stack_, mec_, via_;
    std::vector<Frame> frames_;
    Local part_;
    Predecessors back_;
    System system_;
    u32 clock_ = 0;
};

}  // namespace

void solve_topologically(const Problem& problem, const u32* roots, u64 root_count, Bounds* value, u32* choice, Statistics& statistics, Poll& poll) {
    Solver solver(problem, value, choice, statistics, poll);
    for (u64 i = 0; i < root_count; ++i) solver.search(roots[i]);
}

}  // namespace polvet::mdp
