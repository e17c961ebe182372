// Extensible Record Format of Endace's capture cards: records one after the other, no file header. The time
// is little-endian, everything else big-endian.
#include <fmt/core.h>

#include <algorithm>

#include "cli/decode/readers.h"

namespace urnic::decode {

namespace {

constexpr std::uint8_t kTypeMask = 0x7f;
constexpr std::uint8_t kMoreHeaders = 0x80;
constexpr std::uint8_t kTypeMeta = 27;
constexpr std::uint8_t kTypePad = 48;
constexpr std::uint8_t kLastDataType = 28;
constexpr std::size_t kExtensionBytes = 8;
constexpr std::size_t kTypeAt = 8;
constexpr std::size_t kFlagsAt = 9;
constexpr std::size_t kRecordLengthAt = 10;
constexpr std::size_t kWireLengthAt = 14;

/// Record types whose packets are decoded, and the bytes between the headers and the packet.
struct ErfType {
    std::uint8_t type;
    wire::LinkLayer link;
    std::uint8_t skip_bytes;
};
constexpr ErfType kTypes[] = {
    {2, wire::LinkLayer::kEthernet, 2},     // ETH
    {11, wire::LinkLayer::kEthernet, 2},    // COLOR_ETH
    {16, wire::LinkLayer::kEthernet, 2},    // DSM_COLOR_ETH
    {20, wire::LinkLayer::kEthernet, 2},    // COLOR_HASH_ETH
    {21, wire::LinkLayer::kInfiniBand, 0},  // INFINIBAND
};

std::uint8_t byte_at(std::span<const std::byte> bytes, std::size_t at) {
    return std::to_integer<std::uint8_t>(bytes[at]);
}

/// What the flags say is wrong with a packet. The card has stored it all the same.
std::string fault_of(std::uint8_t flags) {
    constexpr struct {
        std::uint8_t bit;
        const char* text;
    } kFaults[] = {{0x10, "receive error"}, {0x08, "truncated by the card"}, {0x20, "error inside the card"}};
    std::string text;
    for (const auto& fault : kFaults) {
        if ((flags & fault.bit) != 0) {
            text += text.empty() ? "" : ", ";
            text += fault.text;
        }
    }
    return text;
}

std::uint64_t erf_time_ns(std::span<const std::byte> header) {
    const auto fixed_point = load<std::uint64_t>(header, 0, false);
    return (fixed_point >> 32U) * kNsPerSecond + ((fixed_point & 0xffff'ffffU) * kNsPerSecond >> 32U);
}

bool is_erf_header(std::span<const std::byte> start) {
    if (start.size() < kErfHeaderBytes) {
        return false;
    }
    const std::uint8_t type = byte_at(start, kTypeAt) & kTypeMask;
    return ((type != 0 && type <= kLastDataType) || type == kTypePad) &&
           load<std::uint16_t>(start, kRecordLengthAt, true) >= kErfHeaderBytes;
}

const ErfType* find_type(std::uint8_t type_byte) {
    const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes), [type_byte](const ErfType& entry) {
        return entry.type == (type_byte & kTypeMask);
    });
    return found != std::end(kTypes) ? found : nullptr;
}

class ErfReader : public CaptureReader {
  public:
    explicit ErfReader(ByteSource source) : source_(std::move(source)) {}

    std::optional<Record> next() override {
        for (;;) {
            const std::uint64_t start = source_.offset();
            std::vector<std::byte> bytes = source_.read(kErfHeaderBytes);
            if (bytes.empty()) {
                return std::nullopt;
            }
            ++number_;
            if (bytes.size() != kErfHeaderBytes) {
                source_.fail(start, fmt::format("the file ends in the middle of the header of ERF record {}",
                                                number_));
            }
            if (!is_erf_header(bytes)) {
                source_.fail(start, fmt::format("this is no ERF record: type {}, record length {}",
                                                byte_at(bytes, kTypeAt) & kTypeMask,
                                                load<std::uint16_t>(bytes, kRecordLengthAt, true)));
            }
            const std::size_t length = load<std::uint16_t>(bytes, kRecordLengthAt, true);
            const std::vector<std::byte> rest =
                source_.read_all(length - kErfHeaderBytes, fmt::format("ERF record {}", number_));
            bytes.insert(bytes.end(), rest.begin(), rest.end());
            if ((byte_at(bytes, kTypeAt) & kTypeMask) == kTypePad) {
                continue;
            }
            Record record;
            set_erf_record(bytes, record);
            return record;
        }
    }

  private:
    ByteSource source_;
    std::uint64_t number_ = 0;
};

}  // namespace

bool is_erf_file(std::span<const std::byte> start) {
    // Of the types that a file may begin with, none is a byte of text.
    return is_erf_header(start) && (find_type(byte_at(start, kTypeAt)) != nullptr ||
                                    (byte_at(start, kTypeAt) & kTypeMask) == kTypeMeta);
}

void set_erf_record(std::span<const std::byte> bytes, Record& record) {
    if (bytes.size() < kErfHeaderBytes) {
        record.note = fmt::format("ERF header cut: {} of {} bytes captured", bytes.size(), kErfHeaderBytes);
        return;
    }
    const std::uint8_t type = byte_at(bytes, kTypeAt) & kTypeMask;
    record.time_ns = erf_time_ns(bytes);
    record.fault = fault_of(byte_at(bytes, kFlagsAt));
    const ErfType* known = find_type(type);
    if (known == nullptr) {
        record.note = fmt::format("ERF record type {}, which is not decoded", type);
        return;
    }
    std::size_t at = kErfHeaderBytes;
    for (bool more = (byte_at(bytes, kTypeAt) & kMoreHeaders) != 0; more; at += kExtensionBytes) {
        if (at + kExtensionBytes > bytes.size()) {
            record.note = "ERF extension headers go beyond the record";
            return;
        }
        more = (byte_at(bytes, at) & kMoreHeaders) != 0;
    }
    at = std::min(at + known->skip_bytes, bytes.size());
    // Records are padded to eight bytes: the packet may end before its record does.
    const std::size_t wire_bytes = load<std::uint16_t>(bytes, kWireLengthAt, true);
    const std::span<const std::byte> packet = bytes.subspan(at, std::min(wire_bytes, bytes.size() - at));
    record.link = known->link;
    record.wire_bytes = wire_bytes;
    record.bytes.assign(packet.begin(), packet.end());
}

std::unique_ptr<CaptureReader> make_erf_reader(ByteSource source) {
    return std::make_unique<ErfReader>(std::move(source));
}

}  // namespace urnic::decode
