#include "conform/live_cases/live_script.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace urnic::conform {

unsigned traffic_class_of(const FrameBytes& frame) {
    const bool is_ipv6 = (frame[kIpAt] >> 4U) == std::byte{6};
    return is_ipv6 ? wire::load_be16(frame.data() + kIpAt) >> 4U & 0xffU
                   : std::to_integer<unsigned>(frame[kIpAt + wire::kIpv4Tos]);
}

unsigned udp_source_port_of(const FrameBytes& frame) {
    return wire::load_be16(frame.data() + bth_offset(frame) - wire::kUdpBytes);
}

std::string duration_text(TimeNs time) {
    constexpr double kUs = 1e3;
    constexpr double kMs = 1e6;
    std::array<char, 32> text{};
    const auto ns = static_cast<double>(time);
    (void)std::snprintf(text.data(), text.size(), ns < kMs ? "%.1f us" : "%.2f ms",
                        ns < kMs ? ns / kUs : ns / kMs);
    return text.data();
}

TimeNs median(std::vector<TimeNs> values) {
    std::sort(values.begin(), values.end());
    return values.empty() ? 0 : values[values.size() / 2];
}

std::optional<SeenFrame> LiveScript::next_frame(TimeNs patience) {
    if (bench().next(now() + patience) == nullptr) {
        return {};
    }
    return bench().take();
}

std::optional<SeenFrame> LiveScript::next_but_cnps(TimeNs patience) {
    std::optional<SeenFrame> frame = next_frame(patience);
    while (frame && is_cnp(*frame)) {
        frame = next_frame(patience);
    }
    return frame;
}

std::vector<SeenFrame> LiveScript::frames_until_silence(TimeNs silence) {
    constexpr std::size_t kMost = 10'000;
    std::vector<SeenFrame> frames;
    while (frames.size() < kMost) {
        std::optional<SeenFrame> frame = next_frame(silence);
        if (!frame) {
            break;
        }
        frames.push_back(std::move(*frame));
    }
    return frames;
}

std::vector<SeenFrame> LiveScript::take_requests(std::size_t count) {
    std::vector<SeenFrame> frames;
    while (frames.size() < count) {
        std::optional<SeenFrame> frame = next_frame(bench().tolerance().patience_ns);
        require(frame.has_value(), "expected " + std::to_string(count) + " request packets, seen " +
                                       std::to_string(frames.size()));
        frames.push_back(std::move(*frame));
    }
    return frames;
}

}  // namespace urnic::conform
