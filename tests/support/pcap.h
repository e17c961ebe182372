// Reads classic little-endian pcap files of Ethernet frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace urnic::test {

struct TimedFrame {
    std::uint64_t time_ns = 0;  // since the first frame
    std::vector<std::byte> bytes;
};

/// The frames of a capture, in order. Throws when the file is not what the golden captures are.
inline std::vector<TimedFrame> read_timed_pcap(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const auto word = [&bytes, &path](std::size_t offset) {
        std::uint32_t value = 0;
        if (offset + sizeof value > bytes.size()) {
            throw std::runtime_error(path + " ends in the middle of a header");
        }
        std::memcpy(&value, bytes.data() + offset, sizeof value);
        return value;
    };
    constexpr std::uint32_t kMagicMicroseconds = 0xa1b2c3d4U;
    constexpr std::uint32_t kMagicNanoseconds = 0xa1b23c4dU;
    constexpr std::uint32_t kLinkTypeEthernet = 1;
    if (bytes.empty() || (word(0) != kMagicMicroseconds && word(0) != kMagicNanoseconds) ||
        word(20) != kLinkTypeEthernet) {
        throw std::runtime_error(path + " is missing or is not a little-endian pcap file of Ethernet frames");
    }
    const std::uint64_t ns_per_unit = word(0) == kMagicNanoseconds ? 1 : 1000;
    std::uint64_t first_ns = 0;
    std::vector<TimedFrame> frames;
    for (std::size_t offset = 24; offset < bytes.size();) {
        const std::size_t captured = word(offset + 8);
        if (captured != word(offset + 12) || offset + 16 + captured > bytes.size()) {
            throw std::runtime_error(path + " has a frame that was cut off");
        }
        std::vector<std::byte> frame(captured);
        std::memcpy(frame.data(), bytes.data() + offset + 16, captured);
        const std::uint64_t time_ns =
            std::uint64_t{word(offset)} * 1'000'000'000 + std::uint64_t{word(offset + 4)} * ns_per_unit;
        first_ns = frames.empty() ? time_ns : first_ns;
        frames.push_back({time_ns - first_ns, std::move(frame)});
        offset += 16 + captured;
    }
    return frames;
}

/// The same without the times.
inline std::vector<std::vector<std::byte>> read_pcap(const std::string& path) {
    std::vector<std::vector<std::byte>> frames;
    for (TimedFrame& frame : read_timed_pcap(path)) {
        frames.push_back(std::move(frame.bytes));
    }
    return frames;
}

}  // namespace urnic::test
