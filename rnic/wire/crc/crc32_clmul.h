// CRC-32 by carry-less multiplication, 128 bits at a time: what the variants with SSE, AVX2 and AVX-512
// share. Method: V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction".
//
// In the fused copies every source byte is loaded once and stored from the register that the CRC is made
// from: the application may write its buffer meanwhile, and a frame must carry the bytes that its ICRC
// covers. Functions that do not copy (kCopy false) get some valid pointer as `to` and leave it alone.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "rnic/wire/crc/copy_bytes.h"
#include "rnic/wire/crc/crc32_poly.h"
#include "rnic/wire/crc/masked_head.h"

#define URNIC_PCLMUL_INLINE __attribute__((target("sse4.1,pclmul"), always_inline)) inline

namespace urnic::wire::clmul {

__extension__ using Uint128 = unsigned __int128;

inline constexpr FoldFactors kFold128 = fold_factors(128);
inline constexpr FoldFactors kFold256 = fold_factors(256);
inline constexpr FoldFactors kFold384 = fold_factors(384);
inline constexpr FoldFactors kFold512 = fold_factors(512);

URNIC_PCLMUL_INLINE __m128i factors(FoldFactors value) {
    return _mm_set_epi64x(static_cast<long long>(value.high), static_cast<long long>(value.low));
}

/// `accumulator` moved ahead by the distance of `by`, and `data` added.
URNIC_PCLMUL_INLINE __m128i fold(__m128i accumulator, __m128i by, __m128i data) {
    const __m128i low = _mm_clmulepi64_si128(accumulator, by, 0x00);
    const __m128i high = _mm_clmulepi64_si128(accumulator, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), data);
}

/// The CRC register that 128 bits stand for: 128 to 96 to 64 bits, then Barrett's reduction.
URNIC_PCLMUL_INLINE std::uint32_t reduce(__m128i value) {
    // floor(x^64 / P) and P itself, reflected.
    constexpr std::uint64_t kQuotient = 0x1'f701'1641;
    constexpr std::uint64_t kPolynomial = std::uint64_t{kCrc32Reflected} << 1U | 1U;
    const __m128i low_word = _mm_set_epi32(0, 0, 0, -1);
    const __m128i by_128 = factors(kFold128);
    const __m128i by_64 = factors({power_of_x(64), 0});
    const __m128i barrett = factors({kPolynomial, kQuotient});
    value = _mm_xor_si128(_mm_srli_si128(value, 8), _mm_clmulepi64_si128(value, by_128, 0x10));
    value = _mm_xor_si128(_mm_srli_si128(value, 4),
                          _mm_clmulepi64_si128(_mm_and_si128(value, low_word), by_64, 0x00));
    __m128i multiple = _mm_clmulepi64_si128(_mm_and_si128(value, low_word), barrett, 0x10);
    multiple = _mm_clmulepi64_si128(_mm_and_si128(multiple, low_word), barrett, 0x00);
    return static_cast<std::uint32_t>(_mm_extract_epi32(_mm_xor_si128(value, multiple), 1));
}

/// Loads 16 bytes, once, whatever the compiler would like to do later.
URNIC_PCLMUL_INLINE __m128i load_once(const std::byte* from) {
    __m128i value = load16(from);
    asm("" : "+x"(value));
    return value;
}

/// Loads 16 bytes and, when copying, stores them.
template <bool kCopy>
URNIC_PCLMUL_INLINE __m128i take16(std::byte* to, const std::byte* from) {
    const __m128i data = load_once(from);
    if constexpr (kCopy) {
        store16(to, data);
    }
    return data;
}

/// Bytes of kShift + n are the shuffle that moves bytes up by 16 - n, of kShift + 16 + n down by n.
inline constexpr std::uint8_t kShift[48] = {
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
    0,    1,    2,    3,    4,    5,    6,    7,    8,    9,    10,   11,   12,   13,   14,   15,
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80};

/// Stores the low `count` (0..15) bytes.
URNIC_PCLMUL_INLINE void store_low(std::byte* to, __m128i value, std::size_t count) {
    auto word = static_cast<std::uint64_t>(_mm_cvtsi128_si64(value));
    if ((count & 8U) != 0) {
        std::memcpy(to, &word, 8);
        word = static_cast<std::uint64_t>(_mm_extract_epi64(value, 1));
        to += 8;
    }
    if ((count & 4U) != 0) {
        std::memcpy(to, &word, 4);
        word >>= 32U;
        to += 4;
    }
    if ((count & 2U) != 0) {
        std::memcpy(to, &word, 2);
        word >>= 16U;
        to += 2;
    }
    if ((count & 1U) != 0) {
        *to = static_cast<std::byte>(word);
    }
}

