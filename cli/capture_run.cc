#include "cli/capture_run.h"

#include <fmt/format.h>
#include <poll.h>

#include <array>
#include <csignal>
#include <cstring>
#include <vector>

#include "base/pcapng.h"
#include "cli/launch_error.h"
#include "cli/packet_note.h"

namespace urnic::cli {

namespace {

volatile std::sig_atomic_t stop_came = 0;
void note_stop(int /*number*/) { stop_came = 1; }

/// What stands before each packet of native InfiniBand: Wireshark knows those of link type ERF alone, not
/// 247. Endace's Extensible Record Format: time in 2^-32 s, little-endian; the rest big-endian.
constexpr std::size_t kErfHeaderBytes = 16;
void put_erf_header(const CaptureSession::Record& packet, std::uint64_t time_ns, std::vector<std::byte>& to) {
    constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
    constexpr std::uint8_t kTypeInfiniBand = 21;
    constexpr std::uint8_t kVaryingLength = 4;
    std::array<std::uint8_t, kErfHeaderBytes> header{};
    const std::uint64_t time =
        (time_ns / kNsPerSecond << 32U) | ((time_ns % kNsPerSecond << 32U) / kNsPerSecond);
    std::memcpy(header.data(), &time, sizeof(time));
    header[8] = kTypeInfiniBand;
    header[9] = kVaryingLength;
    const std::size_t record_bytes = kErfHeaderBytes + packet.bytes.size();
    header[10] = static_cast<std::uint8_t>(record_bytes >> 8U);
    header[11] = static_cast<std::uint8_t>(record_bytes);
    header[14] = static_cast<std::uint8_t>(packet.header.wire_bytes >> 8U);
    header[15] = static_cast<std::uint8_t>(packet.header.wire_bytes);
    const auto* const bytes = reinterpret_cast<const std::byte*>(header.data());
    to.assign(bytes, bytes + header.size());
    to.insert(to.end(), packet.bytes.begin(), packet.bytes.end());
}

constexpr int kIdleMs = 10;
constexpr int kBusyMs = 1;

class Copy {
  public:
    Copy(CaptureSession& session, CaptureFile& file, std::uint64_t most)
        : session_(session), file_(file), most_(most) {}

    /// Returns whether it is to go on.
    [[nodiscard]] bool step(bool is_last) {
        const auto records = session_.read(is_last);
        for (const CaptureSession::Record* const record : records) {
            if (most_ != 0 && written_ == most_) return false;
            add(*record);
        }
        const bool has_more = session_.has_more();
        if (!has_more) file_.flush();
        if (most_ != 0 && written_ == most_) return false;
        if (is_last) return has_more;
        pollfd daemon{session_.connection(), POLLIN, 0};
        if (::poll(&daemon, 1, has_more ? 0 : records.empty() ? kIdleMs : kBusyMs) == 1) {
            daemon_ended_ = true;
            return false;
        }
        return !StopSignals::has_come();
    }
    void finish() {
        for (const auto& [index, rnic] : session_.rnics()) {
            const CaptureSession::Counts counts = session_.counts(index);
            file_.add(pcapng_statistics({rnic.interface, session_.now(), counts.seen, counts.lost}));
        }
        file_.finish();
    }
    void tell() const {
        std::string text;
        for (const auto& [index, rnic] : session_.rnics()) {
            const CaptureSession::Counts counts = session_.counts(index);
            text += fmt::format("{}{}: {} packets", text.empty() ? "" : ", ", rnic.name, counts.seen);
            if (counts.lost != 0) {
                text += fmt::format(
                    ", {} of them lost because this reader was too slow (--buffer, --snaplen)", counts.lost);
            }
        }
        fmt::print(stderr, "urnic capture: {}; {} are in {}\n", text, written_, file_.name());
    }
    [[nodiscard]] bool daemon_ended() const { return daemon_ended_; }

  private:
    void add(const CaptureSession::Record& captured) {
        const abi::CaptureRecord& record = captured.header;
        const CapturedRnic* const rnic = session_.rnic(record.rnic);
        if (rnic == nullptr) return;
        const PacketNote note(record);
        PcapngPacket packet;
        packet.interface = rnic->interface;
        packet.time_ns = session_.time_ns(captured);
        packet.wire_bytes = record.wire_bytes;
        packet.bytes = captured.bytes;
        if (rnic->is_infiniband) {
            put_erf_header(captured, packet.time_ns, erf_);
            packet.wire_bytes += kErfHeaderBytes;
            packet.bytes = erf_;
        }
        packet.direction = record.is_sent != 0 ? PcapngDirection::kOutbound : PcapngDirection::kInbound;
        packet.dropped = record.lost_before;
        packet.comment = note.text();
        file_.add(packet);
        ++written_;
    }

    CaptureSession& session_;
    CaptureFile& file_;
    std::uint64_t most_;
    std::uint64_t written_ = 0;
    std::vector<std::byte> erf_;
    bool daemon_ended_ = false;
};

}  // namespace

StopSignals::StopSignals() {
    struct sigaction action {};
    action.sa_handler = note_stop;  // without SA_RESTART: a write that a reader holds up ends
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
}

StopSignals::~StopSignals() {
    for (const int number : {SIGINT, SIGTERM, SIGPIPE}) std::signal(number, SIG_DFL);
}

bool StopSignals::has_come() { return stop_came != 0; }

std::string capture_head(const CaptureSession& session, const CaptureOptions& options) {
    std::vector<const CapturedRnic*> rnics(session.rnics().size());
    for (const auto& [index, rnic] : session.rnics()) rnics[rnic.interface] = &rnic;
    std::string head = pcapng_section("urnic capture");
    for (const CapturedRnic* rnic : rnics) {
        const std::string description = fmt::format(
            "RNIC {}, {}, MAC {}", rnic->name, rnic->is_infiniband ? "InfiniBand" : "RoCE v2", rnic->mac);
        head += pcapng_interface({rnic->is_infiniband ? PcapLinkType::kErf : PcapLinkType::kEthernet,
                                  options.snap_bytes, rnic->name, description, options.filter.text});
    }
    return head;
}

void run_capture(CaptureSession& session, CaptureFile& file, std::uint64_t most) {
    Copy copy(session, file, most);
    try {
        file.flush();
        while (copy.step(false)) {
        }
        while (copy.step(true)) {
        }
        copy.finish();
    } catch (const ReaderGone&) {
        // Whoever reads has enough.
    } catch (const LaunchError&) {
        copy.tell();
        throw;
    }
    copy.tell();
    if (copy.daemon_ended()) throw LaunchError("urnicd has ended, and the capture with it");
}

}  // namespace urnic::cli
