// A running live capture: the rings that the daemon's threads write, read in the order of time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "abi/capture.h"
#include "cli/capture_merge.h"
#include "cli/daemon_client.h"
#include "os/memfd.h"

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

class CaptureSession {
  public:
    /// Begins the capture. Throws LaunchError.
    CaptureSession(const std::filesystem::path& socket, const CaptureOptions& options);

    /// By index of the RNIC.
    [[nodiscard]] const std::map<std::uint16_t, CapturedRnic>& rnics() const { return rnics_; }
    /// nullptr: it is none that is captured.
    [[nodiscard]] const CapturedRnic* rnic(std::uint16_t index) const {
        return index < by_index_.size() ? by_index_[index] : nullptr;
    }
    using Record = CaptureMerge::Record;
    /// The next records up to some moments ago, or, if `all`, up to when this was first asked for, in the
    /// order of time; there until the next call. Throws LaunchError when a ring makes no sense.
    [[nodiscard]] std::span<const Record* const> read(bool all = false);
    /// Returns whether read() left some that it could have taken.
    [[nodiscard]] bool has_more() const { return merge_.has_more(); }
    /// Nanoseconds since 1970.
    [[nodiscard]] std::uint64_t time_ns(const Record& record) const {
        return record.header.time_ns + realtime_offset_ns_;
    }
    /// Since the beginning.
    using Counts = CaptureMerge::Counts;
    [[nodiscard]] Counts counts(std::uint16_t rnic) const { return merge_.counts(rnic); }
    /// Becomes readable when the daemon has ended.
    [[nodiscard]] int connection() const { return started_.connection.get(); }
    /// Nanoseconds since 1970.
    [[nodiscard]] std::uint64_t now() const;

  private:
    void add_rings();

    Memfd buffer_;
    StartedCapture started_;
    CaptureMerge merge_;
    std::map<std::uint16_t, CapturedRnic> rnics_;
    std::array<const CapturedRnic*, abi::kCaptureRnics> by_index_{};
    std::uint64_t realtime_offset_ns_ = 0;  // to CLOCK_MONOTONIC
    std::uint64_t end_ns_ = 0;              // of all; 0: not asked for yet
};

}  // namespace urnic::cli
