#include "rnic/subnet/rmpp.h"

#include <algorithm>
#include <cstring>

namespace urnic::subnet {

namespace {

namespace mad = wire::mad;

mad::Rmpp header_of(const MadBytes& bytes) {
    mad::Rmpp rmpp;
    wire::read_fields(mad::kRmppTable, bytes.data() + mad::kRmppOffset, &rmpp);
    return rmpp;
}
void set_header(MadBytes& bytes, const mad::Rmpp& rmpp) {
    wire::write_fields(mad::kRmppTable, &rmpp, bytes.data() + mad::kRmppOffset);
}

}  // namespace

std::size_t rmpp_header_bytes(std::uint8_t mgmt_class) {
    // The vendors' classes that have RMPP, with their OUI; other classes have it behind the common header.
    const bool is_vendor = mgmt_class >= 0x30 && mgmt_class <= 0x4f;
    return mgmt_class == wire::kMadClassSubnetAdministration ? mad::kSaDataOffset
           : is_vendor                                       ? 40
                                                             : kRmppHeaderEnd;
}

bool is_rmpp_active(const MadBytes& mad) {
    const mad::Rmpp rmpp = header_of(mad);
    return (rmpp.flags & mad::kRmppActive) != 0;
}

std::uint8_t rmpp_type(const MadBytes& mad) { return header_of(mad).type; }

RmppSender::RmppSender(std::span<const std::byte> message, std::size_t header_bytes)
    : message_(message.begin(), message.end()), header_bytes_(header_bytes) {
    const std::size_t in_each = wire::kMadBytes - header_bytes_;
    const std::size_t data = message_.size() - std::min(message_.size(), header_bytes_);
    segments_ = static_cast<std::uint32_t>(std::max<std::size_t>((data + in_each - 1) / in_each, 1));
    message_.resize(std::max(message_.size(), header_bytes_));
}

std::optional<MadBytes> RmppSender::next() {
    if (sent_ == segments_ || sent_ >= window_end_) {
        return std::nullopt;
    }
    const std::size_t in_each = wire::kMadBytes - header_bytes_;
    const std::size_t at = header_bytes_ + sent_ * in_each;
    const std::size_t length = std::min(in_each, message_.size() - at);
    MadBytes bytes{};
    std::copy_n(message_.begin(), header_bytes_, bytes.begin());
    std::copy_n(message_.begin() + static_cast<std::ptrdiff_t>(at), length,
                bytes.begin() + static_cast<std::ptrdiff_t>(header_bytes_));
    // Payload counts from the end of RMPP's header: the class's own is in each segment (IBA 13.6.2.4).
    const auto own = static_cast<std::uint32_t>(header_bytes_ - kRmppHeaderEnd);
    mad::Rmpp rmpp;
    rmpp.version = 1;
    rmpp.type = mad::kRmppData;
    rmpp.flags = mad::kRmppActive;
    rmpp.data1 = ++sent_;
    most_sent_ = std::max(most_sent_, sent_);
    if (rmpp.data1 == 1) {
        rmpp.flags |= mad::kRmppFirst;
        rmpp.data2 = static_cast<std::uint32_t>(message_.size() - header_bytes_) + segments_ * own;
    }
    if (sent_ == segments_) {
        rmpp.flags |= mad::kRmppLast;
        rmpp.data2 = static_cast<std::uint32_t>(length) + own;
    }
    set_header(bytes, rmpp);
    return bytes;
}

bool RmppSender::on_control(const MadBytes& mad) {
    const mad::Rmpp rmpp = header_of(mad);
    if (rmpp.type != mad::kRmppAck || rmpp.data1 > most_sent_ || rmpp.data2 < rmpp.data1) {
        return false;
    }
    // One that was overtaken says nothing new.
    acknowledged_ = std::max(acknowledged_, rmpp.data1);
    sent_ = std::max(sent_, acknowledged_);
    window_end_ = std::max(window_end_, rmpp.data2);
    return true;
}

RmppReceiver::Result RmppReceiver::on_data(const MadBytes& mad, std::optional<MadBytes>& answer) {
    const mad::Rmpp rmpp = header_of(mad);
    const std::uint8_t mgmt_class = std::to_integer<std::uint8_t>(mad[1]);
    const std::size_t header_bytes = rmpp_header_bytes(mgmt_class);
    const bool is_first = (rmpp.flags & mad::kRmppFirst) != 0;
    const bool is_last = (rmpp.flags & mad::kRmppLast) != 0;
    answer.reset();
    if (rmpp.version != 1 || rmpp.data1 == 0 || is_first != (rmpp.data1 == 1)) {
        return Result::kBad;
    }
    if (rmpp.data1 == received_ + 1) {
        std::size_t length = wire::kMadBytes - header_bytes;
        if (is_last) {
            const std::size_t own = header_bytes - kRmppHeaderEnd;
            if (rmpp.data2 < own || rmpp.data2 - own > length) {
                return Result::kBad;
            }
            length = rmpp.data2 - own;
        }
        if (message_.size() + (is_first ? header_bytes : 0) + length > max_bytes_) {
            return Result::kBad;
        }
        if (is_first) {
            message_.assign(mad.begin(), mad.begin() + static_cast<std::ptrdiff_t>(header_bytes));
        }
        const auto from = mad.begin() + static_cast<std::ptrdiff_t>(header_bytes);
        message_.insert(message_.end(), from, from + static_cast<std::ptrdiff_t>(length));
        ++received_;
    }
    const bool is_done = is_last && rmpp.data1 == received_;
    if (is_done || received_ == 1 || received_ % (kRmppWindow / 2) == 0 || rmpp.data1 > received_) {
        MadBytes ack = mad;
        std::fill(ack.begin() + static_cast<std::ptrdiff_t>(kRmppHeaderEnd), ack.end(), std::byte{0});
        ack[3] ^= std::byte{0x80};  // to where the segment came from
        mad::Rmpp control;
        control.version = 1;
        control.type = mad::kRmppAck;
        control.flags = mad::kRmppActive;
        control.data1 = received_;
        control.data2 = received_ + kRmppWindow;
        set_header(ack, control);
        answer = ack;
    }
    return is_done ? Result::kDone : Result::kMore;
}

}  // namespace urnic::subnet
