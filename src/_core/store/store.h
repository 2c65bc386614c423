// A set of packed states, numbered in the order of their arrival.
//
// States stand in one flat array; the index is open addressing over 64-bit entries (upper half of the hash, number + 1),
// so most misses are seen without touching the state. A place is named by the hash's upper bits, so doubling the index is one
// sequential pass over the old one. W is the number of words of a state, 0 where it is only known at run time.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "store/portable.h"

namespace polvet {

inline uint64_t mix(uint64_t x) {
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ULL;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ULL;
    return x ^ (x >> 32);
}

template <int W> class Store {
public:
    explicit Store(uint32_t words) : words_(W ? W : words) { grow(10); }

    uint32_t words() const { return W ? W : words_; }
    size_t size() const { return count_; }
    const uint64_t* state(size_t number) const { return states_.data() + number * words(); }
    const uint64_t* data() const { return states_.data(); }
    size_t bytes() const { return states_.capacity() * 8 + index_.capacity() * 8; }

    uint64_t hash(const uint64_t* state) const {
        uint64_t h = mix(state[0] + 0x9e3779b97f4a7c15ULL);
        for (uint32_t i = 1; i < words(); ++i) h = mix(h ^ (state[i] + 0x9e3779b97f4a7c15ULL * (i + 1)));
        return h;
    }
    void prefetch(uint64_t hash) const { fetch_ahead(&index_[slot(hash)]); }
    // Second stage: the entry is near now; fetch the state it names.
    void prefetch_state(uint64_t hash) const {
        uint64_t entry = index_[slot(hash)];
        if (entry && (entry >> 32) == (hash >> 32)) fetch_ahead(state(uint32_t(entry) - 1));
    }

    // The number of the state, and whether it is new.
    std::pair<uint32_t, bool> insert(const uint64_t* state, uint64_t hash) {
        const uint64_t tag = hash >> 32;
        size_t place = slot(hash);
        while (uint64_t entry = index_[place]) {
            if ((entry >> 32) == tag && equal(state, uint32_t(entry) - 1)) return {uint32_t(entry) - 1, false};
            place = (place + 1) & last_;
        }
        if (count_ >= limit_) {
            grow(bits_ + 1);
            place = slot(hash);
            while (index_[place]) place = (place + 1) & last_;
        }
        index_[place] = tag << 32 | uint64_t(count_ + 1);
        if constexpr (W == 1) {
            states_.push_back(*state);
        } else {
            if (states_.size() + words() > states_.capacity()) states_.reserve(states_.capacity() + states_.capacity() / 2 + 4096);
            states_.insert(states_.end(), state, state + words());
        }
        return {uint32_t(count_++), true};
    }
    std::pair<uint32_t, bool> insert(const uint64_t* state) { return insert(state, hash(state)); }

    // Forget all states; memory is kept. Costs what was stored, not what there is room for.
    void clear() {
        if (count_ > last_ / 16) std::fill(index_.begin(), index_.end(), 0);
        else  // entries of a run stand together: from each home to the end of its run
            for (size_t number = 0; number < count_; ++number)
                for (size_t place = slot(hash(state(number))); index_[place]; place = (place + 1) & last_) index_[place] = 0;
        count_ = 0;
        states_.clear();
    }

    // The number of the state, or -1.
    int64_t find(const uint64_t* state) const { return find(state, hash(state)); }
    int64_t find(const uint64_t* state, uint64_t hash) const {
        const uint64_t tag = hash >> 32;
        for (size_t place = slot(hash); uint64_t entry = index_[place]; place = (place + 1) & last_)
            if ((entry >> 32) == tag && equal(state, uint32_t(entry) - 1)) return int64_t(uint32_t(entry)) - 1;
        return -1;
    }

private:
    size_t slot(uint64_t hash) const { return size_t(hash >> (64 - bits_)); }
    bool equal(const uint64_t* state, uint32_t number) const {
        const uint64_t* other = this->state(number);
        if constexpr (W == 1) return *state == *other;
        return std::memcmp(state, other, words() * 8) == 0;
    }
    void grow(uint32_t bits) {
        std::vector<uint64_t> old = std::move(index_);
        bits_ = bits;
        last_ = (size_t(1) << bits) - 1;
        limit_ = (size_t(1) << bits) / 4 * 3;
        index_.assign(size_t(1) << bits, 0);
        for (uint64_t entry : old) {
            if (!entry) continue;
            // The entry keeps the upper 32 bits of its hash; a larger index needs the hash itself.
            size_t place = bits_ <= 32 ? size_t((entry >> 32) >> (32 - bits_)) : slot(hash(state(uint32_t(entry) - 1)));
            while (index_[place]) place = (place + 1) & last_;
            index_[place] = entry;
        }
    }

    uint32_t words_, bits_ = 0;
    size_t count_ = 0, last_ = 0, limit_ = 0;
    std::vector<uint64_t> states_, index_;
};

}  // namespace polvet
