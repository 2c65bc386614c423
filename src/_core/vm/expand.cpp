// What a state leads to: the edges that may move, the combinations that synchronise, and each branch written as a packed state.
//
// A branch takes the *fast path*, where its code writes the successor at once, or the *careful path*, where the order of its assignments
// matters (vm/machine.cpp runs either). The slow twin is model/semantics.py.
#include <algorithm>
#include <limits>

#include "vm/program.h"

namespace polvet {

bool Machine::update(const Branch& branch) {
    if (branch.constants < 0) return run(branch.fast);
    const Instruction* write = program->code.data() + branch.fast;
    for (const Instruction* end = write + branch.constants; write != end; ++write)
        target_[write->a] = (target_[write->a] & ~program->masks[size_t(write->b)]) | program->masks[size_t(write->c)];
    return true;
}

bool Machine::find_chances(const Edge& edge, const double*& computed) {
    computed = nullptr;
    if (edge.computed < 0) return true;
    const auto number = size_t(edge.computed);
    computed = chance_tables_[number].find(program->chances, program->chances.edges[number], registers_.data(), fault);
    return computed != nullptr;
}

void Machine::rewards_of(const uint64_t* source, size_t branch, Expansion& out) {
    const Program& p = *program;
    const uint64_t* target = out.words.data() + branch * p.words;
    for (size_t k = 0; k < p.step_rewards.size(); ++k) {
        const Piece& reward = p.step_rewards[k];
        if (reward.entry < 0) {
            out.rewards.push_back(0);
            continue;
        }
        load(reward.reads, target);
        out.rewards.push_back(run(reward.entry) ? as_real(result_) : 0);
        load(reward.reads, source);
    }
    forget_scratch();
}

void Machine::forget_scratch() {
    for (uint32_t s = program->variables; s < program->slots; ++s) registers_[s] = program->registers[s];
}

uint64_t* Machine::begin_branch(const uint64_t* state, Expansion& out) {
    const uint32_t words = program->words;
    if (words == 1) {
        out.words.push_back(*state);
        return &out.words.back();
    }
    const size_t at = out.words.size();
    out.words.insert(out.words.end(), state, state + words);
    return out.words.data() + at;
}

bool Machine::fast_branches(const uint64_t* state, const Edge& edge, Expansion& out) {
    const Program& p = *program;
    const double* computed;
    if (!find_chances(edge, computed)) return false;
    for (uint32_t b = edge.branch_begin; b < edge.branch_end; ++b) {
        const Branch& branch = p.branches[b];
        const double probability = computed ? computed[b - edge.branch_begin] : branch.probability;
        if (probability == 0) continue;
        target_ = begin_branch(state, out);
        if (!update(branch)) return false;
        out.probability.push_back(probability);
        if (want_rewards) rewards_of(state, out.probability.size() - 1, out);
        else if (p.writes_scratch) forget_scratch();
        if (fault != Fault::NONE) return false;
    }
    return true;
}

// Assignments by ascending index: those of one index read what the ones before it left, and write beside it.
bool Machine::execute_carefully(const uint64_t* state, size_t count, uint64_t* target) {
    const Program& p = *program;
    int64_t* r = registers_.data();
    before_.resize(p.variables);
    unpack(state, before_.data());
    for (uint32_t s = 0; s < p.variables; ++s) next_[s] = r[s] = before_[s];
    for (uint32_t s = p.variables; s < p.slots; ++s) next_[s] = r[s];
    steps_.clear();
    for (size_t k = 0; k < count; ++k) {
        const Branch& branch = p.branches[possible_[k][branch_at_[k]].branch];
        steps_.insert(steps_.end(), p.careful.begin() + branch.careful_begin, p.careful.begin() + branch.careful_end);
    }
    std::stable_sort(steps_.begin(), steps_.end(), [](const Careful& x, const Careful& y) { return x.index < y.index; });
    bool good = true;
    for (size_t begin = 0; begin < steps_.size() && good;) {
        size_t end = begin;
        ++stamp_;
        for (; end < steps_.size() && steps_[end].index == steps_[begin].index && good; ++end) good = run(steps_[end].code);
        for (uint32_t s = 0; s < p.slots; ++s) r[s] = next_[s];
        begin = end;
    }
    if (good && !pack(next_.data(), target)) {
        fault = Fault::OUT_OF_BOUNDS;
        good = false;
    }
    if (!want_rewards || !good) forget_scratch();
    for (uint32_t s = 0; s < p.variables; ++s) r[s] = before_[s];
    return good;
}

bool Machine::joined_branches(const uint64_t* state, const int32_t* edges, size_t count, bool careful, Expansion& out) {
    const Program& p = *program;
    // The branches of every participant with their probabilities, then an odometer over all combinations.
    if (possible_.size() < count) possible_.resize(count);
    branch_at_.assign(count, 0);
    for (size_t k = 0; k < count; ++k) {
        const Edge& edge = p.edges[edges[k]];
        auto& mine = possible_[k];
        mine.clear();
        const double* computed;
        if (!find_chances(edge, computed)) return false;
        for (uint32_t b = edge.branch_begin; b < edge.branch_end; ++b) {
            const double probability = computed ? computed[b - edge.branch_begin] : p.branches[b].probability;
            if (probability > 0) mine.push_back({b, probability});
        }
        if (mine.empty()) return fail(Fault::PROBABILITY);
    }
    for (;;) {
        double probability = 1;
        for (size_t k = 0; k < count; ++k) probability *= possible_[k][branch_at_[k]].probability;
        // SOUND: what is possible stays possible where the product is too small for a double.
        probability = std::max(probability, std::numeric_limits<double>::denorm_min());
        target_ = begin_branch(state, out);
        if (careful) {
            if (!execute_carefully(state, count, target_)) return false;
        } else {
            for (size_t k = 0; k < count; ++k)
                if (!update(p.branches[possible_[k][branch_at_[k]].branch])) return false;
            if (!want_rewards && p.writes_scratch) forget_scratch();
        }
        out.probability.push_back(probability);
        if (want_rewards) rewards_of(state, out.probability.size() - 1, out);
        if (fault != Fault::NONE) return false;
        size_t k = count;
        while (k > 0 && ++branch_at_[k - 1] == possible_[k - 1].size()) branch_at_[--k] = 0;
        if (k == 0) return true;
    }
}

bool Machine::are_sole(const int32_t* edges, size_t count) const {
    return std::all_of(edges, edges + count, [this](int32_t number) {
        const Edge& edge = program->edges[size_t(number)];
        return edge.computed < 0 && edge.branch_end - edge.branch_begin == 1 && program->branches[edge.branch_begin].probability > 0;
    });
}

bool Machine::sole_branch(const uint64_t* state, const int32_t* edges, size_t count, Expansion& out) {
    const Program& p = *program;
    target_ = begin_branch(state, out);
    double probability = 1;
    for (size_t k = 0; k < count; ++k) {
        const Branch& branch = p.branches[p.edges[size_t(edges[k])].branch_begin];
        probability *= branch.probability;
        if (!update(branch)) return false;
    }
    out.probability.push_back(std::max(probability, std::numeric_limits<double>::denorm_min()));  // SOUND: as above
    if (want_rewards) rewards_of(state, out.probability.size() - 1, out);
    else if (p.writes_scratch) forget_scratch();
    return fault == Fault::NONE;
}

bool Machine::move(const uint64_t* state, int32_t joint, const int32_t* edges, size_t count, Expansion& out) {
    const Joint& j = program->joints[joint];
    const size_t begin = out.probability.size();
    const bool good = j.careful                ? joined_branches(state, edges, count, true, out)
                      : count == 1             ? fast_branches(state, program->edges[edges[0]], out)
                      : are_sole(edges, count) ? sole_branch(state, edges, count, out)
                                               : joined_branches(state, edges, count, false, out);
    if (!good) {
        if (fault != Fault::OUT_OF_BOUNDS || !program->disable_out_of_bounds) return false;
        fault = Fault::NONE;
        out.words.resize(begin * program->words);
        out.probability.resize(begin);
        if (want_rewards) out.rewards.resize(begin * program->step_rewards.size());
        forget_scratch();
        return true;
    }
    out.moves.push_back({joint, j.label, uint32_t(begin), uint32_t(out.probability.size())});
    if (want_edges) {
        out.edge_begin.push_back(uint32_t(out.edges.size()));
        out.edges.insert(out.edges.end(), edges, edges + count);
    }
    return true;
}

// Code names edges grouped by the variables it jumps on; moves come in the order of joints and edges. Few are named at once.
void Machine::sort_leads(std::vector<Lead>& leads) {
    for (size_t i = 1; i < leads.size(); ++i) {
        const Lead lead = leads[i];
        size_t k = i;
        for (; k > 0 && (leads[k - 1].joint > lead.joint || (leads[k - 1].joint == lead.joint && leads[k - 1].edge > lead.edge)); --k)
            leads[k] = leads[k - 1];
        leads[k] = lead;
    }
}

bool Machine::enabled(const uint64_t* state, std::vector<MoveRecord>& out) {
    fault = Fault::NONE;
    load(program->reads, state);
    emitted_.clear();
    if (!run(program->lead)) return false;
    leads_.swap(emitted_);
    sort_leads(leads_);
    for (const Lead& lead : leads_) out.push_back({lead.joint, program->joints[lead.joint].label, uint32_t(lead.edge), 0});
    return true;
}

bool Machine::take(const uint64_t* state, uint32_t number, double unit, uint64_t* target) {
    const Program& p = *program;
    const Edge& edge = p.edges[number];
    fault = Fault::NONE;
    load(p.reads, state);
    chances_.clear();
    branches_.clear();
    const double* computed;
    if (!find_chances(edge, computed)) return false;
    for (uint32_t b = edge.branch_begin; b < edge.branch_end; ++b) {
        const double probability = computed ? computed[b - edge.branch_begin] : p.branches[b].probability;
        if (probability > 0) {
            chances_.push_back(probability);
            branches_.push_back(b);
        }
    }
    if (chances_.empty()) return fail(Fault::PROBABILITY);
    std::copy_n(state, p.words, target);
    target_ = target;
    const bool good = update(p.branches[branches_[draw_branch(chances_.data(), 0, uint32_t(chances_.size()), unit)]]);
    if (p.writes_scratch) forget_scratch();
    return good;
}

bool Machine::expand(const uint64_t* state, Expansion& out) {
    const Program& p = *program;
    fault = Fault::NONE;
    load(p.reads, state);
    ++epoch_;
    emitted_.clear();
    if (!run(p.lead)) return false;
    leads_.swap(emitted_);
    sort_leads(leads_);
    uint64_t room = p.most_branches;
    for (const Lead& lead : leads_) {
        const Joint& j = p.joints[lead.joint];
        const size_t others = j.menu_end - j.menu_begin;
        if (others == 0) {
            if (!move(state, lead.joint, &lead.edge, 1, out)) return false;
            continue;
        }
        const uint32_t* menus = p.menu_refs.data() + j.menu_begin;
        uint64_t count = branches_of(lead.edge);  // of all operators that this edge leads, before one is made
        bool possible = true;
        for (size_t k = 0; k < others && possible; ++k) {
            const uint32_t m = menus[k];
            if (menu_epoch_[m] != epoch_) {
                menu_epoch_[m] = epoch_;
                emitted_.clear();
                if (!run(p.menus[m])) return false;
                sort_leads(emitted_);
                menu_edges_[m].clear();
                menu_branches_[m] = 0;
                for (const Lead& e : emitted_) {
                    menu_edges_[m].push_back(e.edge);
                    menu_branches_[m] += branches_of(e.edge);
                }
            }
            possible = !menu_edges_[m].empty();
            count = std::min(count, room + 1) * std::min(menu_branches_[m], room + 1);  // too many is enough to know
        }
        if (!possible) continue;
        if (count > room) return fail(Fault::TOO_MANY);
        room -= count;
        chosen_.resize(others + 1);
        chosen_[0] = lead.edge;
        edge_at_.assign(others, 0);
        for (;;) {
            for (size_t k = 0; k < others; ++k) chosen_[k + 1] = menu_edges_[menus[k]][edge_at_[k]];
            if (!move(state, lead.joint, chosen_.data(), others + 1, out)) return false;
            size_t k = others;
            while (k > 0 && ++edge_at_[k - 1] == menu_edges_[menus[k - 1]].size()) edge_at_[--k] = 0;
            if (k == 0) break;
        }
    }
    return true;
}

}  // namespace polvet
