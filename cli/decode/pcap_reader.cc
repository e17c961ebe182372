// Classic pcap: either byte order, microsecond and nanosecond stamps.
#include <fmt/core.h>

#include "cli/decode/readers.h"

namespace urnic::decode {

namespace {

constexpr std::uint32_t kMagicMicroseconds = 0xa1b2c3d4U;
constexpr std::uint32_t kMagicNanoseconds = 0xa1b23c4dU;
constexpr std::size_t kFileHeaderBytes = 24;
constexpr std::size_t kRecordHeaderBytes = 16;

bool is_magic(std::uint32_t magic) { return magic == kMagicMicroseconds || magic == kMagicNanoseconds; }

class PcapReader : public CaptureReader {
  public:
    explicit PcapReader(ByteSource source) : source_(std::move(source)) {
        const std::vector<std::byte> header = source_.read_all(kFileHeaderBytes, "the pcap header");
        big_endian_ = is_magic(load<std::uint32_t>(header, 0, true));
        ns_per_unit_ = load<std::uint32_t>(header, 0, big_endian_) == kMagicNanoseconds ? 1 : 1000;
        const auto major = load<std::uint16_t>(header, 4, big_endian_);
        if (major != 2) {
            source_.fail(4, fmt::format("pcap version {} where version 2 is known", major));
        }
        // The high bits say whether frames end with an FCS, which the frames' own lengths tell as well.
        link_type_ = load<std::uint32_t>(header, 20, big_endian_) & 0xffffU;
        if (!is_known_link_type(link_type_)) {
            source_.fail(20, unknown_link_type(link_type_));
        }
    }

    std::optional<Record> next() override {
        const std::uint64_t start = source_.offset();
        std::vector<std::byte> header = source_.read(kRecordHeaderBytes);
        if (header.empty()) {
            return std::nullopt;
        }
        ++number_;
        if (header.size() != kRecordHeaderBytes) {
            source_.fail(start,
                         fmt::format("the file ends in the middle of the header of packet {}: {} of {} bytes "
                                     "are there",
                                     number_, header.size(), kRecordHeaderBytes));
        }
        const auto captured = load<std::uint32_t>(header, 8, big_endian_);
        if (captured > kLongestBlock) {
            source_.fail(start + 8, fmt::format("packet {} claims {} captured bytes: the file is damaged",
                                                number_, captured));
        }
        Record record;
        record.time_ns = load<std::uint32_t>(header, 0, big_endian_) * kNsPerSecond +
                         load<std::uint32_t>(header, 4, big_endian_) * std::uint64_t{ns_per_unit_};
        set_packet(link_type_, source_.read_all(captured, fmt::format("packet {}", number_)),
                   load<std::uint32_t>(header, 12, big_endian_), record);
        return record;
    }

  private:
    ByteSource source_;
    bool big_endian_ = false;
    std::uint32_t ns_per_unit_ = 1000;
    std::uint32_t link_type_ = 0;
    std::uint64_t number_ = 0;
};

}  // namespace

bool is_pcap(std::span<const std::byte> start) {
    return start.size() >= 4 &&
           (is_magic(load<std::uint32_t>(start, 0, true)) || is_magic(load<std::uint32_t>(start, 0, false)));
}

std::unique_ptr<CaptureReader> make_pcap_reader(ByteSource source) {
    return std::make_unique<PcapReader>(std::move(source));
}

}  // namespace urnic::decode
