// What compilers and systems do differently; no other file names it.
//
// polvet is compiled by GCC, by Clang and, on Windows, by clang-cl. Integers of 128 bits, vectors, checked arithmetic and jumps to
// labels are what they have in common; Microsoft's own compiler has none of them.
#pragma once
#include <cstdint>

#if !defined(__GNUC__) && !defined(__clang__)
#error "polvet's kernels are compiled by GCC or Clang; on Windows choose clang-cl: see docs/install.md"
#endif

#define POLVET_NOINLINE __attribute__((noinline))
#define POLVET_INLINE inline __attribute__((always_inline))
#define POLVET_VECTOR(bytes, element) __attribute__((vector_size(bytes), aligned(sizeof(element)), may_alias))

#ifdef __clang__
#define POLVET_UNROLL_8 _Pragma("clang loop unroll_count(8)")
#else
#define POLVET_UNROLL_8 _Pragma("GCC unroll 8")
#endif

// One function compiled for two instruction sets, chosen when the module is loaded: the same text, hence the same bits.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__gnu_linux__)
#define POLVET_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define POLVET_CLONES
#endif

// Whether a file can be compiled again for AVX2 within another one.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#define POLVET_AVX2 1
#define POLVET_HAS_AVX2() __builtin_cpu_supports("avx2")
#endif

namespace polvet {

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 Uint128;

inline Int128 floor_div(Int128 a, Int128 b) {
    const Int128 q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

// Whether the exact result does not fit; the wrapped one is stored.
template <class T> inline bool add_overflows(T a, T b, T* result) { return __builtin_add_overflow(a, b, result); }
template <class T> inline bool subtract_overflows(T a, T b, T* result) { return __builtin_sub_overflow(a, b, result); }
template <class T> inline bool multiply_overflows(T a, T b, T* result) { return __builtin_mul_overflow(a, b, result); }

// The number of the lowest bit that is set; there must be one.
inline int lowest_bit(uint32_t bits) { return __builtin_ctz(bits); }

inline void fetch_ahead(const void* place) { __builtin_prefetch(place); }

}  // namespace polvet
