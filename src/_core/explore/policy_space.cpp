// Reachability under a policy, start by start; see explore/policy_space.h.
#include "explore/policy_space.h"

#include <algorithm>

namespace polvet {

namespace {
constexpr uint32_t NOWHERE = UINT32_MAX;
constexpr size_t BATCH = 64, MOST_STEPS = UINT32_MAX - (1u << 24);
}  // namespace

Inspector::Inspector(const BoundPolicy& policy_, int32_t fail, int32_t goal)
    : policy(policy_), fail_(fail), goal_(goal), machine_(policy_.program), chooser_(policy_), store_(make_store(policy_.program->words)) {
    chooser_.want_sure = policy_.network != nullptr;
}

uint64_t Inspector::bytes() const {
    return std::visit([](const auto& s) { return s.bytes(); }, store_) + nodes_.capacity() * sizeof(Node) +
           steps_.capacity() * sizeof(Step) + seen_.capacity() * 4;
}

uint32_t Inspector::add(const uint64_t* state) {
    const auto [id, fresh] = std::visit([&](auto& s) { return s.insert(state); }, store_);
    if (fresh) {
        nodes_.emplace_back();
        seen_.push_back(0);
    }
    return id;
}

bool Inspector::broke(const uint64_t* state, bool by_policy) {
    status = Status::FAULT;
    fault = machine_.fault;
    policy_broken = by_policy;
    faulty.assign(state, state + policy.program->words);
    return false;
}

// Give each state of the batch its steps; states in which runs end get none. False where something broke.
bool Inspector::expand(const std::vector<uint32_t>& batch) {
    const size_t words = policy.program->words;
    e_.clear();
    chooser_.clear();
    std::vector<uint32_t> open, move_end;
    for (uint32_t id : batch) {
        const uint64_t* state = this->state(id);
        Node& node = nodes_[id];
        node.expanded = true;
        ++expanded;
        node.begin = node.end = uint32_t(steps_.size());
        const auto [fails, goal] = machine_.ends(fail_, goal_, state);
        if (machine_.fault != Fault::NONE) return broke(state, false);
        if (fails || goal) {
            ++ends[goal];
            node.final = true;
            if (fails) { node.mark = node.judgement = POLICY_UNSAFE; }
            continue;
        }
        const size_t first = e_.moves.size();
        if (!machine_.expand(state, e_)) return broke(state, false);
        open.push_back(id);
        move_end.push_back(uint32_t(e_.moves.size()));
        chooser_.add(state, e_.moves.data() + first, e_.moves.data() + e_.moves.size());
    }
    chooser_.decide();
    std::vector<int32_t> rivals;
    for (size_t k = 0; k < open.size(); ++k) {
        const int32_t chosen = chooser_.chosen[k];
        if (chosen == BROKEN) return broke(state(open[k]), true);
        if (chosen == STUCK) ++ends[2];
        if (chosen == DEADLOCK) ++ends[3];
        rivals.clear();
        if (chooser_.want_sure && !chooser_.sure[k]) {
            bool may_stick = false;
            chooser_.rivals(k, rivals, may_stick);
            near_ties += may_stick || !rivals.empty() || chosen == STUCK;
        }
        const uint32_t begin = uint32_t(steps_.size());
        for (uint32_t v = k ? move_end[k - 1] : 0; v < move_end[k]; ++v) {
            const MoveRecord& move = e_.moves[v];
            // Silent operators move whatever is chosen, but not where the policy is stuck.
            const bool reference = chosen >= PSEUDO_ACTION && (move.label < 0 || move.label == chosen);
            const bool rival = std::find(rivals.begin(), rivals.end(), move.label) != rivals.end() || (move.label < 0 && !rivals.empty());
            if (!reference && !rival) continue;
            for (uint32_t b = move.begin; b < move.end; ++b) {
                const uint32_t target = add(e_.words.data() + b * words);
                steps_.push_back({target, move.label, nodes_[target].incoming, open[k], reference});
                nodes_[target].incoming = uint32_t(steps_.size()) - 1;
            }
        }
        nodes_[open[k]].begin = begin;
        nodes_[open[k]].end = uint32_t(steps_.size());
        transitions += steps_.size() - begin;
        branching += steps_.size() - begin > 1;
    }
    // What was learnt: fail states of this batch, and steps into states that are marked already.
    for (uint32_t id : batch)
        if (nodes_[id].mark == POLICY_UNSAFE && nodes_[id].final) flood(id);
    for (uint32_t id : open)
        for (uint32_t i = nodes_[id].begin; i < nodes_[id].end; ++i)
            if (const uint8_t mark = mark_along(steps_[i]); mark > nodes_[id].mark) {
                set_mark(id, i, mark);
                flood(id);
            }
    return true;
}

uint8_t Inspector::mark_along(const Step& step) const {
    const uint8_t target = nodes_[step.target].mark;
    return !target ? 0 : step.reference ? target : uint8_t(POLICY_DOUBTFUL);
}

void Inspector::set_mark(uint32_t id, uint32_t toward, uint8_t mark) {
    nodes_[id].mark = mark;
    nodes_[id].toward = toward;
    if (mark == POLICY_UNSAFE) nodes_[id].judgement = POLICY_UNSAFE;
}

// Mark everything known to lead to `from`: unsafe along reference steps into unsafe states, doubtful otherwise.
void Inspector::flood(uint32_t from) {
    std::vector<uint32_t> agenda{from};
    for (size_t head = 0; head < agenda.size(); ++head) {
        const uint32_t target = agenda[head];
        for (uint32_t i = nodes_[target].incoming; i != NOWHERE; i = steps_[i].next_of_target) {
            const uint32_t source = steps_[i].source;
            const uint8_t mark = mark_along(steps_[i]);
            if (nodes_[source].mark >= mark) continue;
            set_mark(source, i, mark);
            agenda.push_back(source);
        }
    }
}

std::vector<uint8_t> Inspector::inspect(const uint64_t* starts, size_t count, Limits& limits) {
    const size_t words = policy.program->words;
    std::vector<uint8_t> result(count, OPEN);
    std::vector<uint32_t> queue, batch;
    uint64_t looks = 0;
    for (size_t s = 0; s < count; ++s) {
        if (status == Status::DONE && s % 4096 == 0 && s > 0) status = limits.poll(bytes(), s, size());
        if (status != Status::DONE) {  // what is known already is told, unless there is no time even for that
            if (status != Status::STATES) return result;
            const int64_t known = std::visit([&](const auto& store) { return store.find(starts + s * words); }, store_);
            if (known >= 0) result[s] = nodes_[size_t(known)].judgement;
            continue;
        }
        const uint32_t start = add(starts + s * words);
        if (nodes_[start].judgement == OPEN) {
            if (++epoch_ == 0) {
                std::fill(seen_.begin(), seen_.end(), 0);
                epoch_ = 1;
            }
            queue.assign(1, start);
            seen_[start] = epoch_;
            size_t head = 0;
            while (head < queue.size() && nodes_[start].judgement == OPEN) {
                if (looks++ % policy.patience(16) == 0 || e_.branches() > MANY_BRANCHES) status = limits.poll(bytes(), s, size());
                if (steps_.size() > MOST_STEPS) status = Status::MEMORY;
                if (status != Status::DONE) break;
                const size_t first = head;
                batch.clear();
                for (; head < queue.size() && batch.size() < BATCH; ++head)
                    if (!nodes_[queue[head]].expanded) batch.push_back(queue[head]);
                if (!batch.empty() && !expand(batch)) return result;
                for (size_t i = first; i < head; ++i) {
                    const Node node = nodes_[queue[i]];
                    if (node.judgement != OPEN) continue;
                    for (uint32_t j = node.begin; j < node.end; ++j) {
                        const uint32_t target = steps_[j].target;
                        if (seen_[target] == epoch_ || nodes_[target].judgement != OPEN) continue;
                        seen_[target] = epoch_;
                        queue.push_back(target);
                    }
                }
            }
            if (status == Status::DONE && nodes_[start].judgement == OPEN)
                for (uint32_t id : queue)
                    if (nodes_[id].judgement == OPEN)
                        nodes_[id].judgement = nodes_[id].mark == POLICY_DOUBTFUL ? POLICY_DOUBTFUL : POLICY_SAFE;
        }
        result[s] = nodes_[start].judgement;
    }
    return result;
}

void Inspector::witness(const uint64_t* start, std::vector<uint64_t>& states, std::vector<int32_t>& labels, int64_t& tie) const {
    const size_t words = policy.program->words;
    int64_t at = std::visit([&](const auto& s) { return s.find(start); }, store_);
    tie = -1;
    if (at < 0 || nodes_[size_t(at)].mark == 0) return;
    states.insert(states.end(), start, start + words);
    while (nodes_[size_t(at)].toward != NOWHERE) {
        const Step& step = steps_[nodes_[size_t(at)].toward];
        if (!step.reference && tie < 0) tie = int64_t(labels.size());
        labels.push_back(step.label);
        at = step.target;
        states.insert(states.end(), state(size_t(at)), state(size_t(at)) + words);
    }
}

}  // namespace polvet
