#include "cli/capture_session.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "cli/launch_error.h"
#include "os/monotonic_clock.h"
#include "rnic/wire/opcodes.h"

namespace urnic::cli {

namespace {

/// A worker stamps a packet and publishes it soon after; what is younger may still be overtaken by another
/// worker's.
constexpr std::uint64_t kHoldBackNs = 1'000'000;
constexpr std::size_t kBytesPerMb = std::size_t{1} << 20U;

std::optional<std::uint32_t> number_in(std::string_view text, std::uint32_t most) {
    const bool hex = text.starts_with("0x") || text.starts_with("0X");
    const char* const end = text.data() + text.size();
    std::uint32_t number = 0;
    const auto parsed = std::from_chars(text.data() + (hex ? 2 : 0), end, number, hex ? 16 : 10);
    const bool is_whole = parsed.ec == std::errc{} && parsed.ptr == end && number <= most;
    return is_whole ? std::optional(number) : std::nullopt;
}

std::uint32_t opcode_in(const std::string& text) {
    constexpr std::uint32_t kMost = 255;
    if (const auto number = number_in(text, kMost)) return *number;
    for (std::uint32_t opcode = 0; opcode <= kMost; ++opcode) {
        const wire::OpcodeInfo& info = wire::opcode_info(static_cast<std::uint8_t>(opcode));
        if ((info.flags & wire::kValid) != 0 && text == info.name) return opcode;
    }
    throw LaunchError(
        fmt::format("--filter opcode={}: it has to be a number from 0 to 255 or a name that urnic opcode "
                    "prints, for example "
                    "\"RC SEND Only\"",
                    text));
}

void set_peer(const std::string& text, CaptureFilter& filter) {
    constexpr std::uint32_t kMaxLid = 0xffff;
    if (const auto lid = number_in(text, kMaxLid)) {
        filter.peer[14] = static_cast<std::uint8_t>(*lid >> 8U);
        filter.peer[15] = static_cast<std::uint8_t>(*lid);
    } else if (in_addr v4{}; inet_pton(AF_INET, text.c_str(), &v4) == 1) {
        filter.peer[10] = filter.peer[11] = 0xff;
        std::memcpy(filter.peer + 12, &v4, sizeof(v4));
    } else if (inet_pton(AF_INET6, text.c_str(), filter.peer) != 1) {
        throw LaunchError(
            fmt::format("--filter peer={}: it has to be an IPv4 or IPv6 address, a GID, or the LID of a port "
                        "that has no GRH",
                        text));
    }
}

}  // namespace

CaptureFilter parse_capture_filter(const std::string& text) {
    constexpr std::uint32_t kMaxQpn = 0xffffff;
    CaptureFilter filter;
    filter.text = text;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        const std::string part = text.substr(begin, end - begin);
        const std::size_t equals = std::min(part.find('='), part.size());
        const std::string key = part.substr(0, equals);
        const std::string value = equals < part.size() ? part.substr(equals + 1) : "";
        if (key == "qpn") {
            const auto qpn = number_in(value, kMaxQpn);
            if (!qpn) throw LaunchError(fmt::format("--filter {}: a QP number is 0 to 0xffffff", part));
            filter.qpn = *qpn;
            filter.filters |= abi::kFilterQpn;
        } else if (key == "opcode") {
            filter.opcode = opcode_in(value);
            filter.filters |= abi::kFilterOpcode;
        } else if (key == "peer") {
            set_peer(value, filter);
            filter.filters |= abi::kFilterPeer;
        } else {
            throw LaunchError(
                fmt::format("--filter \"{}\": it has to be qpn=N, peer=ADDRESS or opcode=N|NAME", part));
        }
        begin = end + 1;
    }
    return filter;
}

