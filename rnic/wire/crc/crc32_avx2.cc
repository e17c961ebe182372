// CRC-32 with VPCLMULQDQ on 256-bit registers: 128 bytes a step in four ymm registers.
#include "rnic/wire/crc/crc32_clmul.h"
#include "rnic/wire/crc/crc32_variants.h"
#include "rnic/wire/crc/vcrc_variants.h"

#define URNIC_AVX2 __attribute__((target("avx2,pclmul,vpclmulqdq")))
#define URNIC_AVX2_INLINE __attribute__((target("avx2,pclmul,vpclmulqdq"), always_inline)) inline

namespace urnic::wire {

namespace {

URNIC_AVX2_INLINE __m256i load32(const std::byte* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
URNIC_AVX2_INLINE void store32(std::byte* to, __m256i value) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), value);
}

/// Loads 32 bytes, once, and stores them when copying.
template <bool kCopy>
URNIC_AVX2_INLINE __m256i take32(std::byte* to, const std::byte* from) {
    __m256i data = load32(from);
    asm("" : "+x"(data));
    if constexpr (kCopy) {
        store32(to, data);
    }
    return data;
}

URNIC_AVX2_INLINE __m256i factors_ymm(FoldFactors value) {
    return _mm256_broadcastsi128_si256(clmul::factors(value));
}

URNIC_AVX2_INLINE __m256i fold_ymm(__m256i accumulator, __m256i by, __m256i data) {
    const __m256i low = _mm256_clmulepi64_epi128(accumulator, by, 0x00);
    const __m256i high = _mm256_clmulepi64_epi128(accumulator, by, 0x11);
    return _mm256_xor_si256(_mm256_xor_si256(low, high), data);
}

/// Two neighbouring 128-bit halves as one.
URNIC_AVX2_INLINE __m128i join(__m256i value) {
    return clmul::fold(_mm256_castsi256_si128(value), clmul::factors(clmul::kFold128),
                       _mm256_extracti128_si256(value, 1));
}

inline constexpr FoldFactors kFold768 = fold_factors(768);
inline constexpr FoldFactors kFold1024 = fold_factors(1024);

/// 128 bytes or more; `start` is added to the first 16.
template <bool kCopy>
URNIC_AVX2_INLINE std::uint32_t run_wide(__m128i start, std::byte* to, const std::byte* from,
                                         std::size_t length_bytes) {
    __m256i a = _mm256_xor_si256(take32<kCopy>(to, from), _mm256_zextsi128_si256(start));
    __m256i b = take32<kCopy>(to + 32, from + 32);
    __m256i c = take32<kCopy>(to + 64, from + 64);
    __m256i d = take32<kCopy>(to + 96, from + 96);
    const __m256i by_1024 = factors_ymm(kFold1024);
    std::size_t at = 128;
    for (; at + 128 <= length_bytes; at += 128) {
        a = fold_ymm(a, by_1024, take32<kCopy>(to + at, from + at));
        b = fold_ymm(b, by_1024, take32<kCopy>(to + at + 32, from + at + 32));
        c = fold_ymm(c, by_1024, take32<kCopy>(to + at + 64, from + at + 64));
        d = fold_ymm(d, by_1024, take32<kCopy>(to + at + 96, from + at + 96));
    }
    const __m256i by_256 = factors_ymm(clmul::kFold256);
    d = fold_ymm(a, factors_ymm(kFold768), d);
    d = fold_ymm(b, factors_ymm(clmul::kFold512), d);
    d = fold_ymm(c, by_256, d);
    for (; at + 32 <= length_bytes; at += 32) {
        d = fold_ymm(d, by_256, take32<kCopy>(to + at, from + at));
    }
    return clmul::finish<kCopy>(join(d), to + at, from + at, length_bytes - at);
}

