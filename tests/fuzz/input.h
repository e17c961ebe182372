// What a fuzz target does is spelled by its input: bytes become choices, in order; past the end all are zero.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace urnic::fuzz {

class Input {
  public:
    Input(const std::uint8_t* data, std::size_t size) : rest_(std::as_bytes(std::span(data, size))) {}

    [[nodiscard]] bool empty() const { return rest_.empty(); }
    /// A number of T's width in host order; missing bytes count as zero.
    template <typename T>
    T number() {
        static_assert(std::is_integral_v<T>);
        T value = 0;
        const std::span<const std::byte> from = bytes(sizeof value);
        std::memcpy(&value, from.data(), from.size());
        return value;
    }
    std::uint8_t byte() { return number<std::uint8_t>(); }
    bool flag() { return (byte() & 1U) != 0; }
    /// 0 .. limit - 1.
    std::uint32_t below(std::uint32_t limit) {
        return (limit <= 256     ? byte()
                : limit <= 65536 ? number<std::uint16_t>()
                                 : number<std::uint32_t>()) %
               limit;
    }
    /// Up to `count` bytes, fewer at the end.
    std::span<const std::byte> bytes(std::size_t count) {
        const std::size_t taken = std::min(count, rest_.size());
        const std::span<const std::byte> result = rest_.first(taken);
        rest_ = rest_.subspan(taken);
        return result;
    }
    std::span<const std::byte> all() { return bytes(rest_.size()); }

  private:
    std::span<const std::byte> rest_;
};

}  // namespace urnic::fuzz
