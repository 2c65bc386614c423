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

namespace polvet {

// What the search knows of a state: 0 = not seen, below LOCAL = on the way, LOCAL | i = member i of the component at hand, DONE | level = settled.
inline constexpr uint32_t LOCAL = 0x40000000u, DONE = 0x80000000u;

class ComponentSolver {
public:
    ComponentSolver(const Problem& problem, std::vector<uint32_t>& index, Bounds* value, uint32_t* choice, Statistics& statistics,
                    Poll& poll)
        : p_(problem), m_(problem.model), index_(index), value_(value), choice_(choice), statistics_(statistics), poll_(poll) {}

    // Bounds and choices for the members of one component whose exits are settled; `level` is its height above the bottom.
    void solve(const std::vector<uint32_t>& members, uint32_t level) {
        ++statistics_.components;
        statistics_.largest = std::max<uint64_t>(statistics_.largest, members.size());
        if (p_.reward == nullptr && !leads_to_anything(members)) {
            for (uint32_t s : members) {
                value_[s] = {0, 0};
                choice_[s] = 0;
            }
            return;
        }
        members_ = &members;
        build_part(members);
        const uint32_t n = part_.nodes(), choices = part_.choices();
        any_ = 0;
        inner_ = false;
        for (uint8_t f : part_.flags) {
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
            for (uint32_t c = 0; c < part_.choices(); ++c)
                if (fixed_[part_.owner[c]] >= 0) allowed_[c] = 0;
            collapse();
        }
        return false;
    }

    bool least_probability() {
        uint32_t zeros = 0;
        if (has_choice(0, NOT_ZERO)) {
            allow_all_but(NOT_ZERO);
            zeros = greatest_closed_set(part_, back_, allowed_, inside_);
            for (uint32_t v = 0; v < part_.nodes() && zeros; ++v)
                if (inside_[v]) {
                    uint32_t c = part_.choice_start[v];
                    while (!allowed_[c]) ++c;
                    settle(v, 0.0, c);
                }
        }
        if (zeros > 0 || (any_ & NOT_ONE)) return false;
        for (uint32_t v = 0; v < part_.nodes(); ++v) settle(v, 1.0, part_.choice_start[v]);
        return true;
    }

    bool greatest_reward() {
        uint32_t closed = 0;
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
        for (uint32_t v = 0; v < part_.nodes(); ++v) settle(v, 0.0, part_.choice_start[v]);
        return true;
    }

    bool least_reward() {
        allow_all_but(DIVERGES);
        almost_sure(allowed_, goal_choice_);
        bool idle = false;
        for (uint32_t c = 0; c < part_.choices(); ++c) {
            keep_[c] = allowed_[c];
            idle |= allowed_[c] && !(part_.flags[c] & (LEAVES | REWARDED));
        }
        for (uint32_t v = 0; v < part_.nodes(); ++v)
            if (goal_choice_[v] == UNSET) settle(v, INFINITE, part_.choice_start[v]);
        if (has_choice(LEAVES, NOT_ZERO | REWARDED)) {  // leaves at no cost to where nothing costs any more
            allow_all_but(NOT_ZERO | REWARDED);
            settle_almost_sure(0.0);
        }
        if (idle) {
            for (uint32_t c = 0; c < part_.choices(); ++c)
                allowed_[c] = keep_[c] && fixed_[part_.owner[c]] < 0 && !(part_.flags[c] & (LEAVES | REWARDED));
            collapse();
        }
        return false;
    }

    // Whether some choice has all of the flags `with` and none of `without`.
    bool has_choice(uint8_t with, uint8_t without) const {
        for (uint8_t f : part_.flags)
            if ((f & with) == with && !(f & without)) return true;
        return false;
    }

    void backwards() {
        if (!back_built_) back_.build(part_);
        back_built_ = true;
    }

    void allow_all_but(uint8_t except) {
        backwards();
        allowed_.resize(part_.choices());
        for (uint32_t c = 0; c < part_.choices(); ++c) allowed_[c] = !(part_.flags[c] & except);
    }

