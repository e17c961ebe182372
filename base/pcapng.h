// Blocks of pcapng files (draft-ietf-opsawg-pcapng), each as the bytes that are appended to the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace urnic {

/// LINKTYPE_ values of https://www.tcpdump.org/linktypes.html.
enum class PcapLinkType : std::uint16_t { kEthernet = 1, kErf = 197, kInfiniBand = 247 };

struct PcapngInterface {
    PcapLinkType link_type = PcapLinkType::kEthernet;
    std::uint32_t snap_bytes = 0;  // 0: no limit
    std::string_view name;         // if_name; empty: none
    std::string_view description;  // if_description
    std::string_view filter;       // if_filter, as text
};

enum class PcapngDirection : std::uint8_t { kUnknown = 0, kInbound = 1, kOutbound = 2 };

struct PcapngPacket {
    std::uint32_t interface = 0;  // in the order of the section's interfaces
    std::uint64_t time_ns = 0;    // since 1970
    std::uint32_t wire_bytes = 0;
    std::span<const std::byte> bytes;  // what was captured of it
    PcapngDirection direction = PcapngDirection::kUnknown;
    std::uint64_t dropped =
        0;                     // epb_dropcount: not captured between the interface's last packet and this one
    std::string_view comment;  // UTF-8; empty: none
};

/// isb_ifrecv and isb_ifdrop: what an interface saw, and what of that is not in the file.
struct PcapngStatistics {
    std::uint32_t interface = 0;
    std::uint64_t time_ns = 0;
    std::uint64_t received = 0;
    std::uint64_t dropped = 0;
};

/// Begins a file; `application` (shb_userappl) may be empty.
[[nodiscard]] std::string pcapng_section(std::string_view application);
/// Its packets have nanoseconds.
[[nodiscard]] std::string pcapng_interface(const PcapngInterface& interface);
[[nodiscard]] std::string pcapng_packet(const PcapngPacket& packet);
/// The same behind what is in `to`, of which nothing is allocated while it has the capacity.
void append_pcapng_packet(const PcapngPacket& packet, std::string& to);
[[nodiscard]] std::size_t pcapng_packet_bytes(const PcapngPacket& packet);
[[nodiscard]] std::string pcapng_statistics(const PcapngStatistics& statistics);

}  // namespace urnic
