/// Bounded reading and writing of XDR (RFC 4506): 32-bit big-endian words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace urnic::rpcrdma {

/// The octets of `length` octets in XDR: rounded up to words.
[[nodiscard]] constexpr std::size_t xdr_padded(std::size_t length) { return (length + 3) & ~std::size_t{3}; }

/// Reads words in order. What is beyond the end reads as 0 and sets `failed()`, so a caller may read a whole
/// structure and ask once.
class XdrReader {
  public:
    explicit XdrReader(std::span<const std::byte> octets) : octets_(octets) {}

    [[nodiscard]] std::uint32_t u32() {
        if (failed_ || remaining() < 4) {
            failed_ = true;
            return 0;
        }
        std::uint32_t value = 0;
        for (int i = 0; i < 4; ++i) {
            value = value << 8U | std::to_integer<std::uint32_t>(octets_[at_++]);
        }
        return value;
    }
    [[nodiscard]] std::uint64_t u64() {
        const std::uint64_t high = u32();
        return high << 32U | u32();
    }
    /// A word that must be 0 or 1 (RFC 4506, section 4.4); else failed().
    [[nodiscard]] bool boolean() {
        const std::uint32_t value = u32();
        failed_ = failed_ || value > 1;
        return value == 1;
    }
    /// opaque<>: a word with the length, the octets, padding. Empty with failed() if it is longer than what
    /// is left or than `most`.
    [[nodiscard]] std::span<const std::byte> opaque(std::size_t most) {
        const std::size_t length = u32();
        if (failed_ || length > most || xdr_padded(length) > remaining()) {
            failed_ = true;
            return {};
        }
        const std::span<const std::byte> data = octets_.subspan(at_, length);
        at_ += xdr_padded(length);
        return data;
    }
    [[nodiscard]] std::size_t position() const { return at_; }
    [[nodiscard]] std::size_t remaining() const { return octets_.size() - at_; }
    [[nodiscard]] std::span<const std::byte> rest() const { return octets_.subspan(at_); }
    [[nodiscard]] bool failed() const { return failed_; }
    void fail() { failed_ = true; }

  private:
    std::span<const std::byte> octets_;
    std::size_t at_ = 0;
    bool failed_ = false;
};

/// Writes words in order. What does not fit is not written and sets `failed()`.
class XdrWriter {
  public:
    explicit XdrWriter(std::span<std::byte> room) : room_(room) {}

    void u32(std::uint32_t value) {
        if (failed_ || room_.size() - at_ < 4) {
            failed_ = true;
            return;
        }
        for (unsigned shift = 32; shift != 0;) {
            shift -= 8;
            room_[at_++] = static_cast<std::byte>(value >> shift);
        }
    }
    void u64(std::uint64_t value) {
        u32(static_cast<std::uint32_t>(value >> 32U));
        u32(static_cast<std::uint32_t>(value));
    }
    void boolean(bool value) { u32(value ? 1 : 0); }
    void opaque(std::span<const std::byte> data) {
        u32(static_cast<std::uint32_t>(data.size()));
        if (failed_ || room_.size() - at_ < xdr_padded(data.size())) {
            failed_ = true;
            return;
        }
        for (std::size_t i = 0; i < xdr_padded(data.size()); ++i) {
            room_[at_++] = i < data.size() ? data[i] : std::byte{0};
        }
    }
    [[nodiscard]] std::size_t size() const { return at_; }
    [[nodiscard]] std::span<const std::byte> written() const { return room_.first(at_); }
    [[nodiscard]] bool failed() const { return failed_; }

  private:
    std::span<std::byte> room_;
    std::size_t at_ = 0;
    bool failed_ = false;
};

}  // namespace urnic::rpcrdma
