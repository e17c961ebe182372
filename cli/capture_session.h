// A running live capture: the rings that the daemon's threads write, read in the order of time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "abi/capture.h"
#include "cli/daemon_client.h"
#include "os/memfd.h"
#include "rnic/device/capture_ring_reader.h"

namespace urnic::cli {

struct CaptureFilter {
    std::uint32_t filters = 0;  // abi::CaptureFilter
    std::uint32_t qpn = 0;
    std::uint32_t opcode = 0;
    std::uint8_t peer[16] = {};
    std::string text;  // as it was given
};
/// "qpn=0x11,peer=10.0.0.1,opcode=RC SEND Only". Throws LaunchError.
[[nodiscard]] CaptureFilter parse_capture_filter(const std::string& text);

/// What the commands that capture take.
inline constexpr std::uint32_t kMaxSnap = 65535;
inline constexpr std::uint32_t kMaxBufferMb = 1024;

struct CaptureOptions {
    std::vector<std::string> devices;  // none: all
    CaptureFilter filter;
    std::uint32_t snap_bytes = kMaxSnap;
    std::size_t buffer_mb = 32;
    bool has_completions = false;  // they and WQEs are read, too: records of other kinds
};

struct CapturedRnic {
    std::string name;
    std::string mac;
    bool is_infiniband = false;
    std::uint32_t interface = 0;  // place in CaptureSession::rnics()
};

struct CapturedPacket {
    abi::CaptureRecord record{};
    std::uint64_t time_ns = 0;  // since 1970
    std::vector<std::byte> bytes;
};

/// What is known of a packet beyond its bytes, as words: "fate=delivered qpn=0x11 state=RTS expected_psn=4
/// next_psn=9".
[[nodiscard]] std::string describe(const abi::CaptureRecord& record);

class CaptureSession {
  public:
    /// Begins the capture. Throws LaunchError.
    CaptureSession(const std::filesystem::path& socket, const CaptureOptions& options);

    /// By index of the RNIC.
    [[nodiscard]] const std::map<std::uint16_t, CapturedRnic>& rnics() const { return rnics_; }
    /// What was captured up to some moments ago, or, if `all`, up to now. Throws LaunchError when a ring
    /// makes no sense.
    [[nodiscard]] std::vector<CapturedPacket> read(bool all = false);
    using Counts = CaptureRingReader::Counts;
    /// Since the beginning.
    [[nodiscard]] Counts counts(std::uint16_t rnic) const;
    /// Becomes readable when the daemon has ended.
    [[nodiscard]] int connection() const { return started_.connection.get(); }
    /// Nanoseconds since 1970.
    [[nodiscard]] std::uint64_t now() const;

  private:
    void add_rings();
    void read_ring(CaptureRingReader& ring, std::uint64_t until_ns,
                   std::vector<CapturedPacket>& packets) const;

    Memfd buffer_;
    StartedCapture started_;
    std::vector<CaptureRingReader> rings_;
    std::map<std::uint16_t, CapturedRnic> rnics_;
    std::uint64_t realtime_offset_ns_ = 0;  // to CLOCK_MONOTONIC
};

}  // namespace urnic::cli
