// Packets out of capture files: pcap, pcapng and ERF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "rnic/wire/dissect/packet.h"

namespace urnic::decode {

inline constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

/// What is wrong with a file; the text names the file, the offset and what was found there.
class CaptureError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

enum class Direction : std::uint8_t { kUnknown, kInbound, kOutbound };

/// One packet of a file.
struct Record {
    std::optional<wire::LinkLayer> link;  // nullopt: no packet that could be decoded, `note` says what it is
    std::string note;
    std::vector<std::byte> bytes;  // what was captured
    std::size_t wire_bytes = 0;    // its length before the capture cut it, at least bytes.size()
    std::uint64_t time_ns = 0;     // since 1970; 0 when the file has no time
    std::string interface;         // that captured it; empty: the file does not say
    Direction direction = Direction::kUnknown;
    std::string comment;  // that the file has on the packet; empty: none
    std::string fault;    // what the capture card says is wrong with the packet; empty: nothing
};

class CaptureReader {
  public:
    CaptureReader() = default;
    CaptureReader(const CaptureReader&) = delete;
    CaptureReader& operator=(const CaptureReader&) = delete;
    virtual ~CaptureReader() = default;
    /// The next packet; nullopt at the end of the file. Throws CaptureError when the file is damaged or ends
    /// in the middle of a packet.
    [[nodiscard]] virtual std::optional<Record> next() = 0;
};

/// Tells the format from the first bytes and reads the file's header. `name` is for messages. Throws
/// CaptureError when it is no capture or of a link that is not Ethernet, InfiniBand or ERF. `stream` must
/// outlive the reader.
[[nodiscard]] std::unique_ptr<CaptureReader> open_capture(std::istream& stream, const std::string& name);

}  // namespace urnic::decode
