// pcapng: sections of either byte order, any number of interfaces.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "cli/decode/readers.h"

namespace urnic::decode {

namespace {

constexpr std::uint32_t kSectionHeader = 0x0a0d0d0aU;
constexpr std::uint32_t kInterfaceDescription = 1;
constexpr std::uint32_t kObsoletePacket = 2;
constexpr std::uint32_t kSimplePacket = 3;
constexpr std::uint32_t kEnhancedPacket = 6;
constexpr std::uint32_t kByteOrderMagic = 0x1a2b3c4dU;
constexpr std::size_t kBlockHeadBytes = 8;     // type, total length
constexpr std::size_t kBlockTrailerBytes = 4;  // total length again
constexpr std::uint16_t kOptionEnd = 0;
constexpr std::uint16_t kOptionComment = 1;
constexpr std::uint16_t kOptionInterfaceName = 2;  // of an interface
constexpr std::uint16_t kOptionPacketFlags = 2;    // of a packet
constexpr std::uint16_t kOptionTimeResolution = 9;

struct Interface {
    std::uint32_t link_type = 0;
    std::uint32_t snap_length = 0;  // 0: no limit
    std::string name;
    std::uint8_t time_resolution = 6;  // as in the option: power of ten, or of two with the top bit set
};

std::uint64_t power_of_ten(unsigned exponent) {
    std::uint64_t value = 1;
    while (exponent-- != 0) {
        value *= 10;
    }
    return value;
}

std::uint64_t to_ns(std::uint64_t ticks, std::uint8_t resolution) {
    const unsigned exponent = resolution & 0x7fU;
    if ((resolution & 0x80U) == 0) {
        const std::uint64_t per_second = power_of_ten(std::min(exponent, 19U));
        const std::uint64_t rest = ticks % per_second;
        return ticks / per_second * kNsPerSecond + (exponent <= 9
                                                        ? rest * power_of_ten(9 - exponent)
                                                        : rest / power_of_ten(std::min(exponent, 19U) - 9));
    }
    if (exponent > 63) {
        return 0;  // finer than 64 bits can count a second
    }
    std::uint64_t rest = ticks & ((std::uint64_t{1} << exponent) - 1);
    const unsigned bits = std::min(exponent, 32U);
    rest >>= exponent - bits;
    return (ticks >> exponent) * kNsPerSecond + (rest * kNsPerSecond >> bits);
}

std::string text(std::span<const std::byte> value) {
    return {reinterpret_cast<const char*>(value.data()), value.size()};
}

struct Block {
    std::uint32_t type = 0;
    std::uint64_t offset = 0;  // of the block in the file
    std::vector<std::byte> body;
};

class PcapngReader : public CaptureReader {
  public:
    explicit PcapngReader(ByteSource source) : source_(std::move(source)) {}

    std::optional<Record> next() override {
        for (;;) {
            const std::optional<Block> block = next_block();
            if (!block) {
                return std::nullopt;
            }
            switch (block->type) {
                case kInterfaceDescription:
                    add_interface(*block);
                    break;
                case kEnhancedPacket:
                    return packet(*block, load32(*block, 0, "interface"), 4);
                case kObsoletePacket:
                    return packet(*block, load16(*block, 0, "interface"), 4);
                case kSimplePacket:
                    return simple_packet(*block);
                default:
                    break;  // names, statistics, the writer's own
            }
        }
    }

  private:
    std::uint16_t load16(const Block& block, std::size_t at, const char* what) const {
        need(block, at + 2, what);
        return load<std::uint16_t>(block.body, at, big_endian_);
    }
    std::uint32_t load32(const Block& block, std::size_t at, const char* what) const {
        need(block, at + 4, what);
        return load<std::uint32_t>(block.body, at, big_endian_);
    }
    void need(const Block& block, std::size_t bytes, const char* what) const {
        if (block.body.size() < bytes) {
            source_.fail(block.offset,
                         fmt::format("block of type {} is too short for its {}", block.type, what));
        }
    }

    std::optional<Block> next_block();
    std::uint32_t total_length(const std::vector<std::byte>& head, std::uint64_t offset);
    void add_interface(const Block& block);
    const Interface& interface_of(const Block& block, std::uint32_t index) const;
    /// Calls visit(code, value) for each option from `at` on.
    template <typename Visitor>
    void for_each_option(const Block& block, std::size_t at, const Visitor& visit) const;
    Record packet(const Block& block, std::uint32_t interface, std::size_t at);
    Record simple_packet(const Block& block);
    std::vector<std::byte> data(const Block& block, std::size_t at, std::size_t captured) const;

