// The readers behind open_capture().
#pragma once

#include <memory>
#include <span>

#include "cli/decode/byte_source.h"

namespace urnic::decode {

/// Link types of pcap and pcapng (tcpdump.org/linktypes.html) that are decoded.
inline constexpr std::uint32_t kLinkTypeEthernet = 1;
inline constexpr std::uint32_t kLinkTypeErf = 197;
inline constexpr std::uint32_t kLinkTypeInfiniBand = 247;

[[nodiscard]] bool is_known_link_type(std::uint32_t link_type);
/// "link type 113 cannot be decoded: only ..."
[[nodiscard]] std::string unknown_link_type(std::uint32_t link_type);

/// Fills in what a packet of this link type has: for ERF, the record's own header decides.
void set_packet(std::uint32_t link_type, std::vector<std::byte> bytes, std::size_t wire_bytes,
                Record& record);

[[nodiscard]] bool is_pcap(std::span<const std::byte> start);
[[nodiscard]] bool is_pcapng(std::span<const std::byte> start);
/// Returns whether the first record's header can be one: ERF has no magic number.
[[nodiscard]] bool is_erf_file(std::span<const std::byte> start);

[[nodiscard]] std::unique_ptr<CaptureReader> make_pcap_reader(ByteSource source);
[[nodiscard]] std::unique_ptr<CaptureReader> make_pcapng_reader(ByteSource source);
[[nodiscard]] std::unique_ptr<CaptureReader> make_erf_reader(ByteSource source);

inline constexpr std::size_t kErfHeaderBytes = 16;
/// Takes an ERF record apart: `bytes` is header and what the record length says. Its time, link and packet.
void set_erf_record(std::span<const std::byte> bytes, Record& record);

}  // namespace urnic::decode
