#include "rnic/subnet/rmpp_transfer.h"

#include <optional>

namespace urnic::subnet {

namespace {

/// What all MADs of a message have in common.
struct Label {
    std::uint8_t mgmt_class;
    std::uint64_t transaction_id;

    friend bool operator==(const Label&, const Label&) = default;
};
Label label_of(const MadPacket& packet) {
    MadBytes bytes = packet.mad;
    const MadRef mad(bytes);
    return {mad.mgmt_class(), mad.transaction_id()};
}

}  // namespace

RmppTransfer::RmppTransfer(const MadPacket& first, std::span<const std::byte> message, TimeNs now)
    : first_(first),
      sender_(message, rmpp_header_bytes(label_of(first).mgmt_class)),
      deadline_(now + kAckNs) {}

bool RmppTransfer::is_of(const MadPacket& control) const {
    return control.slid == first_.dlid && label_of(control) == label_of(first_);
}

void RmppTransfer::pump(const Send& send) {
    MadPacket packet = first_;
    while (const std::optional<MadBytes> segment = sender_.next()) {
        packet.mad = *segment;
        send(packet);
    }
}

bool RmppTransfer::on_control(const MadPacket& control, TimeNs now, const Send& send) {
    if (!sender_.on_control(control.mad) || sender_.is_done()) {
        return false;
    }
    retries_left_ = kAckRetries;
    deadline_ = now + kAckNs;
    pump(send);
    return true;
}

bool RmppTransfer::advance(TimeNs now, const Send& send) {
    if (deadline_ > now) {
        return true;
    }
    if (retries_left_ == 0) {
        return false;
    }
    --retries_left_;
    deadline_ = now + kAckNs;
    sender_.rewind();
    pump(send);
    return true;
}

}  // namespace urnic::subnet