/// The end of a run: `accumulator` stands for everything before `from`, at least 16 bytes, and `count` bytes
/// follow.
template <bool kCopy>
URNIC_PCLMUL_INLINE std::uint32_t finish(__m128i accumulator, std::byte* to, const std::byte* from,
                                         std::size_t count) {
    const __m128i by_128 = factors(kFold128);
    for (; count >= 16; count -= 16, from += 16, to += 16) {
        accumulator = fold(accumulator, by_128, take16<kCopy>(to, from));
    }
    if (count != 0) {
        // The last `count` bytes, with bytes in front of them that are counted already and masked here.
        const __m128i data = load_once(from + count - 16);
        const __m128i up = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kShift + count));
        const __m128i down = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kShift + 16 + count));
        if constexpr (kCopy) {
            const __m128i fresh = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kShift + 32 - count));
            store_low(to, _mm_shuffle_epi8(data, fresh), count);
        }
        const __m128i next = _mm_blendv_epi8(data, _mm_shuffle_epi8(accumulator, down), up);
        accumulator = fold(_mm_shuffle_epi8(accumulator, up), by_128, next);
    }
    return reduce(accumulator);
}

/// Loads 4 to 15 bytes as one number: two loads that may overlap, joined before anything else uses them.
template <bool kCopy>
URNIC_PCLMUL_INLINE Uint128 take_below_16(std::byte* to, const std::byte* from, std::size_t count) {
    const auto shift = static_cast<unsigned>(8 * (count < 8 ? count - 4 : count - 8));
    Uint128 bytes = 0;
    if (count < 8) {
        bytes = std::uint64_t{load_le32(from + count - 4)} << shift | load_le32(from);
        if constexpr (kCopy) {
            store_le32(to, static_cast<std::uint32_t>(bytes));
            store_le32(to + count - 4, static_cast<std::uint32_t>(bytes >> shift));
        }
    } else {
        bytes = Uint128{load_le64(from + count - 8)} << shift | load_le64(from);
        if constexpr (kCopy) {
            const std::uint64_t first = static_cast<std::uint64_t>(bytes);
            const std::uint64_t last = static_cast<std::uint64_t>(bytes >> shift);
            std::memcpy(to, &first, 8);
            std::memcpy(to + count - 8, &last, 8);
        }
    }
    return bytes;
}

/// The same for 1 to 3 bytes.
template <bool kCopy>
URNIC_PCLMUL_INLINE Uint128 take_below_4(std::byte* to, const std::byte* from, std::size_t count) {
    std::uint32_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::byte byte = *const_cast<const volatile std::byte*>(from + i);
        if constexpr (kCopy) {
            to[i] = byte;
        }
        bytes |= std::to_integer<std::uint32_t>(byte) << (8 * i);
    }
    return bytes;
}

URNIC_PCLMUL_INLINE __m128i as_vector(Uint128 value) {
    return _mm_set_epi64x(static_cast<long long>(value >> 64U), static_cast<long long>(value));
}

/// Fewer than 16 bytes.
template <bool kCopy>
URNIC_PCLMUL_INLINE std::uint32_t below_16(std::uint32_t crc, std::byte* to, const std::byte* from,
                                           std::size_t count) {
    if (count < 4) {
        for (std::size_t i = 0; i < count; ++i) {
            const std::byte byte = *const_cast<const volatile std::byte*>(from + i);
            if constexpr (kCopy) {
                to[i] = byte;
            }
            crc = (crc >> 8U) ^ kCrc32Slices[0][(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xffU];
        }
        return crc;
    }
    const Uint128 bytes = take_below_16<kCopy>(to, from, count) ^ crc;
    return reduce(as_vector(bytes << (8 * (16 - count))));
}

/// The accumulator after a head: its first block is what is left of its length beyond whole blocks, behind
/// the eight bytes of ones. Of those the register's own ones, with which a run starts, cancel the first four.
URNIC_PCLMUL_INLINE __m128i take_head(const MaskedHead& head) {
    alignas(32) static constexpr std::uint8_t kOnes[28] = {
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    const std::size_t odd = head.length_bytes % 16;
    const __m128i up = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kShift + odd));
    const __m128i ones = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kOnes + odd));
    const __m128i by_128 = factors(kFold128);
    __m128i accumulator =
        _mm_or_si128(_mm_shuffle_epi8(_mm_or_si128(load16(head.bytes), load16(head.ones)), up), ones);
    for (std::size_t at = odd; at < head.length_bytes; at += 16) {
        accumulator =
            fold(accumulator, by_128, _mm_or_si128(load16(head.bytes + at), load16(head.ones + at)));
    }
    return accumulator;
}

/// What `accumulator` adds to the 16 bytes that follow.
URNIC_PCLMUL_INLINE __m128i carry(__m128i accumulator) {
    return fold(accumulator, factors(kFold128), _mm_setzero_si128());
}

/// The end of a run: `accumulator` stands for everything before `from`, at least 16 bytes, and fewer than 16
/// follow, with nothing in front of them that may be read.
template <bool kCopy>
URNIC_PCLMUL_INLINE std::uint32_t finish_below_16(__m128i accumulator, std::byte* to, const std::byte* from,
                                                  std::size_t count) {
    if (count != 0) {
        const Uint128 bytes =
            count < 4 ? take_below_4<kCopy>(to, from, count) : take_below_16<kCopy>(to, from, count);
        const __m128i up = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kShift + count));
        const __m128i down = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kShift + 16 + count));
        const __m128i next =
            _mm_or_si128(as_vector(bytes << (8 * (16 - count))), _mm_shuffle_epi8(accumulator, down));
        accumulator = fold(_mm_shuffle_epi8(accumulator, up), factors(kFold128), next);
    }
    return reduce(accumulator);
}

}  // namespace urnic::wire::clmul
