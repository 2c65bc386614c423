// What several threads have proved, for all of them: packed states with their verdicts, in shards with a lock each.
//
// Only facts are published (a closed safe policy, a killed state), so whoever reads them may rely on them. Evidence is
// never made from a board: it does not say why.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "store.h"

namespace polvet {

enum Known : uint8_t { UNDECIDED, UNSAFE, SAFE };

class Board {
public:
    explicit Board(uint32_t words) { for (auto& shard : shards_) shard = std::make_unique<Shard>(words); }

    Known find(const uint64_t* state) const {
        const Shard& shard = of(state);
        std::lock_guard lock(shard.mutex);
        const int64_t number = shard.store.find(state);
        return number < 0 ? UNDECIDED : Known(shard.known[number]);
    }
    void publish(const uint64_t* state, Known known) {
        Shard& shard = of(state);
        std::lock_guard lock(shard.mutex);
        if (shard.store.insert(state).second) {
            shard.known.push_back(known);
            bytes_.fetch_add(shard.store.words() * 10 + 16, std::memory_order_relaxed);   // about what a state takes
        }
    }
    uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
    void clear() {
        for (auto& shard : shards_) {
            std::lock_guard lock(shard->mutex);
            shard->store = Store<0>(shard->store.words());
            std::vector<uint8_t>().swap(shard->known);
        }
        bytes_ = 0;
    }

private:
    struct Shard {
        explicit Shard(uint32_t words) : store(words) {}
        mutable std::mutex mutex;
        Store<0> store;
        std::vector<uint8_t> known;
    };
    Shard& of(const uint64_t* state) const { return *shards_[shards_[0]->store.hash(state) & 63]; }

    std::array<std::unique_ptr<Shard>, 64> shards_;
    std::atomic<uint64_t> bytes_{0};
};

}  // namespace polvet
