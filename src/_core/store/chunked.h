// Rows of words, numbered, in chunks: what is stored is never copied again, and at most one chunk is not full.
//
// W is the number of words of a row, 0 where it is only known at run time. The first chunk begins small and doubles.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace polvet {

struct Free {
    void operator()(void* memory) const { std::free(memory); }
};

template <int W> class Chunked {
public:
    explicit Chunked(uint32_t words) : words_(words) {}

    uint32_t words() const { return W ? W : words_; }
    const uint64_t* operator[](size_t number) const { return chunks_[number >> BITS].get() + (number & (CHUNK - 1)) * words(); }
    size_t bytes() const { return capacity_ * words() * 8; }
    void clear() { size_ = 0; }

    void push(const uint64_t* row) {
        if (size_ == capacity_) grow();
        uint64_t* place = chunks_[size_ >> BITS].get() + (size_ & (CHUNK - 1)) * words();
        if constexpr (W == 1) *place = *row;
        else std::memcpy(place, row, words() * 8);
        ++size_;
    }

private:
    static constexpr size_t BITS = 14, CHUNK = size_t(1) << BITS, FIRST = 64;

    void grow() {
        const bool first = capacity_ < CHUNK;
        if (!first || chunks_.empty()) chunks_.emplace_back();
        const size_t rows = !first ? CHUNK : capacity_ ? 2 * capacity_ : FIRST;
        void* larger = std::realloc(chunks_.back().get(), rows * words() * 8);
        if (!larger) throw std::bad_alloc();
        (void)chunks_.back().release();
        chunks_.back().reset(static_cast<uint64_t*>(larger));
        capacity_ = first ? rows : capacity_ + rows;
    }

    uint32_t words_;
    std::vector<std::unique_ptr<uint64_t, Free>> chunks_;
    size_t size_ = 0, capacity_ = 0;
};

}  // namespace polvet
