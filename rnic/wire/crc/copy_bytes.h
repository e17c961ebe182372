// Copying payload so that its last bytes become visible last.
//
// An application that waits for an RDMA WRITE by polling the last byte of its buffer must see everything
// before it once it sees that byte. x86 makes stores visible in program order, but a vector store may reach
// memory in parts when it crosses a cache line, so the last bytes go out in one naturally aligned store of at
// most eight bytes, which is atomic, after all others.
#pragma once

#include <emmintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace urnic::wire {

/// Keeps the compiler from moving stores across and from turning the loop around it into a call of memcpy,
/// whose `rep movsb` is slow when source and destination lie at unlucky distances.
inline void keep_stores_in_order() { asm volatile("" ::: "memory"); }

template <class Word>
inline void copy_word(std::byte* to, const std::byte* from) {
    Word word;
    std::memcpy(&word, from, sizeof word);
    std::memcpy(to, &word, sizeof word);
}

/// Copies fewer than 16 bytes.
inline void copy_below_16(std::byte* to, const std::byte* from, std::size_t length_bytes) {
    if (length_bytes >= 8) {
        copy_word<std::uint64_t>(to, from);
        copy_word<std::uint64_t>(to + length_bytes - 8, from + length_bytes - 8);
    } else if (length_bytes >= 4) {
        copy_word<std::uint32_t>(to, from);
        copy_word<std::uint32_t>(to + length_bytes - 4, from + length_bytes - 4);
    } else if (length_bytes >= 2) {
        copy_word<std::uint16_t>(to, from);
        copy_word<std::uint16_t>(to + length_bytes - 2, from + length_bytes - 2);
    } else if (length_bytes == 1) {
        *to = *from;
    }
}

inline __m128i load16(const std::byte* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
inline void store16(std::byte* to, __m128i value) { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), value); }

/// Copies with 16-byte moves; writes nothing outside [to, to + length_bytes).
inline void copy_bytes_sse(std::byte* to, const std::byte* from, std::size_t length_bytes) {
    if (length_bytes < 16) {
        copy_below_16(to, from, length_bytes);
        return;
    }
    while (length_bytes >= 64) {
        const __m128i a = load16(from);
        const __m128i b = load16(from + 16);
        const __m128i c = load16(from + 32);
        const __m128i d = load16(from + 48);
        store16(to, a);
        store16(to + 16, b);
        store16(to + 32, c);
        store16(to + 48, d);
        keep_stores_in_order();
        to += 64;
        from += 64;
        length_bytes -= 64;
        if (length_bytes < 16) {
            // What is left ends inside the last 16 bytes: those overlap what is copied already.
            store16(to + length_bytes - 16, load16(from + length_bytes - 16));
            return;
        }
    }
    for (std::size_t at = 0; at + 16 < length_bytes; at += 16) {
        store16(to + at, load16(from + at));
        keep_stores_in_order();
    }
    store16(to + length_bytes - 16, load16(from + length_bytes - 16));
}

/// The bytes, a power of two up to eight, that one aligned store at the end of [to, to + length_bytes) can
/// write. `length_bytes` is not 0.
inline std::size_t last_store_bytes(const std::byte* to, std::size_t length_bytes) {
    const auto end = reinterpret_cast<std::uintptr_t>(to) + length_bytes;
    std::size_t bytes = (end | 8U) & -(end | 8U);
    while (bytes > length_bytes) {
        bytes /= 2;
    }
    return bytes;
}

template <class Word>
inline void store_last(std::byte* to, const std::byte* from) {
    Word word;
    std::memcpy(&word, from, sizeof word);
    __atomic_store_n(reinterpret_cast<Word*>(to), word, __ATOMIC_RELEASE);
}

/// The final store: all bytes written before it are visible before it.
inline void publish_last(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes == 8) {
        store_last<std::uint64_t>(to, from);
    } else if (bytes == 4) {
        store_last<std::uint32_t>(to, from);
    } else if (bytes == 2) {
        store_last<std::uint16_t>(to, from);
    } else {
        store_last<std::uint8_t>(to, from);
    }
}

}  // namespace urnic::wire