    void settle(uint32_t v, double value, uint32_t choice) {
        fixed_[v] = value;
        put(*members_, v, {value, value}, choice);
    }

    void settle_almost_sure(double value) {
        if (almost_sure(allowed_, goal_choice_) == 0) return;
        for (uint32_t v = 0; v < part_.nodes(); ++v)
            if (goal_choice_[v] != UNSET) settle(v, value, goal_choice_[v]);
    }

    void collapse() {
        if (end_components(part_, back_, allowed_, mec_) > 0) collapsed_.assign(allowed_.begin(), allowed_.end());
    }

    bool is_cut(uint64_t c) const { return p_.cut != nullptr && p_.cut[c].lo >= 0; }

    // Whether some branch leaves the component to a state that is worth something.
    bool leads_to_anything(const std::vector<uint32_t>& members) const {
        for (uint32_t s : members) {
            for (uint64_t b = m_.first_branch(s); b < m_.last_branch(s); ++b)
                if ((index_[m_.target[b]] & DONE) && value_[m_.target[b]].hi > 0) return true;
            if (p_.cut != nullptr)
                for (uint64_t c = m_.choice_start[s]; c < m_.choice_start[s + 1]; ++c)
                    if (p_.cut[c].hi > 0) return true;
        }
        return false;
    }

