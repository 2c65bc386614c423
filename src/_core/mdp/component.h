// One strongly connected component: what its graph decides, and the system of equations that is left.
//
// Source   Haddad & Monmege, Interval Iteration Algorithm for MDPs and IMDPs, TCS 735, 2018: end components and why they must be collapsed;
//          Bertsekas & Tsitsiklis, An Analysis of Stochastic Shortest Path Problems, MOR 16, 1991: minimal rewards.
// Differs  the questions that graph analysis answers (value 0, value 1, infinite) are answered from the exact values of the exits. Since the
//          component is strongly connected, three of them hold for all members or none: maximal probability 0, minimal probability 1,
//          maximal reward infinite.
// SOUND    what `numeric` hands to `iterate` has one solution: maximal probability: end components are nodes; minimal probability: where the goal
//          can be avoided the value is 0 and fixed; maximal reward: no end component; minimal reward: those without reward are nodes, any
//          other costs infinitely much, and choices that may miss the goal are dropped.
#pragma once
#include <algorithm>

#include "mdp/mdp.h"

namespace polvet::mdp {

// What the search knows of a state: 0 = not seen, below LOCAL = on the way, LOCAL | i = member i of the component at hand, DONE | level = settled.
inline constexpr u32 LOCAL = 0x40000000u, DONE = 0x80000000u;

class ComponentSolver {
public:
    ComponentSolver(const Problem& problem, std::vector<u32>& index, Bounds* value, u32* choice, Statistics& statistics, Poll& poll)
        : p_(problem), m_(problem.model), index_(index), value_(value), choice_(choice), statistics_(statistics), poll_(poll) {}

    // Bounds and choices for the members of one component whose exits are settled; `level` is its height above the bottom.
    void solve(const std::vector<u32>& members, u32 level) {
        ++statistics_.components;
        statistics_.largest = std::max<u64>(statistics_.largest, members.size());
        if (p_.reward == nullptr && !leads_to_anything(members)) {
            for (u32 s : members) {
                value_[s] = {0, 0};
                choice_[s] = 0;
            }
            return;
        }
        members_ = &members;
        build_part(members);
        const u32 n = part_.nodes(), choices = part_.choices();
        any_ = 0;
        inner_ = false;
        for (u8 f : part_.flags) {
            any_ |= f;
            inner_ |= !(f & LEAVES);
        }
        keep_.assign(choices, 1);
        fixed_.assign(n, -1.0);
        collapsed_.clear();
        mec_.clear();
        back_built_ = false;
        const bool settled = p_.reward == nullptr ? (p_.maximise ? greatest_probability() : least_probability())
                                                  : (p_.maximise ? greatest_reward() : least_reward());
        if (!settled) numeric(members, level, fixed_, keep_, collapsed_);
    }

private:
    // One function for each objective: it puts what the graph decides (`fixed_`), names the end components that become nodes
    // (`collapsed_`) and the choices that are left (`keep_`), and returns whether that settles every member.

    bool greatest_probability() {
        if (has_choice(LEAVES, NOT_ONE)) {
            allow_all_but(NOT_ONE);
            settle_almost_sure(1.0);
        }
        if (inner_) {
            allow_all_but(LEAVES);
            for (u32 c = 0; c < part_.choices(); ++c)
                if (fixed_[part_.owner[c]] >= 0) allowed_[c] = 0;
            collapse();
        }
        return false;
    }

    bool least_probability() {
        u32 zeros = 0;
        if (has_choice(0, NOT_ZERO)) {
            allow_all_but(NOT_ZERO);
            zeros = greatest_closed_set(part_, back_, allowed_, inside_);
            for (u32 v = 0; v < part_.nodes() && zeros; ++v)
                if (inside_[v]) {
                    u32 c = part_.choice_start[v];
                    while (!allowed_[c]) ++c;
                    settle(v, 0.0, c);
                }
        }
        if (zeros > 0 || (any_ & NOT_ONE)) return false;
        for (u32 v = 0; v < part_.nodes(); ++v) settle(v, 1.0, part_.choice_start[v]);
        return true;
    }

