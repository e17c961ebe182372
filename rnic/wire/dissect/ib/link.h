// Headers of the InfiniBand link and network layers: LRH, GRH, raw header (IBA 7.7, 8.3, 5.3).
#pragma once

#include <array>
#include <cstdint>

#include "rnic/wire/fields.h"
#include "rnic/wire/layout.h"
#include "rnic/wire/packet_view.h"

namespace urnic::wire {

/// Local Route Header.
struct Lrh {
    std::uint8_t vl = 0;
    std::uint8_t lver = 0;
    std::uint8_t sl = 0;
    std::uint8_t lnh = 0;
    std::uint16_t dlid = 0;
    std::uint16_t length_words = 0;  // 4-byte words from the LRH to the last one before the VCRC
    std::uint16_t slid = 0;
    bool operator==(const Lrh&) const = default;
};
extern const HeaderTable kLrhTable;

/// Global Route Header; IPv6 has the same form.
struct Grh {
    std::uint8_t version = 6;
    std::uint8_t traffic_class = 0;
    std::uint32_t flow_label = 0;
    std::uint16_t payload_length = 0;  // bytes after this header to the last one before the VCRC
    std::uint8_t next_header = 0;
    std::uint8_t hop_limit = 0;
    Gid src_gid{};
    Gid dst_gid{};
    bool operator==(const Grh&) const = default;
};
extern const HeaderTable kGrhTable;
extern const HeaderTable kIpv6Table;

/// Raw header of a packet without InfiniBand transport (IBA 5.3).
struct RawHeader {
    std::uint16_t ether_type = 0;
    bool operator==(const RawHeader&) const = default;
};
inline constexpr std::size_t kRawHeaderBytes = 4;
extern const HeaderTable kRawHeaderTable;

}  // namespace urnic::wire