/// The same for 16 bytes or more.
template <bool kCopy>
URNIC_AVX2_INLINE std::uint32_t run_from(__m128i start, std::byte* to, const std::byte* from,
                                         std::size_t length_bytes) {
    if (length_bytes >= 128) {
        return run_wide<kCopy>(start, to, from, length_bytes);
    }
    if (length_bytes < 64) {
        const __m128i first = _mm_xor_si128(clmul::take16<kCopy>(to, from), start);
        return clmul::finish<kCopy>(first, to + 16, from + 16, length_bytes - 16);
    }
    __m256i a = _mm256_xor_si256(take32<kCopy>(to, from), _mm256_zextsi128_si256(start));
    const __m256i by_256 = factors_ymm(clmul::kFold256);
    std::size_t at = 32;
    for (; at + 32 <= length_bytes; at += 32) {
        a = fold_ymm(a, by_256, take32<kCopy>(to + at, from + at));
    }
    return clmul::finish<kCopy>(join(a), to + at, from + at, length_bytes - at);
}

template <bool kCopy>
URNIC_AVX2 std::uint32_t run(std::uint32_t crc, std::byte* to, const std::byte* from,
                             std::size_t length_bytes) {
    if (length_bytes < 16) {
        return clmul::below_16<kCopy>(crc, to, from, length_bytes);
    }
    return run_from<kCopy>(_mm_cvtsi32_si128(static_cast<int>(crc)), to, from, length_bytes);
}

template <bool kCopy>
URNIC_AVX2 std::uint32_t run_headed(const MaskedHead& head, std::byte* to, const std::byte* from,
                                    std::size_t length_bytes) {
    const __m128i accumulator = clmul::take_head(head);
    if (length_bytes < 16) {
        return clmul::finish_below_16<kCopy>(accumulator, to, from, length_bytes);
    }
    return run_from<kCopy>(clmul::carry(accumulator), to, from, length_bytes);
}

URNIC_AVX2 std::uint32_t headed_update(const MaskedHead& head, const std::byte* data,
                                       std::size_t length_bytes) {
    return run_headed<false>(head, const_cast<std::byte*>(data), data, length_bytes);
}

URNIC_AVX2 std::uint32_t update(std::uint32_t crc, const std::byte* data, std::size_t length_bytes) {
    return run<false>(crc, const_cast<std::byte*>(data), data, length_bytes);
}

/// Copies with 32-byte moves; writes nothing outside [to, to + length_bytes).
URNIC_AVX2 void copy_bytes(std::byte* to, const std::byte* from, std::size_t length_bytes) {
    if (length_bytes < 32) {
        copy_bytes_sse(to, from, length_bytes);
        return;
    }
    std::size_t at = 0;
    for (; at + 128 <= length_bytes; at += 128) {
        const __m256i a = load32(from + at);
        const __m256i b = load32(from + at + 32);
        const __m256i c = load32(from + at + 64);
        const __m256i d = load32(from + at + 96);
        store32(to + at, a);
        store32(to + at + 32, b);
        store32(to + at + 64, c);
        store32(to + at + 96, d);
        keep_stores_in_order();
    }
    for (; at + 32 < length_bytes; at += 32) {
        store32(to + at, load32(from + at));
        keep_stores_in_order();
    }
    if (at != length_bytes) {
        store32(to + length_bytes - 32, load32(from + length_bytes - 32));
    }
}

URNIC_AVX2 void copy_payload(std::byte* to, const std::byte* from, std::size_t length_bytes) {
    if (length_bytes != 0) {
        const std::size_t last = last_store_bytes(to, length_bytes);
        copy_bytes(to, from, length_bytes - last);
        publish_last(to + length_bytes - last, from + length_bytes - last, last);
    }
}

bool supported() {
    return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("pclmul") != 0 &&
           __builtin_cpu_supports("vpclmulqdq") != 0;
}

}  // namespace

const Crc32Variant kCrc32Avx2 = {"vpclmulqdq-avx2", supported,     update,           run<true>,
                                 copy_payload,      headed_update, run_headed<true>, vcrc_pclmul};

}  // namespace urnic::wire