    bool greatest_reward() {
        u32 closed = 0;
        if (inner_) {
            allow_all_but(LEAVES);
            closed = greatest_closed_set(part_, back_, allowed_, inside_);
        }
        if (closed > 0 || (any_ & DIVERGES)) {
            backwards();
            if (closed == 0) inside_.clear();
            diverge(*members_, allowed_, inside_);
            return true;
        }
        if (any_ & (NOT_ZERO | REWARDED)) return false;
        for (u32 v = 0; v < part_.nodes(); ++v) settle(v, 0.0, part_.choice_start[v]);
        return true;
    }

    bool least_reward() {
        allow_all_but(DIVERGES);
        almost_sure(allowed_, goal_choice_);
        bool idle = false;
        for (u32 c = 0; c < part_.choices(); ++c) {
            keep_[c] = allowed_[c];
            idle |= allowed_[c] && !(part_.flags[c] & (LEAVES | REWARDED));
        }
        for (u32 v = 0; v < part_.nodes(); ++v)
            if (goal_choice_[v] == NONE) settle(v, INFINITE, part_.choice_start[v]);
        if (has_choice(LEAVES, NOT_ZERO | REWARDED)) {  // leaves at no cost to where nothing costs any more
            allow_all_but(NOT_ZERO | REWARDED);
            settle_almost_sure(0.0);
        }
        if (idle) {
            for (u32 c = 0; c < part_.choices(); ++c)
                allowed_[c] = keep_[c] && fixed_[part_.owner[c]] < 0 && !(part_.flags[c] & (LEAVES | REWARDED));
            collapse();
        }
        return false;
    }

    // Whether some choice has all of the flags `with` and none of `without`.
    bool has_choice(u8 with, u8 without) const {
        for (u8 f : part_.flags)
            if ((f & with) == with && !(f & without)) return true;
        return false;
    }

    void backwards() {
        if (!back_built_) back_.build(part_);
        back_built_ = true;
    }

    void allow_all_but(u8 except) {
        backwards();
        allowed_.resize(part_.choices());
        for (u32 c = 0; c < part_.choices(); ++c) allowed_[c] = !(part_.flags[c] & except);
    }

    void settle(u32 v, double value, u32 choice) {
        fixed_[v] = value;
        put(*members_, v, {value, value}, choice);
    }

    void settle_almost_sure(double value) {
        if (almost_sure(allowed_, goal_choice_) == 0) return;
        for (u32 v = 0; v < part_.nodes(); ++v)
            if (goal_choice_[v] != NONE) settle(v, value, goal_choice_[v]);
    }

    void collapse() {
        if (end_components(part_, back_, allowed_, mec_) > 0) collapsed_.assign(allowed_.begin(), allowed_.end());
    }

    bool is_cut(u64 c) const { return p_.cut != nullptr && p_.cut[c].lo >= 0; }

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
        if (mass == 0) return;  // stays in the node for ever: never optimal here, see `solve`
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
    void numeric(const std::vector<u32>& members, u32 level, const std::vector<double>& fixed, const std::vector<u8>& keep,
                 const std::vector<u32>& collapsed) {
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
                    if (keep[c] && (collapsed.empty() || !collapsed[c]))
                        add_row(first + c - part_.choice_start[list[j]], c, i, node, fixed);
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
    void lead_to(const std::vector<u32>& members, const std::vector<u32>& list, u32 first, u32 last, u32 exit, Bounds v,
                 const std::vector<u32>& collapsed) {
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
    std::vector<u32>& index_;
    Bounds* value_;
    u32* choice_;
    Statistics& statistics_;
    Poll& poll_;
    // Of the component at hand.
    const std::vector<u32>* members_ = nullptr;
    u8 any_ = 0;          // the flags of all choices together
    bool inner_ = false;  // some choice stays
    bool back_built_ = false;
    std::vector<u8> allowed_, inside_, keep_;
    std::vector<double> fixed_;  // below 0: open
    std::vector<u32> collapsed_, goal_choice_, mec_, via_;
    Local part_;
    Predecessors back_;
    System system_;
};

}  // namespace polvet::mdp