CaptureSession::CaptureSession(const std::filesystem::path& socket, const CaptureOptions& options) {
    abi::CaptureRequest request{};
    std::string names;
    for (const std::string& device : options.devices) names += (names.empty() ? "" : "\n") + device;
    if (names.size() >= sizeof(request.devices)) {
        throw LaunchError("too many RNICs are named: leave them out to capture on all");
    }
    std::memcpy(request.devices, names.data(), names.size());
    request.snap_bytes = options.snap_bytes;
    request.filters = options.filter.filters | (options.has_completions ? abi::kCaptureCompletions : 0);
    request.qpn = options.filter.qpn;
    request.opcode = options.filter.opcode;
    std::memcpy(request.peer, options.filter.peer, sizeof(request.peer));
    // Each worker's part has a header, and is a power of two behind it; the control thread's comes on top.
    const std::size_t bytes = options.buffer_mb * kBytesPerMb +
                              abi::kMaxWorkers * abi::kCaptureRingHeaderBytes + abi::kControlCaptureBytes;
    if (const int error = create_memfd("urnic-capture", bytes, Sharing::kWritable, buffer_); error != 0) {
        throw LaunchError(fmt::format("cannot make a buffer of {} MB: {}. Give a smaller --buffer",
                                      options.buffer_mb, std::strerror(error)));
    }
    // The pages are there before a worker writes to them.
    std::memset(buffer_.mapping.data(), 0, bytes);
    started_ = start_capture(socket, request, buffer_.fd.get());
    add_rings();
    try {
        const auto list = nlohmann::json::parse(started_.rnics);
        for (const auto& rnic : list.at("rnics")) {
            CapturedRnic captured{rnic.at("name"), rnic.at("mac"), rnic.at("link_layer") == "InfiniBand",
                                  static_cast<std::uint32_t>(rnics_.size())};
            const auto index = rnic.at("index").get<std::uint16_t>();
            const auto made = rnics_.emplace(index, std::move(captured));
            if (index < by_index_.size()) by_index_[index] = &made.first->second;
        }
    } catch (const nlohmann::json::exception&) {
        throw LaunchError("the daemon's list of RNICs is not understood: use the urnic of its release");
    }
    timespec realtime{};
    clock_gettime(CLOCK_REALTIME, &realtime);
    realtime_offset_ns_ = static_cast<std::uint64_t>(realtime.tv_sec) * kSecondNs +
                          static_cast<std::uint64_t>(realtime.tv_nsec) - clock_now();
}

void CaptureSession::add_rings() {
    const std::uint64_t bytes = buffer_.mapping.size();
    const std::uint64_t control_bytes = started_.control_bytes;
    if (started_.rings == 0 || started_.ring_bytes < abi::kMinCaptureRingBytes ||
        started_.ring_bytes > bytes / started_.rings ||
        control_bytes > bytes - started_.rings * started_.ring_bytes ||
        (control_bytes != 0 && control_bytes < abi::kMinCaptureRingBytes)) {
        throw LaunchError("the daemon's answer makes no sense: use the urnic of its release");
    }
    const auto add = [&](std::byte* part, std::uint64_t part_bytes) {
        merge_.add(CaptureRingReader(std::span(part, part_bytes)));
    };
    for (std::uint32_t i = 0; i < started_.rings; ++i) {
        add(buffer_.mapping.data() + i * started_.ring_bytes, started_.ring_bytes);
    }
    if (control_bytes != 0) {
        add(buffer_.mapping.data() + started_.rings * started_.ring_bytes, control_bytes);
    }
}

std::uint64_t CaptureSession::now() const { return clock_now() + realtime_offset_ns_; }

std::span<const CaptureSession::Record* const> CaptureSession::read(bool all) {
    // Who goes on making packets does not keep the reader from its end.
    if (all && end_ns_ == 0) end_ns_ = clock_now() + kHoldBackNs;
    if (!merge_.read(all ? end_ns_ : clock_now() - kHoldBackNs)) {
        throw LaunchError("a record of the capture makes no sense: use the urnic of the daemon's release");
    }
    return merge_.records();
}

}  // namespace urnic::cli
