// Who wants to know what hosts in virtual time do with their QPs, to write a trace of it: the hosts tell, not
// the engines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/time.h"
#include "rnic/qp/qp.h"

namespace urnic {

class QpWatcher {
  public:
    virtual ~QpWatcher() = default;

    struct Packet {
        const Qp& qp;  // of the host
        const wire::PacketHeader& header;
        std::size_t payload_bytes;
    };
    /// The packet goes out.
    virtual void sent(TimeNs now, const std::string& host, const Packet& packet) = 0;
    /// Around Qp::handle_packet(). `held`: packets that the host's QPs hold.
    virtual void begin_receive(const Qp& qp, std::uint32_t held) = 0;
    virtual void end_receive(TimeNs now, const std::string& host, const Packet& packet,
                             std::uint32_t held) = 0;
    /// A completion was written to a CQ.
    virtual void completed(TimeNs now, const std::string& host, const Qp& qp,
                           const Completion& completion) = 0;
    /// A timer of the QP's requester expired (Outbox).
    virtual void timer_expired(TimeNs now, const std::string& host, const Qp& qp,
                               const TimerExpiry& expiry) = 0;
    /// Behind Qp::progress().
    virtual void progressed(TimeNs now, const std::string& host, const Qp& qp) = 0;
};

}  // namespace urnic
