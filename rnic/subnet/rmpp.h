// The reliable multi-packet protocol (IBA 13.6): messages longer than a MAD, as segments with
// acknowledgements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rnic/subnet/smp.h"
#include "rnic/wire/mad/administration_attributes.h"

namespace urnic::subnet {

inline constexpr std::size_t kRmppHeaderEnd = wire::mad::kSaHeaderOffset;
/// Segments that may be on their way before an ACK.
inline constexpr std::uint32_t kRmppWindow = 64;

/// What a class has in front of its data: as many octets as each segment repeats.
[[nodiscard]] std::size_t rmpp_header_bytes(std::uint8_t mgmt_class);
/// Returns whether the MAD is one of a message that RMPP carries.
[[nodiscard]] bool is_rmpp_active(const MadBytes& mad);
[[nodiscard]] std::uint8_t rmpp_type(const MadBytes& mad);

/// A message on its way out.
class RmppSender {
  public:
    /// `message`: the class's header whole, then the data of all segments.
    RmppSender(std::span<const std::byte> message, std::size_t header_bytes);

    /// The next segment that the window allows.
    [[nodiscard]] std::optional<MadBytes> next();
    /// An ACK, STOP or ABORT. Returns whether the message continues.
    [[nodiscard]] bool on_control(const MadBytes& mad);
    [[nodiscard]] bool is_done() const { return acknowledged_ == segments_; }
    /// What is not acknowledged goes out again.
    void rewind() { sent_ = acknowledged_; }

  private:
    std::vector<std::byte> message_;
    std::size_t header_bytes_;
    std::uint32_t segments_;
    std::uint32_t sent_ = 0;
    std::uint32_t most_sent_ = 0;
    std::uint32_t acknowledged_ = 0;
    std::uint32_t window_end_ = 1;  // the receiver's first ACK opens it
};

/// A message on its way in. Segments come in order; one behind a gap is not kept, and its ACK names the last
/// before the gap. The sender repeats what is not acknowledged in time.
class RmppReceiver {
  public:
    explicit RmppReceiver(std::size_t max_bytes) : max_bytes_(max_bytes) {}

    enum class Result : std::uint8_t { kMore, kDone, kBad };
    /// A DATA segment. `answer`: the ACK that it wants, if it does. kBad: the message is longer than
    /// max_bytes, or its segments contradict each other; it is over.
    [[nodiscard]] Result on_data(const MadBytes& mad, std::optional<MadBytes>& answer);
    /// The message, as RmppSender takes it.
    [[nodiscard]] const std::vector<std::byte>& message() const { return message_; }

  private:
    std::size_t max_bytes_;
    std::uint32_t received_ = 0;
    std::vector<std::byte> message_;
};

}  // namespace urnic::subnet
