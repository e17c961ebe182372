// A stream that knows how far it was read, so that errors can say where.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <istream>
#include <span>
#include <string>
#include <vector>

#include "cli/decode/capture_reader.h"

namespace urnic::decode {

/// Longest packet or block that is believed. Anything longer is damage, and would take that much memory.
inline constexpr std::size_t kLongestBlock = std::size_t{16} << 20U;

class ByteSource {
  public:
    ByteSource(std::istream& stream, std::string name) : stream_(stream), name_(std::move(name)) {}

    /// Up to `count` bytes; fewer at the end of the file.
    [[nodiscard]] std::vector<std::byte> read(std::size_t count);
    /// Exactly `count` bytes of `what`; throws when the file ends before.
    [[nodiscard]] std::vector<std::byte> read_all(std::size_t count, const std::string& what);
    /// Puts bytes back in front of what is still to be read.
    void unread(std::vector<std::byte> bytes);

    [[nodiscard]] std::uint64_t offset() const { return offset_; }
    [[noreturn]] void fail(std::uint64_t offset, const std::string& what) const;

  private:
    std::istream& stream_;
    std::string name_;
    std::vector<std::byte> pending_;
    std::uint64_t offset_ = 0;
};

/// Unsigned numbers of either byte order at an offset that the caller has checked.
template <class T>
[[nodiscard]] T load(std::span<const std::byte> bytes, std::size_t offset, bool big_endian) {
    T value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
        const std::size_t from = big_endian ? i : sizeof(T) - 1 - i;
        value =
            static_cast<T>(std::uint64_t{value} << 8U | std::to_integer<std::uint64_t>(bytes[offset + from]));
    }
    return value;
}

}  // namespace urnic::decode
