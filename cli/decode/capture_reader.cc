#include "cli/decode/capture_reader.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/decode/readers.h"

namespace urnic::decode {

std::vector<std::byte> ByteSource::read(std::size_t count) {
    std::vector<std::byte> bytes;
    const std::size_t again = std::min(count, pending_.size());
    bytes.assign(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(again));
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(again));
    // In steps: a damaged length must not take memory that the file does not fill.
    constexpr std::size_t kStep = std::size_t{64} << 10U;
    while (bytes.size() < count && stream_) {
        const std::size_t had = bytes.size();
        bytes.resize(had + std::min(kStep, count - had));
        stream_.read(reinterpret_cast<char*>(bytes.data() + had),
                     static_cast<std::streamsize>(bytes.size() - had));
        bytes.resize(had + static_cast<std::size_t>(stream_.gcount()));
    }
    if (stream_.bad()) {
        fail(offset_, "the file cannot be read");
    }
    offset_ += bytes.size();
    return bytes;
}

std::vector<std::byte> ByteSource::read_all(std::size_t count, const std::string& what) {
    const std::uint64_t start = offset_;
    std::vector<std::byte> bytes = read(count);
    if (bytes.size() != count) {
        fail(start, fmt::format("the file ends in the middle of {}: {} of {} bytes are there", what,
                                bytes.size(), count));
    }
    return bytes;
}

void ByteSource::unread(std::vector<std::byte> bytes) {
    offset_ -= bytes.size();
    bytes.insert(bytes.end(), pending_.begin(), pending_.end());
    pending_ = std::move(bytes);
}

void ByteSource::fail(std::uint64_t offset, const std::string& what) const {
    throw CaptureError(fmt::format("{}: offset {}: {}", name_, offset, what));
}

bool is_known_link_type(std::uint32_t link_type) {
    return link_type == kLinkTypeEthernet || link_type == kLinkTypeErf || link_type == kLinkTypeInfiniBand;
}

std::string unknown_link_type(std::uint32_t link_type) {
    return fmt::format("link type {} cannot be decoded; these can: {} Ethernet, {} ERF, {} InfiniBand",
                       link_type, kLinkTypeEthernet, kLinkTypeErf, kLinkTypeInfiniBand);
}

void set_packet(std::uint32_t link_type, std::vector<std::byte> bytes, std::size_t wire_bytes,
                Record& record) {
    if (link_type == kLinkTypeErf) {
        set_erf_record(bytes, record);
        return;
    }
    record.link = link_type == kLinkTypeEthernet ? wire::LinkLayer::kEthernet : wire::LinkLayer::kInfiniBand;
    record.wire_bytes = std::max(wire_bytes, bytes.size());
    record.bytes = std::move(bytes);
}

std::unique_ptr<CaptureReader> open_capture(std::istream& stream, const std::string& name) {
    ByteSource source(stream, name);
    std::vector<std::byte> start = source.read(kErfHeaderBytes);
    const bool pcap = is_pcap(start);
    const bool pcapng = is_pcapng(start);
    const bool erf = is_erf_file(start);
    if (start.empty()) {
        source.fail(0, "the file is empty");
    }
    if (!pcap && !pcapng && !erf) {
        std::string shown;
        for (std::size_t i = 0; i < std::min<std::size_t>(start.size(), 4); ++i) {
            shown += fmt::format("{}{:02x}", i == 0 ? "" : " ", std::to_integer<unsigned>(start[i]));
        }
        source.fail(0, fmt::format("this is no pcap, pcapng or ERF file: it begins with {}", shown));
    }
    source.unread(std::move(start));
    if (pcap) {
        return make_pcap_reader(std::move(source));
    }
    return pcapng ? make_pcapng_reader(std::move(source)) : make_erf_reader(std::move(source));
}

}  // namespace urnic::decode
