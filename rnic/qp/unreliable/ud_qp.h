// An unreliable-datagram QP (IBA chapter 9.8.3): one packet is a message, from and to anybody who knows the
// Q_Key.
#pragma once

#include "rnic/qp/unreliable/unreliable_qp.h"

namespace urnic {

/// Room for a GRH at the beginning of every UD receive (IBA 9.8.3).
inline constexpr std::uint32_t kGrhBytes = 40;

/// `Link` says what a receive and its completion tell of the packet's way: the same code for RoCE and
/// InfiniBand, without a question for each packet.
template <class Link>
class UdQpOver : public UnreliableQp {
  public:
    explicit UdQpOver(const QpConfig& config);

    void handle_packet(TimeNs now, const wire::PacketView& packet, Outbox& outbox) override;

  private:
    [[nodiscard]] bool is_for_us(const wire::PacketView& packet) const;
    void receive(const wire::PacketView& packet, Outbox& outbox);
};

struct RoceDatagrams;
struct IbDatagrams;
using UdQp = UdQpOver<RoceDatagrams>;
using IbUdQp = UdQpOver<IbDatagrams>;

}  // namespace urnic
