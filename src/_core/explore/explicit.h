// Everything a policy reaches from all start states, until `fail` is met or nothing new is left.
//
// States are kept in SHARDS stores by their hash. A round takes a part of what is not expanded yet, in chunks: threads first
// expand chunks (model and policy, in batches) into one list of successors per shard, then insert the lists shard by shard,
// in the order of the chunks. So neither the states' numbers nor the witness depend on the number of threads.
// Near ties come last: only when the reference order of evaluation reaches nothing new are the other choices followed that some
// float32 evaluation order makes; `fail` met from then on is DOUBTFUL, not UNSAFE.
// SOUND: CLOSED means that every stored state was expanded, with all choices that any evaluation order makes, and none is bad.
// Cost     one expansion and one policy evaluation per state; per state what a tree takes (store/tree.h) and 4 bytes for the witness
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "explore/explore.h"
#include "policies/bound_policy.h"
#include "store/limits.h"

namespace polvet {

enum class Reached : int32_t { OPEN, CLOSED, DOUBTFUL, UNSAFE };

class Reachability {
public:
    static constexpr uint32_t SHARDS = 16, LOCAL_BITS = 28, NOBODY = UINT32_MAX;
    struct Bad {
        bool stuck = false, deadlock = false;
    };  // what counts as `fail` besides the condition

    Reachability(const BoundPolicy& policy, int32_t fail, int32_t goal, Bad bad);

    uint64_t add_starts(const uint64_t* states, size_t count);  // returns how many are new
    void close(unsigned threads, Limits& limits);               // sets `reached`; OPEN where a limit came first (`status`)
    // From a start to the bad state that was met: states, the labels in between, and the first step only a near tie takes (-1: none).
    void witness(std::vector<uint64_t>& states, std::vector<int32_t>& labels, int64_t& tie) const;

    size_t size() const;
    uint64_t bytes() const;
    void copy_states(std::vector<uint64_t>& out) const;

    const BoundPolicy& policy;
    Reached reached = Reached::OPEN;
    Status status = Status::DONE;
    Fault fault = Fault::NONE;
    bool policy_broken = false;
    std::vector<uint64_t> faulty;
    uint64_t expanded = 0, transitions = 0, near_ties = 0, ends[4] = {0, 0, 0, 0};  // fail, goal, stuck, deadlock

private:
    struct Shard {
        AnyTree store;
        std::vector<uint32_t> parent;
        size_t head = 0;
    };
    struct List {
        std::vector<uint64_t> words, hashes;
        std::vector<uint32_t> parents;
    };
    struct Chunk {  // a piece of one shard, and what came of it
        uint32_t shard = 0;
        size_t begin = 0, end = 0;
        bool again = false;  // states [begin, end) of `ties_`, by their other choices only
        std::array<List, SHARDS> out;
        std::vector<uint32_t> ties;
        uint32_t bad = NOBODY;
        uint64_t transitions = 0, near_ties = 0, ends[4] = {0, 0, 0, 0};
        bool broke = false, by_policy = false;
        Fault fault = Fault::NONE;
        uint32_t faulty = NOBODY;
        void clear();
    };
    class Worker;

    static uint32_t shard_of(uint32_t id) { return id >> LOCAL_BITS; }
    static uint32_t local_of(uint32_t id) { return id & ((1u << LOCAL_BITS) - 1); }
    const uint64_t* state(uint32_t id, uint64_t* room) const;
    size_t shard_size(uint32_t shard) const;
    uint64_t hash(const uint64_t* state) const;
    size_t plan(size_t most);  // fill chunks_ with work; how many
    void insert(uint32_t shard, size_t chunks);
    bool take_stock(size_t chunks);  // false where the search ends

    int32_t fail_, goal_;
    Bad bad_;
    std::array<Shard, SHARDS> shards_;
    std::vector<Chunk> chunks_;
    std::vector<uint32_t> ties_;
    size_t ties_head_ = 0;
    bool doubting_ = false;
    uint32_t bad_state_ = NOBODY;
};

}  // namespace polvet
