// The variant CRC with PCLMULQDQ: 64 bytes a step in four xmm registers.
#include "rnic/wire/crc/vcrc_clmul.h"

namespace urnic::wire {

namespace {

constexpr std::size_t kLeastBytes = 64;

__attribute__((target("sse4.1,pclmul"))) std::uint16_t run(std::uint16_t crc, const std::byte* from,
                                                           std::size_t length_bytes) {
    using namespace clmul;
    __m128i a = _mm_xor_si128(load_once(from), _mm_cvtsi32_si128(crc));
    __m128i b = load_once(from + 16);
    __m128i c = load_once(from + 32);
    __m128i d = load_once(from + 48);
    const __m128i by_512 = factors(kVcrcFold512);
    std::size_t at = kLeastBytes;
    for (; at + 64 <= length_bytes; at += 64) {
        a = fold(a, by_512, load_once(from + at));
        b = fold(b, by_512, load_once(from + at + 16));
        c = fold(c, by_512, load_once(from + at + 32));
        d = fold(d, by_512, load_once(from + at + 48));
    }
    d = fold(a, factors(kVcrcFold384), d);
    d = fold(b, factors(kVcrcFold256), d);
    d = fold(c, factors(kVcrcFold128), d);
    return vcrc_finish(d, from + at, length_bytes - at);
}

}  // namespace

std::uint16_t vcrc_pclmul(std::uint16_t crc, std::span<const std::byte> data) {
    return data.size() < kLeastBytes ? vcrc_table(crc, data) : run(crc, data.data(), data.size());
}

}  // namespace urnic::wire
