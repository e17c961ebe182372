// CRC-32 with VPCLMULQDQ on 512-bit registers: 256 bytes a step in four zmm registers. Shorter runs go to the
// 256-bit variant, which every CPU that has this one has too.
#include "rnic/wire/crc/crc32_clmul.h"
#include "rnic/wire/crc/crc32_variants.h"
#include "rnic/wire/crc/vcrc_clmul.h"

#define URNIC_AVX512 __attribute__((target("avx512f,avx512vl,avx512bw,pclmul,vpclmulqdq")))
#define URNIC_AVX512_INLINE \
    __attribute__((target("avx512f,avx512vl,avx512bw,pclmul,vpclmulqdq"), always_inline)) inline

namespace urnic::wire {

namespace {

/// Loads 64 bytes, once, and stores them when copying.
template <bool kCopy>
URNIC_AVX512_INLINE __m512i take64(std::byte* to, const std::byte* from) {
    __m512i data = _mm512_loadu_si512(from);
    asm("" : "+v"(data));
    if constexpr (kCopy) {
        _mm512_storeu_si512(to, data);
    }
    return data;
}

URNIC_AVX512_INLINE __m512i factors_zmm(FoldFactors value) {
    const auto low = static_cast<long long>(value.low);
    const auto high = static_cast<long long>(value.high);
    return _mm512_set4_epi64(high, low, high, low);
}

URNIC_AVX512_INLINE __m512i fold_zmm(__m512i accumulator, __m512i by, __m512i data) {
    const __m512i low = _mm512_clmulepi64_epi128(accumulator, by, 0x00);
    const __m512i high = _mm512_clmulepi64_epi128(accumulator, by, 0x11);
    return _mm512_ternarylogic_epi64(low, high, data, 0x96);  // exclusive or of all three
}

/// Four neighbouring 128-bit quarters as one, by factors for so many bits.
URNIC_AVX512_INLINE __m128i join(__m512i value, FoldFactors by_384, FoldFactors by_256, FoldFactors by_128) {
    constexpr __mmask8 kAll = 0xff;  // the forms without a mask look uninitialised to GCC 12
    __m128i last = _mm512_maskz_extracti32x4_epi32(kAll, value, 3);
    last = clmul::fold(_mm512_maskz_extracti32x4_epi32(kAll, value, 0), clmul::factors(by_384), last);
    last = clmul::fold(_mm512_maskz_extracti32x4_epi32(kAll, value, 1), clmul::factors(by_256), last);
    return clmul::fold(_mm512_maskz_extracti32x4_epi32(kAll, value, 2), clmul::factors(by_128), last);
}

inline constexpr FoldFactors kFold1024 = fold_factors(1024);
inline constexpr FoldFactors kFold1536 = fold_factors(1536);
inline constexpr FoldFactors kFold2048 = fold_factors(2048);

/// Below this the longer way back to one register costs more than the wider steps win.
inline constexpr std::size_t kLeastBytes = 256;

/// kLeastBytes or more; `start` is added to the first 16.
template <bool kCopy>
URNIC_AVX512_INLINE std::uint32_t run_from(__m128i start, std::byte* to, const std::byte* from,
                                           std::size_t length_bytes) {
    __m512i a = _mm512_xor_si512(take64<kCopy>(to, from), _mm512_zextsi128_si512(start));
    __m512i b = take64<kCopy>(to + 64, from + 64);
    __m512i c = take64<kCopy>(to + 128, from + 128);
    __m512i d = take64<kCopy>(to + 192, from + 192);
    const __m512i by_2048 = factors_zmm(kFold2048);
    std::size_t at = 256;
    for (; at + 256 <= length_bytes; at += 256) {
        a = fold_zmm(a, by_2048, take64<kCopy>(to + at, from + at));
        b = fold_zmm(b, by_2048, take64<kCopy>(to + at + 64, from + at + 64));
        c = fold_zmm(c, by_2048, take64<kCopy>(to + at + 128, from + at + 128));
        d = fold_zmm(d, by_2048, take64<kCopy>(to + at + 192, from + at + 192));
    }
    const __m512i by_512 = factors_zmm(clmul::kFold512);
    d = fold_zmm(a, factors_zmm(kFold1536), d);
    d = fold_zmm(b, factors_zmm(kFold1024), d);
    d = fold_zmm(c, by_512, d);
    for (; at + 64 <= length_bytes; at += 64) {
        d = fold_zmm(d, by_512, take64<kCopy>(to + at, from + at));
    }
    const __m128i last = join(d, clmul::kFold384, clmul::kFold256, clmul::kFold128);
    return clmul::finish<kCopy>(last, to + at, from + at, length_bytes - at);
}

template <bool kCopy>
URNIC_AVX512 std::uint32_t run(std::uint32_t crc, std::byte* to, const std::byte* from,
                               std::size_t length_bytes) {
    if (length_bytes < kLeastBytes) {
        return kCopy ? kCrc32Avx2.copy(crc, to, from, length_bytes)
                     : kCrc32Avx2.update(crc, from, length_bytes);
    }
    return run_from<kCopy>(_mm_cvtsi32_si128(static_cast<int>(crc)), to, from, length_bytes);
}

template <bool kCopy>
URNIC_AVX512 std::uint32_t run_headed(const MaskedHead& head, std::byte* to, const std::byte* from,
                                      std::size_t length_bytes) {
    if (length_bytes < kLeastBytes) {
        return kCopy ? kCrc32Avx2.headed_copy(head, to, from, length_bytes)
                     : kCrc32Avx2.headed_update(head, from, length_bytes);
    }
    return run_from<kCopy>(clmul::carry(clmul::take_head(head)), to, from, length_bytes);
}

URNIC_AVX512 std::uint32_t headed_update(const MaskedHead& head, const std::byte* data,
                                         std::size_t length_bytes) {
    return run_headed<false>(head, const_cast<std::byte*>(data), data, length_bytes);
}

URNIC_AVX512 std::uint32_t update(std::uint32_t crc, const std::byte* data, std::size_t length_bytes) {
    return run<false>(crc, const_cast<std::byte*>(data), data, length_bytes);
}

/// The copy alone gains nothing from wider registers.
void copy_payload(std::byte* to, const std::byte* from, std::size_t length_bytes) {
    kCrc32Avx2.copy_payload(to, from, length_bytes);
}

inline constexpr FoldFactors kVcrcFold1024 = clmul::vcrc_factors(1024);
inline constexpr FoldFactors kVcrcFold1536 = clmul::vcrc_factors(1536);
inline constexpr FoldFactors kVcrcFold2048 = clmul::vcrc_factors(2048);

/// kLeastBytes or more.
URNIC_AVX512 std::uint16_t run_vcrc(std::uint16_t crc, const std::byte* from, std::size_t length_bytes) {
    __m512i a =
        _mm512_xor_si512(take64<false>(nullptr, from), _mm512_zextsi128_si512(_mm_cvtsi32_si128(crc)));
    __m512i b = take64<false>(nullptr, from + 64);
    __m512i c = take64<false>(nullptr, from + 128);
    __m512i d = take64<false>(nullptr, from + 192);
    const __m512i by_2048 = factors_zmm(kVcrcFold2048);
    std::size_t at = kLeastBytes;
    for (; at + 256 <= length_bytes; at += 256) {
        a = fold_zmm(a, by_2048, take64<false>(nullptr, from + at));
        b = fold_zmm(b, by_2048, take64<false>(nullptr, from + at + 64));
        c = fold_zmm(c, by_2048, take64<false>(nullptr, from + at + 128));
        d = fold_zmm(d, by_2048, take64<false>(nullptr, from + at + 192));
    }
    d = fold_zmm(a, factors_zmm(kVcrcFold1536), d);
    d = fold_zmm(b, factors_zmm(kVcrcFold1024), d);
    d = fold_zmm(c, factors_zmm(clmul::kVcrcFold512), d);
    const __m128i last = join(d, clmul::kVcrcFold384, clmul::kVcrcFold256, clmul::kVcrcFold128);
    return clmul::vcrc_finish(last, from + at, length_bytes - at);
}

std::uint16_t vcrc(std::uint16_t crc, std::span<const std::byte> data) {
    return data.size() < kLeastBytes ? vcrc_pclmul(crc, data) : run_vcrc(crc, data.data(), data.size());
}

bool supported() {
    return kCrc32Avx2.supported() && __builtin_cpu_supports("avx512f") != 0 &&
           __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512bw") != 0;
}

}  // namespace

const Crc32Variant kCrc32Avx512 = {"vpclmulqdq-avx512", supported,     update,           run<true>,
                                   copy_payload,        headed_update, run_headed<true>, vcrc};

}  // namespace urnic::wire
