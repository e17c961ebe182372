// CRC-32 by table, eight bytes a step: for CPUs without carry-less multiplication.
#include "base/bytes.h"
#include "rnic/wire/crc/copy_bytes.h"
#include "rnic/wire/crc/crc32_poly.h"
#include "rnic/wire/crc/crc32_variants.h"
#include "rnic/wire/crc/vcrc_variants.h"

namespace urnic::wire {

namespace {

constexpr std::uint64_t kLrhOnes = ~std::uint64_t{0};

std::uint32_t step_byte(std::uint32_t crc, std::byte byte) {
    return (crc >> 8U) ^ kCrc32Slices[0][(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xffU];
}

std::uint32_t step_word(std::uint32_t crc, std::uint64_t word) {
    word ^= crc;
    std::uint32_t result = 0;
    for (unsigned i = 0; i < 8; ++i) {
        result ^= kCrc32Slices[7 - i][(word >> (8 * i)) & 0xffU];
    }
    return result;
}

std::uint32_t update(std::uint32_t crc, const std::byte* data, std::size_t length_bytes) {
    for (; length_bytes >= 8; length_bytes -= 8, data += 8) {
        crc = step_word(crc, load_le64(data));
    }
    for (; length_bytes != 0; --length_bytes, ++data) {
        crc = step_byte(crc, *data);
    }
    return crc;
}

std::uint32_t copy(std::uint32_t crc, std::byte* to, const std::byte* from, std::size_t length_bytes) {
    for (; length_bytes >= 8; length_bytes -= 8, from += 8, to += 8) {
        // One load for both: the source may be memory that the application writes meanwhile, and the frame
        // must carry the bytes that its ICRC covers.
        const std::uint64_t word = load_le64(from);
        std::memcpy(to, &word, sizeof word);
        crc = step_word(crc, word);
    }
    for (; length_bytes != 0; --length_bytes, ++from, ++to) {
        const std::byte byte = *const_cast<const volatile std::byte*>(from);
        *to = byte;
        crc = step_byte(crc, byte);
    }
    return crc;
}

std::uint32_t update_head(const MaskedHead& head) {
    std::uint32_t crc = update(~0U, reinterpret_cast<const std::byte*>(&kLrhOnes), sizeof kLrhOnes);
    for (std::size_t at = 0; at < head.length_bytes; ++at) {
        crc = step_byte(crc, head.bytes[at] | head.ones[at]);
    }
    return crc;
}

std::uint32_t headed_update(const MaskedHead& head, const std::byte* data, std::size_t length_bytes) {
    return update(update_head(head), data, length_bytes);
}

std::uint32_t headed_copy(const MaskedHead& head, std::byte* to, const std::byte* from,
                          std::size_t length_bytes) {
    return copy(update_head(head), to, from, length_bytes);
}

void copy_payload(std::byte* to, const std::byte* from, std::size_t length_bytes) {
    if (length_bytes != 0) {
        const std::size_t last = last_store_bytes(to, length_bytes);
        copy_bytes_sse(to, from, length_bytes - last);
        publish_last(to + length_bytes - last, from + length_bytes - last, last);
    }
}

bool supported() { return true; }

}  // namespace

const Crc32Variant kCrc32Table = {"table",      supported,     update,      copy,
                                  copy_payload, headed_update, headed_copy, vcrc_table};

}  // namespace urnic::wire
