// Headers of the InfiniBand link and network layers: LRH, GRH, raw header (IBA 7.7, 8.3, 5.3).
#pragma once

#include <array>
#include <cstdint>

#include "rnic/wire/fields.h"
#include "rnic/wire/packet_view.h"

namespace urnic::wire {

/// Link Next Header: what follows the LRH (IBA table 16).
enum LinkNextHeader : std::uint8_t {
    kLnhRaw = 0,        // raw header with an EtherType
    kLnhIpv6 = 1,       // IPv6, no InfiniBand transport
    kLnhTransport = 2,  // BTH: a packet of the local subnet
    kLnhGlobal = 3,     // GRH
};

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
inline constexpr std::size_t kLrhBytes = 8;
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
inline constexpr std::size_t kGrhBytes = 40;
/// GRH.NxtHdr of a packet with InfiniBand transport (IBA 8.3).
inline constexpr std::uint8_t kNextHeaderIba = 0x1b;
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
