// The reachable states of a network, and the sparse MDP over them.
#pragma once
#include <memory>
#include <variant>

#include "policies/bound_policy.h"
#include "store/limits.h"
#include "store/tree.h"
#include "vm/program.h"

namespace polvet {

struct Counts {
    uint64_t expanded = 0, choices = 0, moves = 0, transitions = 0, deadlocks = 0, stuck = 0, near_ties = 0;
};

struct Matrix {  // one row per state; a row's choices; a choice's branches
    std::vector<uint64_t> choice_start{0}, branch_start{0};
    std::vector<int32_t> label;  // per choice, -1 for a silent one
    std::vector<uint32_t> target;
    std::vector<double> probability;
    std::vector<std::vector<double>> rewards;  // per reward: one number per choice
    size_t bytes() const {
        size_t total = (choice_start.capacity() + branch_start.capacity() + probability.capacity()) * 8;
        total += (label.capacity() + target.capacity()) * 4;
        for (const auto& one : rewards) total += one.capacity() * 8;
        return total;
    }
};

// States to be looked at again and again, and many states: a tree takes less memory and a little more time.
using AnyStore = std::variant<Store<1>, Store<2>, Store<3>, Store<4>, Store<0>>;
using AnyTree = std::variant<Store<1>, Store<2>, Tree<3>, Tree<4>, Tree<0>>;
AnyStore make_store(uint32_t words);
AnyTree make_tree(uint32_t words);

// Copy the states from `begin` on, before `end`, to the end of `out`.
void copy_states(const AnyTree& states, size_t begin, size_t end, std::vector<uint64_t>& out);

struct Space {
    explicit Space(std::shared_ptr<const Program> program_) : program(std::move(program_)), store(make_tree(program->words)) {}

    std::shared_ptr<const Program> program;
    AnyTree store;
    Counts counts;
    Matrix matrix;
    std::vector<uint32_t> parent;  // the state each state was first reached from; itself for initial ones
    std::vector<uint32_t> initial;
    Status status = Status::DONE;
    int64_t faulty = -1;  // the state in which the model broke a rule
    Fault fault = Fault::NONE;
    bool policy_broken = false;  // a score of the policy was not a number there

    size_t size() const {
        return std::visit([](const auto& s) { return s.size(); }, store);
    }
    size_t bytes() const {
        return std::visit([](const auto& s) { return s.bytes(); }, store);
    }
};

struct ExploreOptions {
    bool build = false, parents = false;
    size_t threads = 1;   // the states, their numbers and the matrix are the same for any number
    size_t fewest = 256;  // open states for each of them, below which one goes on alone
    std::vector<uint32_t> stop_at;
    const BoundPolicy* policy = nullptr;
};

// Breadth first from the initial states; states where a `stop_at` condition holds are not expanded. With a policy only its
// label's operators and the silent ones are followed, in the reference order of evaluation; where it is stuck, none.
void explore(Space& space, const uint64_t* initial, size_t count, const ExploreOptions& options, Limits& limits);

}  // namespace polvet
