// What several threads have proved, for all of them, and who looks after which state: packed states in shards with a lock each.
//
// Only facts are published (a closed safe policy, a killed state), so whoever reads them may rely on them. Evidence is
// never made from a board: it does not say why. `claim`, `give` and `release` serve threads that explore together
// (decide/together.h): a state has at most one owner, and an owner cannot release what others have asked about.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "store/store.h"

namespace polvet {

enum Known : uint8_t { UNDECIDED, UNSAFE, SAFE };

class Board {
public:
    static constexpr uint8_t NOBODY = 255;
    static constexpr unsigned MOST_OWNERS = 31;
    static constexpr uint32_t NOWHERE = UINT32_MAX;
    struct Claim {
        Known known;
        uint8_t owner;
        bool given;
        uint32_t place;
    };  // place: where the entry stands in its shard

    explicit Board(uint32_t words) : empty_(words) {
        for (auto& shard : shards_) shard = std::make_unique<Shard>(words);
    }

    Known find(const uint64_t* state) const {
        const Shard& shard = of(state);
        std::lock_guard lock(shard.mutex);
        const int64_t number = shard.store.find(state);
        return number < 0 ? UNDECIDED : shard.entries[number].known;
    }
    void publish(const uint64_t* state, Known known) {
        Shard& shard = of(state);
        std::lock_guard lock(shard.mutex);
        entry(shard, state).known = known;
    }
    // Make `owner` look after the state unless somebody does; from then on `asker`, where it is not the owner, will be told
    // if it is killed.
    Claim claim(const uint64_t* state, unsigned owner, unsigned asker) {
        Shard& shard = of(state);
        std::lock_guard lock(shard.mutex);
        Entry& found = entry(shard, state);
        const uint32_t place = uint32_t(&found - shard.entries.data());
        if (found.known != UNDECIDED) return {found.known, found.owner, false, place};
        const bool given = found.owner == NOBODY;
        if (given) found.owner = uint8_t(owner);
        if (found.owner != asker) found.asking |= 1u << asker;
        return {UNDECIDED, found.owner, given, place};
    }
    // Whether the state has no owner any more: not so where somebody asked about it.
    bool release(const uint64_t* state, uint32_t place) {
        Shard& shard = of(state);
        std::lock_guard lock(shard.mutex);
        Entry& found = place == NOWHERE ? entry(shard, state) : shard.entries[place];
        if (found.asking) return false;
        found.owner = NOBODY;
        return true;
    }
    // The state is unsafe; returns whom to tell (a bit per thread), nobody where it was known.
    uint32_t kill(const uint64_t* state, uint32_t place) {
        Shard& shard = of(state);
        std::lock_guard lock(shard.mutex);
        Entry& found = place == NOWHERE ? entry(shard, state) : shard.entries[place];
        if (found.known == UNSAFE) return 0;
        found.known = UNSAFE;
        return found.asking | (found.owner == NOBODY ? 0 : 1u << found.owner);
    }
    // All owners have kept their promises: what they own and did not kill is safe.
    void settle() {
        for (auto& shard : shards_)
            for (Entry& one : shard->entries) {
                if (one.known == UNDECIDED && one.owner != NOBODY) one.known = SAFE;
                one.owner = NOBODY;
                one.asking = 0;
            }
    }
    // Owners have given up: what was proved stays, all else goes.
    void keep_facts() {
        uint64_t kept = 0;
        for (auto& shard : shards_) {
            std::lock_guard lock(shard->mutex);
            Store<0> old(empty_.words());
            std::swap(old, shard->store);
            const std::vector<Entry> entries = std::move(shard->entries);
            shard->entries = {};
            for (size_t k = 0; k < entries.size(); ++k)
                if (entries[k].known != UNDECIDED) {
                    shard->store.insert(old.state(uint32_t(k)));
                    shard->entries.push_back({0, entries[k].known, NOBODY});
                }
            kept += shard->entries.size() * bytes_each();
        }
        bytes_ = kept;
    }
    uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
    void clear() {
        for (auto& shard : shards_) {
            std::lock_guard lock(shard->mutex);
            shard->store = Store<0>(empty_.words());
            bytes_.fetch_sub(shard->entries.size() * bytes_each(), std::memory_order_relaxed);  // others may publish meanwhile
            std::vector<Entry>().swap(shard->entries);
        }
    }
    bool crowded = false;  // exploring together did not fit into memory

private:
    struct Entry {
        uint32_t asking = 0;
        Known known = UNDECIDED;
        uint8_t owner = NOBODY;
    };
    struct Shard {
        explicit Shard(uint32_t words) : store(words) {}
        mutable std::mutex mutex;
        Store<0> store;
        std::vector<Entry> entries;
    };
    uint64_t bytes_each() const { return empty_.words() * 10 + 24; }  // about what a state takes
    Shard& of(const uint64_t* state) const { return *shards_[empty_.hash(state) & 63]; }
    Entry& entry(Shard& shard, const uint64_t* state) {
        const auto [number, fresh] = shard.store.insert(state);
        if (fresh) {
            shard.entries.emplace_back();
            bytes_.fetch_add(bytes_each(), std::memory_order_relaxed);
        }
        return shard.entries[number];
    }

    const Store<0> empty_;  // says which shard without the lock of any: no store of a shard may be asked
    std::array<std::unique_ptr<Shard>, 64> shards_;
    std::atomic<uint64_t> bytes_{0};
};

}  // namespace polvet
