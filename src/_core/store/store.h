// A set of packed states, numbered in the order of their arrival: the states as rows of words, and an index over them.
//
// W is the number of words of a state, 0 where it is only known at run time.
#pragma once
#include <cstdint>
#include <cstring>

#include "store/chunked.h"
#include "store/index.h"

namespace polvet {

inline uint64_t mix(uint64_t x) {
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ULL;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ULL;
    return x ^ (x >> 32);
}

// The hash of a state, or of its words from `first` on where `hash` is that of the ones before.
inline uint64_t hash_words(const uint64_t* words, uint32_t count, uint32_t first = 0, uint64_t hash = 0) {
    for (uint32_t i = 0; i < count; ++i) hash = mix(hash ^ (words[i] + 0x9e3779b97f4a7c15ULL * (first + i + 1)));
    return hash;
}

template <int W> class Store {
public:
    explicit Store(uint32_t words) : states_(words) {}

    uint32_t words() const { return states_.words(); }
    size_t size() const { return index_.size(); }
    const uint64_t* state(size_t number) const { return states_[number]; }
    const uint64_t* state(size_t number, uint64_t*) const { return state(number); }  // as of a Tree, which needs room to write it
    bool is(size_t number, const uint64_t* state) const {
        const uint64_t* other = this->state(number);
        if constexpr (W == 1) return *state == *other;
        return std::memcmp(state, other, words() * 8) == 0;
    }
    size_t bytes() const { return states_.bytes() + index_.bytes(); }

    uint64_t hash(const uint64_t* state) const { return hash_words(state, words()); }
    void prefetch(uint64_t hash) const { index_.prefetch(hash); }
    // Second stage: the entry is near now; fetch the state it names.
    void prefetch_state(uint64_t hash) const {
        if (const uint32_t number = index_.guess(hash); number != Index::NONE) fetch_ahead(state(number));
    }

    // The number of the state, and whether it is new.
    std::pair<uint32_t, bool> insert(const uint64_t* state, uint64_t hash) {
        const auto hash_of = [this](size_t number) { return this->hash(this->state(number)); };
        const auto added = index_.insert(hash, [&](uint32_t number) { return is(number, state); }, hash_of);
        if (added.second) states_.push(state);
        return added;
    }
    std::pair<uint32_t, bool> insert(const uint64_t* state) { return insert(state, hash(state)); }

    // The number of the state, or -1.
    int64_t find(const uint64_t* state) const { return find(state, hash(state)); }
    int64_t find(const uint64_t* state, uint64_t hash) const {
        const uint32_t number = index_.find(hash, [&](uint32_t other) { return is(other, state); });
        return number == Index::NONE ? -1 : int64_t(number);
    }

    // Forget all states; memory is kept.
    void clear() {
        index_.clear([this](size_t number) { return hash(state(number)); });
        states_.clear();
    }

private:
    Chunked<W> states_;
    Index index_;
};

}  // namespace polvet
