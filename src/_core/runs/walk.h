// What lanes of runs have in common: states that were met get numbers, and what the policy does in them is asked once, for
// many of them at a time. `Node` is what is remembered of a state: it has kind, expanded and queued. See runs/simulate.cpp, runs/fuzz.cpp.
#pragma once
#include <functional>
#include <vector>

#include "explore/explore.h"
#include "runs/simulate.h"

namespace polvet {

constexpr size_t LANES = 256, MOST_NODES = 1 << 20, MOST_WORDS = 1 << 24;
constexpr uint32_t NOT_TAKEN = UINT32_MAX;
constexpr uint8_t UNSEEN = 255;

template <class Node> class Walk {
public:
    std::function<bool()> alive;  // whether to go on; asked every few thousand steps
    uint64_t steps = 0;
    Fault fault = Fault::NONE;  // where something broke: what, whether by the policy, in which state
    bool broken = false;
    std::vector<uint64_t> faulty;

protected:
    Walk(const BoundPolicy& policy, int32_t fail, int32_t goal)
        : machine_(policy.program),
          chooser_(policy),
          words_(policy.program->words),
          patience_(policy.patience(64)),
          fail_(fail),
          goal_(goal),
          store_(make_store(policy.program->words)) {}

    const uint64_t* state(uint32_t id) const {
        return std::visit([id](const auto& s) { return s.state(id); }, store_);
    }
    uint64_t hash(const uint64_t* words) const {
        return std::visit([words](const auto& s) { return s.hash(words); }, store_);
    }

    uint32_t find(const uint64_t* state) {
        const auto [id, fresh] = std::visit([&](auto& s) { return s.insert(state); }, store_);
        if (fresh) nodes_.emplace_back();
        return id;
    }

    bool is_full() const { return nodes_.size() > MOST_NODES || branch_words_.size() > MOST_WORDS; }
    void forget_states() {
        std::visit([](auto& s) { s.clear(); }, store_);
        nodes_.clear();
        probability_.clear();
        target_.clear();
        branch_words_.clear();
    }

    bool fail_at(uint32_t id, bool policy) {
        fault = machine_.fault;
        broken = policy;
        faulty.assign(state(id), state(id) + words_);
        return false;
    }

    // Say how runs end in a state met for the first time; false where the model breaks there.
    bool classify(uint32_t id) {
        nodes_[id].kind = end_of(machine_.ends(fail_, goal_, state(id)));
        return machine_.fault == Fault::NONE || fail_at(id, false);
    }

    void want(uint32_t id) {
        Node& node = nodes_[id];
        if (!node.expanded && !node.queued) {
            node.queued = true;
            missing_.push_back(id);
        }
    }

    // Ask model and policy about all states that are wanted, at once. Of each in which the run goes on, `open` is told the node;
    // then `take` its moves (those of the chosen label and the silent ones); then `close`.
    template <class Open, class Take, class Close> bool expand(Open open, Take take, Close close) {
        e_.clear();
        move_end_.clear();
        chooser_.clear();
        for (uint32_t id : missing_) {
            const size_t first = e_.moves.size();
            if (!machine_.expand(state(id), e_)) return fail_at(id, false);
            move_end_.push_back(uint32_t(e_.moves.size()));
            chooser_.add(state(id), e_.moves.data() + first, e_.moves.data() + e_.moves.size());
        }
        chooser_.decide();
        for (size_t k = 0; k < missing_.size(); ++k) {
            Node& node = nodes_[missing_[k]];
            const int32_t chosen = chooser_.chosen[k];
            if (chosen == BROKEN) return fail_at(missing_[k], true);
            node.expanded = true;
            if (chosen < PSEUDO_ACTION) {
                node.kind = chosen == STUCK ? END_STUCK : END_DEADLOCK;
                continue;
            }
            open(node);
            for (uint32_t v = k ? move_end_[k - 1] : 0; v < move_end_[k]; ++v)
                if (e_.moves[v].label < 0 || e_.moves[v].label == chosen) take(node, e_.moves[v]);
            close(node);
        }
        return true;
    }

    // The state that a branch leads to; may move nodes_.
    uint32_t follow(uint32_t branch) {
        if (target_[branch] == NOT_TAKEN) {
            const uint32_t id = find(branch_words_.data() + branch * words_);
            target_[branch] = id;
        }
        return target_[branch];
    }

    Machine machine_;
    Chooser chooser_;
    const size_t words_, patience_;  // patience_: steps of all lanes between two looks at limits
    const int32_t fail_, goal_;      // conditions of the program
    std::vector<Node> nodes_;
    std::vector<double> probability_;  // per branch
    std::vector<uint32_t> target_;     // per branch: a node, or NOT_TAKEN
    std::vector<uint64_t> branch_words_;
    std::vector<uint32_t> missing_, move_end_;
    Expansion e_;

private:
    AnyStore store_;
};

}  // namespace polvet
