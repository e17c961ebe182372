// CRC-32 with PCLMULQDQ: 64 bytes a step in four xmm registers.
#include "rnic/wire/crc/crc32_clmul.h"
#include "rnic/wire/crc/crc32_variants.h"
#include "rnic/wire/crc/vcrc_variants.h"

#define URNIC_PCLMUL __attribute__((target("sse4.1,pclmul")))

namespace urnic::wire {

namespace {

/// 16 bytes or more; `start` is added to the first 16.
template <bool kCopy>
URNIC_PCLMUL_INLINE std::uint32_t run_from(__m128i start, std::byte* to, const std::byte* from,
                                           std::size_t length_bytes) {
    using namespace clmul;
    __m128i a = _mm_xor_si128(take16<kCopy>(to, from), start);
    if (length_bytes < 64) {
        return finish<kCopy>(a, to + 16, from + 16, length_bytes - 16);
    }
    __m128i b = take16<kCopy>(to + 16, from + 16);
    __m128i c = take16<kCopy>(to + 32, from + 32);
    __m128i d = take16<kCopy>(to + 48, from + 48);
    const __m128i by_512 = factors(kFold512);
    std::size_t at = 64;
    for (; at + 64 <= length_bytes; at += 64) {
        a = fold(a, by_512, take16<kCopy>(to + at, from + at));
        b = fold(b, by_512, take16<kCopy>(to + at + 16, from + at + 16));
        c = fold(c, by_512, take16<kCopy>(to + at + 32, from + at + 32));
        d = fold(d, by_512, take16<kCopy>(to + at + 48, from + at + 48));
    }
    d = fold(a, factors(kFold384), d);
    d = fold(b, factors(kFold256), d);
    d = fold(c, factors(kFold128), d);
    return finish<kCopy>(d, to + at, from + at, length_bytes - at);
}

template <bool kCopy>
URNIC_PCLMUL std::uint32_t run(std::uint32_t crc, std::byte* to, const std::byte* from,
                               std::size_t length_bytes) {
    if (length_bytes < 16) {
        return clmul::below_16<kCopy>(crc, to, from, length_bytes);
    }
    return run_from<kCopy>(_mm_cvtsi32_si128(static_cast<int>(crc)), to, from, length_bytes);
}

template <bool kCopy>
URNIC_PCLMUL std::uint32_t run_headed(const MaskedHead& head, std::byte* to, const std::byte* from,
                                      std::size_t length_bytes) {
    const __m128i accumulator = clmul::take_head(head);
    if (length_bytes < 16) {
        return clmul::finish_below_16<kCopy>(accumulator, to, from, length_bytes);
    }
    return run_from<kCopy>(clmul::carry(accumulator), to, from, length_bytes);
}

std::uint32_t headed_update(const MaskedHead& head, const std::byte* data, std::size_t length_bytes) {
    return run_headed<false>(head, const_cast<std::byte*>(data), data, length_bytes);
}

std::uint32_t update(std::uint32_t crc, const std::byte* data, std::size_t length_bytes) {
    return run<false>(crc, const_cast<std::byte*>(data), data, length_bytes);
}

void copy_payload(std::byte* to, const std::byte* from, std::size_t length_bytes) {
    if (length_bytes != 0) {
        const std::size_t last = last_store_bytes(to, length_bytes);
        copy_bytes_sse(to, from, length_bytes - last);
        publish_last(to + length_bytes - last, from + length_bytes - last, last);
    }
}

bool supported() { return __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.1") != 0; }

}  // namespace

const Crc32Variant kCrc32Pclmul = {"pclmulqdq",  supported,     update,           run<true>,
                                   copy_payload, headed_update, run_headed<true>, vcrc_pclmul};

}  // namespace urnic::wire
