// Capture files of each format, written from their specifications, to feed the readers with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace urnic::test {

struct CapturedPacket {
    std::vector<std::byte> bytes;
    std::size_t wire_bytes = 0;
    std::uint64_t time_ns = 0;
};

/// A growing file.
class FileBytes {
  public:
    explicit FileBytes(bool big_endian = false) : big_endian_(big_endian) {}
    FileBytes& number(std::uint64_t value, unsigned length_bytes) {
        for (unsigned i = 0; i < length_bytes; ++i) {
            const unsigned from = big_endian_ ? length_bytes - 1 - i : i;
            text_ += static_cast<char>(value >> 8U * from);
        }
        return *this;
    }
    FileBytes& u16(std::uint64_t value) { return number(value, 2); }
    FileBytes& u32(std::uint64_t value) { return number(value, 4); }
    FileBytes& bytes(std::span<const std::byte> bytes) {
        text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return *this;
    }
    FileBytes& zeros(std::size_t count) {
        text_.append(count, '\0');
        return *this;
    }
    FileBytes& append(const std::string& text) {
        text_ += text;
        return *this;
    }
    [[nodiscard]] const std::string& text() const { return text_; }

  private:
    bool big_endian_;
    std::string text_;
};

inline std::string pcap_file(bool big_endian, bool nanoseconds, std::uint32_t link_type,
                             const std::vector<CapturedPacket>& packets) {
    FileBytes file(big_endian);
    file.u32(nanoseconds ? 0xa1b23c4dU : 0xa1b2c3d4U).u16(2).u16(4).u32(0).u32(0).u32(262144).u32(link_type);
    for (const CapturedPacket& packet : packets) {
        file.u32(packet.time_ns / 1'000'000'000)
            .u32(packet.time_ns % 1'000'000'000 / (nanoseconds ? 1 : 1000));
        file.u32(packet.bytes.size()).u32(packet.wire_bytes).bytes(packet.bytes);
    }
    return file.text();
}

inline std::string pcapng_block(bool big_endian, std::uint32_t type, const std::string& body) {
    const std::size_t padded = (body.size() + 3) / 4 * 4;
    FileBytes block(big_endian);
    block.u32(type).u32(padded + 12).append(body).zeros(padded - body.size()).u32(padded + 12);
    return block.text();
}

inline std::string pcapng_section(bool big_endian) {
    return pcapng_block(big_endian, 0x0a0d0d0aU,
                        FileBytes(big_endian).u32(0x1a2b3c4dU).u16(1).u16(0).number(~0ULL, 8).text());
}

/// `resolution`: the option if_tsresol; 6 is what a file without the option means.
inline std::string pcapng_interface(bool big_endian, std::uint32_t link_type, std::uint8_t resolution,
                                    std::uint32_t snap_length = 0) {
    FileBytes body(big_endian);
    body.u16(link_type).u16(0).u32(snap_length);
    if (resolution != 6) {
        body.u16(2).u16(3).append("eth").zeros(1).u16(9).u16(1).number(resolution, 1).zeros(3).u32(0);
    }
    return pcapng_block(big_endian, 1, body.text());
}

inline std::string pcapng_packet(bool big_endian, std::uint32_t interface, std::uint64_t ticks,
                                 const CapturedPacket& packet) {
    FileBytes body(big_endian);
    body.u32(interface).u32(ticks >> 32U).u32(ticks & 0xffff'ffffU);
    body.u32(packet.bytes.size()).u32(packet.wire_bytes).bytes(packet.bytes);
    return pcapng_block(big_endian, 6, body.text());
}

/// A record with `extensions` extension headers and, as capture cards write it, padding to eight bytes.
/// `flags`: 4 says that records differ in length.
inline std::string erf_record(std::uint8_t type, unsigned extensions, const CapturedPacket& packet,
                              std::uint8_t flags = 4) {
    const std::size_t front = 16 + std::size_t{8} * extensions + (type == 2 ? 2 : 0);
    const std::size_t padded = (front + packet.bytes.size() + 7) / 8 * 8;
    const std::uint64_t seconds = packet.time_ns / 1'000'000'000;
    const std::uint64_t fraction = ((packet.time_ns % 1'000'000'000 << 32U) + 999'999'999) / 1'000'000'000;
    FileBytes file(true);
    file.append(FileBytes(false).number(seconds << 32U | fraction, 8).text());
    file.number(type | (extensions != 0 ? 0x80U : 0U), 1)
        .number(flags, 1)
        .u16(padded)
        .u16(0)
        .u16(packet.wire_bytes);
    for (unsigned i = 1; i <= extensions; ++i) {
        file.number(i < extensions ? 0x85 : 0x05, 1).zeros(7);
    }
    file.zeros(type == 2 ? 2 : 0).bytes(packet.bytes).zeros(padded - front - packet.bytes.size());
    return file.text();
}

}  // namespace urnic::test
