// What urnic capture notes on a packet.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "abi/capture.h"

namespace urnic::cli {

/// What is known of a packet beyond its bytes, as words: "fate=delivered qpn=0x11 state=RTS expected_psn=4
/// next_psn=9".
class PacketNote {
  public:
    explicit PacketNote(const abi::CaptureRecord& record);
    [[nodiscard]] std::string_view text() const { return {text_.data(), size_}; }

  private:
    void put(std::string_view words);
    void put(std::uint32_t number, int base = 10);

    std::array<char, 192> text_;  // up to size_
    std::size_t size_ = 0;
};

}  // namespace urnic::cli
