// What urnic capture notes on a packet.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "abi/capture.h"
#include "base/check.h"

namespace urnic::cli {

/// What is known of a packet beyond its bytes, as words: "fate=delivered qpn=0x11 state=RTS expected_psn=4
/// next_psn=9".
class PacketNote {
  public:
    explicit PacketNote(const abi::CaptureRecord& record);
    [[nodiscard]] std::string_view text() const { return {text_.data(), size_}; }

  private:
    [[gnu::always_inline]] void put(std::string_view words) {
        URNIC_CHECK(words.size() <= text_.size() - size_);
        std::memcpy(text_.data() + size_, words.data(), words.size());
        size_ += words.size();
    }
    void put(std::uint32_t number, int base = 10);

    std::array<char, 192> text_;  // up to size_
    std::size_t size_ = 0;
};

}  // namespace urnic::cli
