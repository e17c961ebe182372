#include "base/pcapng.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace urnic {

namespace {

// Block types (draft-ietf-opsawg-pcapng 4).
constexpr std::uint32_t kSectionHeader = 0x0a0d0d0a;
constexpr std::uint32_t kInterfaceDescription = 1;
constexpr std::uint32_t kInterfaceStatistics = 5;
constexpr std::uint32_t kEnhancedPacket = 6;
// Options of each.
constexpr std::uint16_t kOptEnd = 0;
constexpr std::uint16_t kOptComment = 1;
constexpr std::uint16_t kShbUserappl = 4;
constexpr std::uint16_t kIfName = 2;
constexpr std::uint16_t kIfDescription = 3;
constexpr std::uint16_t kIfTsresol = 9;
constexpr std::uint16_t kIfFilter = 11;
constexpr std::uint16_t kEpbFlags = 2;
constexpr std::uint16_t kEpbDropcount = 4;
constexpr std::uint16_t kIsbIfrecv = 4;
constexpr std::uint16_t kIsbIfdrop = 5;
constexpr std::size_t kMostOptionBytes = 0xffff;

/// In the machine's byte order, which the section header tells the reader.
class Block {
  public:
    explicit Block(std::uint32_t type) {
        u32(type);
        u32(0);
    }
    void u16(std::uint16_t value) { raw(&value, sizeof value); }
    void u32(std::uint32_t value) { raw(&value, sizeof value); }
    void u64(std::uint64_t value) { raw(&value, sizeof value); }
    void time(std::uint64_t ns) {
        u32(static_cast<std::uint32_t>(ns >> 32U));
        u32(static_cast<std::uint32_t>(ns));
    }
    void padded(const void* data, std::size_t bytes) {
        raw(data, bytes);
        bytes_.append((4 - bytes % 4) % 4, '\0');
    }
    void option(std::uint16_t code, const void* data, std::size_t bytes) {
        u16(code);
        u16(static_cast<std::uint16_t>(bytes));
        padded(data, bytes);
        has_options_ = true;
    }
    void text(std::uint16_t code, std::string_view text) {
        if (!text.empty()) {
            option(code, text.data(), std::min(text.size(), kMostOptionBytes));
        }
    }
    void number(std::uint16_t code, std::uint64_t value) { option(code, &value, sizeof value); }
    [[nodiscard]] std::string take() {
        if (has_options_) {
            u32(kOptEnd);
        }
        const auto length = static_cast<std::uint32_t>(bytes_.size() + sizeof(std::uint32_t));
        bytes_.replace(sizeof(std::uint32_t), sizeof length, reinterpret_cast<const char*>(&length),
                       sizeof length);
        u32(length);
        return std::move(bytes_);
    }

  private:
    void raw(const void* data, std::size_t bytes) { bytes_.append(static_cast<const char*>(data), bytes); }

    std::string bytes_;
    bool has_options_ = false;
};

}  // namespace

std::string pcapng_section(std::string_view application) {
    constexpr std::uint32_t kByteOrderMagic = 0x1a2b3c4d;
    constexpr std::uint64_t kLengthUnknown = ~std::uint64_t{0};
    Block block(kSectionHeader);
    block.u32(kByteOrderMagic);
    block.u16(1);  // version 1.0
    block.u16(0);
    block.u64(kLengthUnknown);
    block.text(kShbUserappl, application);
    return block.take();
}

std::string pcapng_interface(const PcapngInterface& interface) {
    constexpr std::uint8_t kNanoseconds = 9;
    Block block(kInterfaceDescription);
    block.u16(static_cast<std::uint16_t>(interface.link_type));
    block.u16(0);
    block.u32(interface.snap_bytes);
    block.text(kIfName, interface.name);
    block.text(kIfDescription, interface.description);
    block.option(kIfTsresol, &kNanoseconds, sizeof kNanoseconds);
    if (!interface.filter.empty()) {
        // The first octet says in what language: 0, as libpcap writes it.
        block.text(kIfFilter, std::string(1, '\0').append(interface.filter));
    }
    return block.take();
}

namespace {

constexpr std::size_t padded(std::size_t bytes) { return (bytes + 3) & ~std::size_t{3}; }

/// Words in the machine's byte order, into room that is there and zero.
class Words {
  public:
    explicit Words(char* to) : to_(to) {}
    void u32(std::uint32_t value) { put(&value, sizeof value); }
    void option(std::uint16_t code, const void* value, std::size_t bytes) {
        const std::uint16_t head[] = {code, static_cast<std::uint16_t>(bytes)};
        put(head, sizeof head);
        put(value, bytes);
    }
    void put(const void* from, std::size_t bytes) {
        std::memcpy(to_, from, bytes);
        to_ += padded(bytes);
    }

  private:
    char* to_;
};

}  // namespace

std::size_t pcapng_packet_bytes(const PcapngPacket& packet) {
    constexpr std::size_t kFixedWords = 8;  // in front of the packet and behind the options
    constexpr std::size_t kOptionHead = 4;
    std::size_t bytes = kFixedWords * sizeof(std::uint32_t) + padded(packet.bytes.size());
    std::size_t options = 0;
    if (packet.direction != PcapngDirection::kUnknown) options += kOptionHead + sizeof(std::uint32_t);
    if (packet.dropped != 0) options += kOptionHead + sizeof packet.dropped;
    if (!packet.comment.empty()) {
        options += kOptionHead + padded(std::min(packet.comment.size(), kMostOptionBytes));
    }
    if (options != 0) options += kOptionHead;  // opt_endofopt
    return bytes + options;
}

void append_pcapng_packet(const PcapngPacket& packet, std::string& to) {
    const std::size_t begin = to.size();
    const std::size_t bytes = pcapng_packet_bytes(packet);
    const auto length = static_cast<std::uint32_t>(bytes);
    to.resize(begin + bytes);
    Words words(to.data() + begin);
    for (const std::uint32_t word :
         {kEnhancedPacket, length, packet.interface, static_cast<std::uint32_t>(packet.time_ns >> 32U),
          static_cast<std::uint32_t>(packet.time_ns), static_cast<std::uint32_t>(packet.bytes.size()),
          packet.wire_bytes}) {
        words.u32(word);
    }
    if (!packet.bytes.empty()) words.put(packet.bytes.data(), packet.bytes.size());
    if (packet.direction != PcapngDirection::kUnknown) {
        const auto flags = static_cast<std::uint32_t>(packet.direction);
        words.option(kEpbFlags, &flags, sizeof flags);
    }
    if (packet.dropped != 0) words.option(kEpbDropcount, &packet.dropped, sizeof packet.dropped);
    if (!packet.comment.empty()) {
        words.option(kOptComment, packet.comment.data(), std::min(packet.comment.size(), kMostOptionBytes));
    }
    std::memcpy(to.data() + to.size() - sizeof length, &length, sizeof length);
}

std::string pcapng_packet(const PcapngPacket& packet) {
    std::string block;
    append_pcapng_packet(packet, block);
    return block;
}

std::string pcapng_statistics(const PcapngStatistics& statistics) {
    Block block(kInterfaceStatistics);
    block.u32(statistics.interface);
    block.time(statistics.time_ns);
    block.number(kIsbIfrecv, statistics.received);
    block.number(kIsbIfdrop, statistics.dropped);
    return block.take();
}

}  // namespace urnic