    ByteSource source_;
    bool big_endian_ = false;
    std::vector<Interface> interfaces_;
};

/// A section header decides the byte order of all that follows it, its own length included.
std::uint32_t PcapngReader::total_length(const std::vector<std::byte>& head, std::uint64_t offset) {
    if (load<std::uint32_t>(head, 0, true) == kSectionHeader) {
        std::vector<std::byte> magic = source_.read_all(4, "a section header");
        big_endian_ = load<std::uint32_t>(magic, 0, true) == kByteOrderMagic;
        if (!big_endian_ && load<std::uint32_t>(magic, 0, false) != kByteOrderMagic) {
            source_.fail(offset + kBlockHeadBytes, "the byte-order magic of the section is wrong");
        }
        source_.unread(std::move(magic));
        interfaces_.clear();
    }
    return load<std::uint32_t>(head, 4, big_endian_);
}

std::optional<Block> PcapngReader::next_block() {
    Block block;
    block.offset = source_.offset();
    const std::vector<std::byte> head = source_.read(kBlockHeadBytes);
    if (head.empty()) {
        return std::nullopt;
    }
    if (head.size() != kBlockHeadBytes) {
        source_.fail(block.offset, "the file ends in the middle of a block's header");
    }
    const std::uint32_t length = total_length(head, block.offset);
    block.type = load<std::uint32_t>(head, 0, big_endian_);
    if (length < kBlockHeadBytes + kBlockTrailerBytes || length % 4 != 0 || length > kLongestBlock) {
        source_.fail(block.offset + 4,
                     fmt::format("block of type {} claims a length of {} bytes: the file is damaged",
                                 block.type, length));
    }
    block.body = source_.read_all(length - kBlockHeadBytes, fmt::format("a block of type {}", block.type));
    const auto again = load<std::uint32_t>(block.body, block.body.size() - kBlockTrailerBytes, big_endian_);
    if (again != length) {
        source_.fail(
            source_.offset() - kBlockTrailerBytes,
            fmt::format("the block began with a length of {} bytes and ends with {}: the file is damaged",
                        length, again));
    }
    block.body.erase(block.body.end() - kBlockTrailerBytes, block.body.end());
    return block;
}

void PcapngReader::add_interface(const Block& block) {
    Interface interface;
    interface.link_type = load16(block, 0, "link type");
    interface.snap_length = load32(block, 4, "snap length");
    for_each_option(block, 8, [&](std::uint16_t code, std::span<const std::byte> value) {
        if (code == kOptionTimeResolution && !value.empty()) {
            interface.time_resolution = std::to_integer<std::uint8_t>(value[0]);
        } else if (code == kOptionInterfaceName) {
            interface.name = text(value);
        }
    });
    interfaces_.push_back(interface);
}

template <typename Visitor>
void PcapngReader::for_each_option(const Block& block, std::size_t at, const Visitor& visit) const {
    while (at + 4 <= block.body.size()) {
        const std::uint16_t code = load16(block, at, "option");
        const std::size_t length = load16(block, at + 2, "option");
        if (code == kOptionEnd) {
            return;
        }
        need(block, at + 4 + length, "option");
        visit(code, std::span(block.body).subspan(at + 4, length));
        at += 4 + (length + 3) / 4 * 4;
    }
}

const Interface& PcapngReader::interface_of(const Block& block, std::uint32_t index) const {
    if (index >= interfaces_.size()) {
        source_.fail(block.offset,
                     fmt::format("a packet of interface {}, but the section describes {} interfaces", index,
                                 interfaces_.size()));
    }
    const Interface& interface = interfaces_[index];
    if (!is_known_link_type(interface.link_type)) {
        source_.fail(block.offset, unknown_link_type(interface.link_type));
    }
    return interface;
}

std::vector<std::byte> PcapngReader::data(const Block& block, std::size_t at, std::size_t captured) const {
    if (captured > block.body.size() - at) {
        source_.fail(block.offset, fmt::format("a packet claims {} captured bytes, its block holds {}",
                                               captured, block.body.size() - at));
    }
    const auto begin = block.body.begin() + static_cast<std::ptrdiff_t>(at);
    return {begin, begin + static_cast<std::ptrdiff_t>(captured)};
}

/// Enhanced packets and their predecessor: time, captured and original length at `at`, then the bytes.
Record PcapngReader::packet(const Block& block, std::uint32_t index, std::size_t at) {
    const Interface& interface = interface_of(block, index);
    const std::uint64_t high = load32(block, at, "time");
    const std::uint64_t ticks = high << 32U | load32(block, at + 4, "time");
    const std::uint32_t captured = load32(block, at + 8, "captured length");
    const std::uint32_t original = load32(block, at + 12, "original length");
    Record record;
    record.time_ns = to_ns(ticks, interface.time_resolution);
    set_packet(interface.link_type, data(block, at + 16, captured), original, record);
    record.interface = interface.name;
    if (block.type == kEnhancedPacket) {
        const std::size_t options = at + 16 + (std::size_t{captured} + 3) / 4 * 4;
        for_each_option(block, options, [&](std::uint16_t code, std::span<const std::byte> value) {
            if (code == kOptionComment) {
                record.comment = text(value);
            } else if (code == kOptionPacketFlags && value.size() >= sizeof(std::uint32_t)) {
                constexpr std::uint32_t kDirectionMask = 3;
                const std::uint32_t direction = load<std::uint32_t>(value, 0, big_endian_) & kDirectionMask;
                record.direction = direction == 1   ? Direction::kInbound
                                   : direction == 2 ? Direction::kOutbound
                                                    : Direction::kUnknown;
            }
        });
    }
    return record;
}

/// No time and no captured length: the packet, cut at the first interface's snap length.
Record PcapngReader::simple_packet(const Block& block) {
    const Interface& interface = interface_of(block, 0);
    const std::uint32_t original = load32(block, 0, "original length");
    std::size_t captured = std::min<std::size_t>(original, block.body.size() - 4);
    if (interface.snap_length != 0) {
        captured = std::min<std::size_t>(captured, interface.snap_length);
    }
    Record record;
    set_packet(interface.link_type, data(block, 4, captured), original, record);
    return record;
}

}  // namespace

bool is_pcapng(std::span<const std::byte> start) {
    return start.size() >= 4 && load<std::uint32_t>(start, 0, true) == kSectionHeader;
}

std::unique_ptr<CaptureReader> make_pcapng_reader(ByteSource source) {
    return std::make_unique<PcapngReader>(std::move(source));
}

}  // namespace urnic::decode