    void build_part(const std::vector<uint32_t>& members) {
        part_.clear();
        uint64_t choices = 0, branches = 0;
        for (uint32_t i = 0; i < members.size(); ++i) {
            index_[members[i]] = LOCAL | i;
            choices += m_.choice_start[members[i] + 1] - m_.choice_start[members[i]];
            branches += m_.last_branch(members[i]) - m_.first_branch(members[i]);
        }
        part_.choice_start.resize(members.size() + 1);
        part_.branch_start.resize(choices + 1);
        part_.owner.resize(choices);
        part_.flags.resize(choices);
        part_.target.resize(branches);
        uint32_t choice = 0, inner = 0;
        for (uint32_t i = 0; i < members.size(); ++i) {
            part_.choice_start[i] = choice;
            for (uint64_t c = m_.choice_start[members[i]]; c < m_.choice_start[members[i] + 1]; ++c) {
                uint8_t flags = 0;
                if (is_cut(c)) flags = LEAVES | (p_.cut[c].hi > 0 ? NOT_ZERO : 0) | (p_.cut[c].lo < 1 ? NOT_ONE : 0);
                if (p_.reward != nullptr && p_.reward[c] != 0.0) flags |= REWARDED;
                for (uint64_t b = m_.branch_start[c]; b < m_.branch_start[c + 1]; ++b) {
                    const uint32_t t = m_.target[b], place = index_[t];
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

    void put(const std::vector<uint32_t>& members, uint32_t i, Bounds v, uint32_t local_choice) {
        value_[members[i]] = v;
        choice_[members[i]] = local_choice - part_.choice_start[i];
    }

    // The states that reach a good exit (an allowed choice that leaves) almost surely, with the choice to take; `allowed` shrinks to what stays.
    // Rounds of: drop what cannot stay (linear, cascading), then drop what cannot reach an exit any more.
    uint32_t almost_sure(std::vector<uint8_t>& allowed, std::vector<uint32_t>& via) {
        const uint32_t n = part_.nodes();
        std::vector<uint32_t> queue;
        std::vector<uint8_t> inside;
        for (;;) {
            const uint32_t stay = greatest_closed_set(part_, back_, allowed, inside);
            via.assign(n, UNSET);
            if (stay == 0) return 0;
            queue.clear();
            for (uint32_t c = 0; c < part_.choices(); ++c)
                if (allowed[c] && (part_.flags[c] & LEAVES) && via[part_.owner[c]] == UNSET) {
                    via[part_.owner[c]] = c;
                    queue.push_back(part_.owner[c]);
                }
            for (size_t i = 0; i < queue.size() && queue.size() < stay; ++i)
                for (uint32_t j = back_.start[queue[i]]; j < back_.start[queue[i] + 1]; ++j) {
                    const uint32_t c = back_.choice[j], v = part_.owner[c];
                    if (allowed[c] && via[v] == UNSET) {
                        via[v] = c;
                        queue.push_back(v);
                    }
                }
            if (queue.size() == stay) return stay;
            for (uint32_t v = 0; v < n; ++v)
                if (inside[v] && via[v] == UNSET)
                    for (uint32_t c = part_.choice_start[v]; c < part_.choice_start[v + 1]; ++c) allowed[c] = 0;
        }
    }

    // Where everything is infinite: a choice that keeps it so (towards a closed set or an infinite exit).
    void diverge(const std::vector<uint32_t>& members, const std::vector<uint8_t>& closed, const std::vector<uint8_t>& inside) {
        std::vector<uint32_t> via(part_.nodes(), UNSET), queue;
        for (uint32_t c = 0; c < part_.choices(); ++c) {
            const uint32_t v = part_.owner[c];
            if (via[v] == UNSET && ((part_.flags[c] & DIVERGES) || (!inside.empty() && inside[v] && closed[c]))) {
                via[v] = c;
                queue.push_back(v);
            }
        }
        for (size_t i = 0; i < queue.size(); ++i)
            for (uint32_t j = back_.start[queue[i]]; j < back_.start[queue[i] + 1]; ++j) {
                const uint32_t c = back_.choice[j];
                if (via[part_.owner[c]] == UNSET) {
                    via[part_.owner[c]] = c;
                    queue.push_back(part_.owner[c]);
                }
            }
        for (uint32_t v = 0; v < part_.nodes(); ++v) put(members, v, {INFINITE, INFINITE}, via[v]);
    }

    // Adds choice c of node i to the system, divided by the probability to leave the node.
    void add_row(uint64_t c, uint32_t local, uint32_t i, const std::vector<uint32_t>& node, const std::vector<double>& fixed) {
        Bounds constant{0, 0};
        double mass = 0, leave = 0;
        bool self = false;
        const size_t before = system_.target.size();
        if (is_cut(c)) {
            constant = p_.cut[c];
            mass = leave = 1;
        }
        for (uint64_t b = m_.branch_start[c]; b < m_.branch_start[c + 1]; ++b) {
            const uint32_t t = m_.target[b], place = index_[t];
            const double q = m_.probability[b];
            if (!(place & LOCAL)) {
                leave += q;
                constant.lo += q * value_[t].lo;
                constant.hi += q * value_[t].hi;
            } else if (const uint32_t w = node[place & ~LOCAL]; w == i) {
                self = true;
                continue;
            } else if (w == UNSET) {
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
        double terms = double(m_.branch_start[c + 1] - m_.branch_start[c]) + 2;
        if (self) {
            // SOUND: the exact row sums to 1, so `mass` is 1 - p(self) to (terms) units.
            constant.lo /= mass;
            constant.hi /= mass;
            leave /= mass;
            for (size_t b = before; b < system_.target.size(); ++b) system_.probability[b] /= mass;
            terms = 2 * terms + 2;
        }
        system_.constant.push_back(constant);
        system_.middle.push_back(0.5 * (constant.lo + constant.hi));
        system_.terms.push_back(terms);
        system_.leave.push_back(leave);
        system_.origin.push_back(local);
        system_.branch_start.push_back(uint32_t(system_.target.size()));
    }

    // Solves what graph analysis left open: states of one end component become one node, fixed states become constants.
    void numeric(const std::vector<uint32_t>& members, uint32_t level, const std::vector<double>& fixed, const std::vector<uint8_t>& keep,
                 const std::vector<uint32_t>& collapsed) {
        const uint32_t n = part_.nodes();
        std::vector<uint32_t> node(n, UNSET), of_mec(mec_.size() ? n : 0, UNSET), start, list;
        uint32_t nodes = 0;
        for (uint32_t v = 0; v < n; ++v) {
            if (fixed[v] >= 0) continue;
            if (!collapsed.empty() && mec_[v] != UNSET) {
                if (of_mec[mec_[v]] == UNSET) of_mec[mec_[v]] = nodes++;
                node[v] = of_mec[mec_[v]];
            } else {
                node[v] = nodes++;
            }
        }
        if (nodes == 0) return;
        start.assign(nodes + 1, 0);
        for (uint32_t v = 0; v < n; ++v)
            if (node[v] != UNSET) ++start[node[v] + 1];
        for (uint32_t i = 0; i < nodes; ++i) start[i + 1] += start[i];
        list.resize(start[nodes]);
        {
            std::vector<uint32_t> fill(start.begin(), start.end() - 1);
            for (uint32_t v = 0; v < n; ++v)
                if (node[v] != UNSET) list[fill[node[v]]++] = v;
        }
        system_.clear();
        for (uint32_t i = 0; i < nodes; ++i) {
            for (uint32_t j = start[i]; j < start[i + 1]; ++j) {
                const uint64_t first = m_.choice_start[members[list[j]]];
                for (uint32_t c = part_.choice_start[list[j]]; c < part_.choice_start[list[j] + 1]; ++c)
                    if (keep[c] && (collapsed.empty() || !collapsed[c]))
                        add_row(first + c - part_.choice_start[list[j]], c, i, node, fixed);
            }
            system_.choice_start.push_back(uint32_t(system_.origin.size()));
        }
        std::vector<Bounds> value;
        std::vector<uint32_t> best;
        const double share = std::max(0.9 * p_.gap / (double(level) * (level + 1.0)), 1e-13);
        const double ceiling = p_.reward ? INFINITE : 1.0;
        if (!iterate(system_, p_.maximise, share, ceiling, value, best, statistics_, poll_)) statistics_.limit |= poll_.over();
        for (uint32_t i = 0; i < nodes; ++i) {
            const uint32_t c = system_.origin[best[i]];
            if (start[i + 1] - start[i] > 1) lead_to(members, list, start[i], start[i + 1], part_.owner[c], value[i], collapsed);
            put(members, part_.owner[c], value[i], c);
        }
    }

    // Inside a collapsed end component every other state walks towards the one that takes the leaving choice.
    void lead_to(const std::vector<uint32_t>& members, const std::vector<uint32_t>& list, uint32_t first, uint32_t last, uint32_t exit,
                 Bounds v, const std::vector<uint32_t>& collapsed) {
        via_.resize(part_.nodes(), UNSET);
        for (uint32_t j = first; j < last; ++j) via_[list[j]] = UNSET;
        std::vector<uint32_t> queue{exit};
        via_[exit] = 0;
        for (size_t i = 0; i < queue.size(); ++i)
            for (uint32_t j = back_.start[queue[i]]; j < back_.start[queue[i] + 1]; ++j) {
                const uint32_t c = back_.choice[j], w = part_.owner[c];
                if (collapsed[c] && w != exit && mec_[w] == mec_[exit] && via_[w] == UNSET) {
                    via_[w] = c;
                    queue.push_back(w);
                    put(members, w, v, c);
                }
            }
    }

    const Problem& p_;
    const View m_;
    std::vector<uint32_t>& index_;
    Bounds* value_;
    uint32_t* choice_;
    Statistics& statistics_;
    Poll& poll_;
    // Of the component at hand.
    const std::vector<uint32_t>* members_ = nullptr;
    uint8_t any_ = 0;     // the flags of all choices together
    bool inner_ = false;  // some choice stays
    bool back_built_ = false;
    std::vector<uint8_t> allowed_, inside_, keep_;
    std::vector<double> fixed_;  // below 0: open
    std::vector<uint32_t> collapsed_, goal_choice_, mec_, via_;
    Local part_;
    Predecessors back_;
    Equations system_;
};

}  // namespace polvet
