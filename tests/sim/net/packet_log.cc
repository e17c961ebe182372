#include "tests/sim/net/packet_log.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "rnic/wire/dissect/dump.h"
#include "rnic/wire/dissect/packet.h"

namespace urnic::sim {

PacketLog::File PacketLog::open(const std::string& path) {
    File file(std::fopen(path.c_str(), "wb"));
    if (file == nullptr) {
        throw std::runtime_error("cannot write the packet log " + path + ": " + std::strerror(errno));
    }
    return file;
}

PacketLog::PacketLog(const std::string& base)
    : text_path_(base + ".txt"), text_(open(text_path_)), pcap_(open(base + ".pcap")) {
    // Classic pcap with nanoseconds, version 2.4, link type Ethernet.
    const std::array<std::uint32_t, 6> header = {0xa1b2'3c4dU, 0x0004'0002U, 0, 0, 0xffffU, 1};
    std::fwrite(header.data(), sizeof(header), 1, pcap_.get());
}

void PacketLog::frame(TimeNs now, const std::string& link, std::span<const std::byte> bytes,
                      const char* fate) {
    wire::Packet packet;
    wire::parse_packet(wire::LinkLayer::kEthernet, bytes, bytes.size(), packet);
    std::fprintf(text_.get(), "%12.3fus %s %s%s%s\n", static_cast<double>(now) / 1000, link.c_str(),
                 wire::summary(packet).c_str(), fate[0] == '\0' ? "" : " -- ", fate);
    constexpr TimeNs kSecond = 1'000'000'000;
    const auto length = static_cast<std::uint32_t>(bytes.size());
    const std::array<std::uint32_t, 4> header = {static_cast<std::uint32_t>(now / kSecond),
                                                 static_cast<std::uint32_t>(now % kSecond), length, length};
    std::fwrite(header.data(), sizeof(header), 1, pcap_.get());
    std::fwrite(bytes.data(), bytes.size(), 1, pcap_.get());
}

void PacketLog::note(TimeNs now, const std::string& text) {
    std::fprintf(text_.get(), "%12.3fus %s\n", static_cast<double>(now) / 1000, text.c_str());
}

void PacketLog::flush() {
    std::fflush(text_.get());
    std::fflush(pcap_.get());
}

}  // namespace urnic::sim
