// A set of packed states of three or more words, numbered in the order of their arrival: each half is stored once.
//
// Source   A. Laarman, J. van de Pol, M. Weber, Parallel recursive state compression for free, SPIN 2011
// Differs  two levels; the index is over the hash of the whole state, so that looking up touches halves only to compare them
// Cost     8 bytes per state, 5 to 10 for the index, and the halves, of which there are few where parts of a model move by turns
#pragma once
#include "store/store.h"

namespace polvet {

template <int W> class Tree {
public:
    explicit Tree(uint32_t words) : words_(words), left_(words - words / 2), right_(words / 2) {}

    uint32_t words() const { return W ? W : words_; }
    size_t size() const { return index_.size(); }
    // The state, written to `room`.
    const uint64_t* state(size_t number, uint64_t* room) const {
        const uint64_t halves = *halves_[number];
        std::memcpy(room, left_.state(halves >> 32), left_.words() * 8);
        std::memcpy(room + left_.words(), right_.state(uint32_t(halves)), right_.words() * 8);
        return room;
    }
    size_t bytes() const { return halves_.bytes() + index_.bytes() + left_.bytes() + right_.bytes(); }

    uint64_t hash(const uint64_t* state) const { return hash_words(state, words()); }
    void prefetch(uint64_t hash) const { index_.prefetch(hash); }
    void prefetch_state(uint64_t hash) const {
        if (const uint32_t number = index_.guess(hash); number != Index::NONE) fetch_ahead(halves_[number]);
    }

    // The number of the state, and whether it is new.
    std::pair<uint32_t, bool> insert(const uint64_t* state, uint64_t hash) {
        const auto hash_of = [this](size_t number) {
            const uint64_t halves = *halves_[number], left = hash_words(left_.state(halves >> 32), left_.words());
            return hash_words(right_.state(uint32_t(halves)), right_.words(), left_.words(), left);
        };
        const auto added = index_.insert(hash, [&](uint32_t number) { return is(number, state); }, hash_of);
        if (added.second) {
            const uint64_t halves = uint64_t(left_.insert(state).first) << 32 | right_.insert(state + left_.words()).first;
            halves_.push(&halves);
        }
        return added;
    }
    std::pair<uint32_t, bool> insert(const uint64_t* state) { return insert(state, hash(state)); }

    // The number of the state, or -1.
    int64_t find(const uint64_t* state) const { return find(state, hash(state)); }
    int64_t find(const uint64_t* state, uint64_t hash) const {
        const uint32_t number = index_.find(hash, [&](uint32_t other) { return is(other, state); });
        return number == Index::NONE ? -1 : int64_t(number);
    }

private:
    using Left = Store<W - W / 2>;
    using Right = Store<W / 2>;

    bool is(size_t number, const uint64_t* state) const {
        const uint64_t halves = *halves_[number];
        return left_.is(halves >> 32, state) && right_.is(uint32_t(halves), state + left_.words());
    }

    uint32_t words_;
    Left left_;
    Right right_;
    Chunked<1> halves_{1};  // per state: the number of the left one, and of the right one
    Index index_;
};

}  // namespace polvet
