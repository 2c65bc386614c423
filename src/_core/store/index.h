// Numbers by the hash of what they stand for: open addressing over 32-bit entries.
//
// An entry is a number + 1 in as many bits as numbers need now, and in the others bits of the hash, so that most misses are seen
// without touching what the number stands for. The index is full to 40 to 80%: 5 to 10 bytes per number. Growing frees it before one
// twice as large is filled, in the order of the numbers, from hashes that are computed again: growing by half takes 5 to 7.5 bytes,
// but exploring takes up to a sixth longer.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>

#include "store/chunked.h"
#include "store/portable.h"

namespace polvet {

class Index {
public:
    static constexpr uint32_t NONE = UINT32_MAX;

    Index() { allot(1024); }

    size_t size() const { return count_; }
    size_t bytes() const { return capacity_ * 4; }

    // The number with this hash for which `equal(number)` holds, or NONE.
    template <class Equal> uint32_t find(uint64_t hash, const Equal& equal) const {
        const uint32_t tag = tag_of(hash);
        for (size_t place = home(hash); const uint32_t entry = entries_.get()[place]; place = after(place))
            if ((entry & ~numbers_) == tag && equal((entry & numbers_) - 1)) return (entry & numbers_) - 1;
        return NONE;
    }

    // The same; where there is none, the next number takes its place. `hash_of(number)` is the hash of an earlier one.
    template <class Equal, class HashOf> std::pair<uint32_t, bool> insert(uint64_t hash, const Equal& equal, const HashOf& hash_of) {
        const uint32_t tag = tag_of(hash);
        size_t place = home(hash);
        for (; const uint32_t entry = entries_.get()[place]; place = after(place))
            if ((entry & ~numbers_) == tag && equal((entry & numbers_) - 1)) return {(entry & numbers_) - 1, false};
        if (count_ < limit_) entries_.get()[place] = tag | uint32_t(count_ + 1);
        else {
            grow(hash_of);
            put(uint32_t(count_), hash);
        }
        return {uint32_t(count_++), true};
    }

    void prefetch(uint64_t hash) const { fetch_ahead(entries_.get() + home(hash)); }
    // Second stage, when the entries are near: the number it probably leads to, or NONE.
    uint32_t guess(uint64_t hash) const {
        const uint32_t tag = tag_of(hash);
        for (size_t place = home(hash); const uint32_t entry = entries_.get()[place]; place = after(place))
            if ((entry & ~numbers_) == tag) return (entry & numbers_) - 1;
        return NONE;
    }

    // Forget all numbers; memory is kept. Costs what was stored, not what there is room for.
    template <class HashOf> void clear(const HashOf& hash_of) {
        if (count_ > capacity_ / 16) std::memset(entries_.get(), 0, capacity_ * 4);
        else  // entries of a run stand together: from each home to the end of its run
            for (size_t number = 0; number < count_; ++number)
                for (size_t place = home(hash_of(number)); entries_.get()[place]; place = after(place)) entries_.get()[place] = 0;
        count_ = 0;
    }

private:
    size_t home(uint64_t hash) const { return size_t((Uint128(hash) * capacity_) >> 64); }  // by its upper bits
    uint32_t tag_of(uint64_t hash) const { return uint32_t(hash) & ~numbers_; }
    size_t after(size_t place) const { return place + 1 == capacity_ ? 0 : place + 1; }

    void put(uint32_t number, uint64_t hash) {
        size_t place = home(hash);
        while (entries_.get()[place]) place = after(place);
        entries_.get()[place] = tag_of(hash) | (number + 1);
    }

    template <class HashOf> void grow(const HashOf& hash_of) {
        constexpr size_t AHEAD = 16;
        std::array<uint64_t, AHEAD> hashes;
        allot(2 * capacity_);
        for (size_t number = 0; number < count_ + AHEAD; ++number) {
            if (number >= AHEAD) put(uint32_t(number - AHEAD), hashes[number % AHEAD]);
            if (number < count_) prefetch(hashes[number % AHEAD] = hash_of(number));
        }
    }

    void allot(size_t capacity) {
        entries_.reset();
        entries_.reset(static_cast<uint32_t*>(std::calloc(capacity, 4)));
        if (!entries_) throw std::bad_alloc();
        capacity_ = capacity;
        limit_ = std::min<size_t>(capacity / 5 * 4, UINT32_MAX - 1);
        numbers_ = uint32_t((uint64_t(1) << std::bit_width(limit_)) - 1);
    }

    std::unique_ptr<uint32_t, Free> entries_;
    size_t count_ = 0, capacity_ = 0, limit_ = 0;
    uint32_t numbers_ = 0;  // the bits of an entry that hold number + 1
};

}  // namespace polvet
