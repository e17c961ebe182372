// What comes out of the connection manager.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rnic/cm/types.h"
#include "rnic/wire/mad/cm.h"

namespace urnic::cm {

enum class EventType : std::uint8_t {
    /// A REQ for a listener; `handle` is new and the owner's from now on: accept() or reject(), and once
    /// destroy(). Message: Req.
    kRequest,
    /// The REP to our REQ: bring the QP up and call send_rtu(), or reject(). Message: Rep.
    kReply,
    /// The RTU to our REP, or established() was called. Message: Rtu, or none.
    kEstablished,
    /// A REJ, to whatever we had sent; `reason` is its reason. Message: Rej; none: we have rejected the
    /// peer's
    /// REP ourselves, or ended what turned out to be stale.
    kRejected,
    /// Nobody answered our REQ or REP, though it was sent again as often as may be. No message.
    kUnreachable,
    /// A DREQ: disconnect() answers it. Message: Dreq.
    kDisconnectRequest,
    /// Our DREQ was answered. Message: Drep, or Dreq: both sides wanted it at once; or Rej.
    kDisconnected,
    /// Our DREQ was not answered; the connection has ended all the same. No message.
    kDisconnectTimeout,
    /// Timewait is over: QP number and PSNs may be used again. No message.
    kTimewaitExit,
    /// A SIDR_REQ for a listener; `handle` is new and the owner's: send_sidr_rep(), and once destroy().
    /// Message: SidrReq.
    kSidrRequest,
    /// The SIDR_REP to our SIDR_REQ, whatever its status. Message: SidrRep.
    kSidrReply,
    /// Nobody answered our SIDR_REQ. No message.
    kSidrUnreachable,
};

/// Everything that is pointed to lives as long as the call of Outbox::event().
struct Event {
    EventType type{};
    Handle handle = 0;
    /// Of connect(), send_sidr_req() or set_owner(); 0 in kRequest and kSidrRequest, whose handle has none
    /// yet.
    Cookie owner = 0;
    /// kRequest and kSidrRequest: which listener's, and whose.
    ListenerId listener = 0;
    Cookie listener_owner = 0;
    std::uint16_t reason = 0;  // kRejected
    /// Where the peer is, and where MADs to it come from.
    Route route;
    /// The whole message, or nullptr. as<M>() finds its kind.
    const wire::cm::Message* message = nullptr;
    /// kRequest and kSidrRequest of the RDMA IP CM service: the addresses in it, which agree with the
    /// GIDs; else, and for a listener with Families::kGid, nullptr.
    const wire::cm::IpCmHeader* ip = nullptr;
    /// The message's private data, all bytes of the field that are the consumer's: what follows the IP CM
    /// header if there is one.
    std::span<const std::uint8_t> private_data;

    template <class M>
    [[nodiscard]] const M* as() const {
        return message == nullptr ? nullptr : std::get_if<M>(message);
    }
};

/// A MAD to send from our QP1 to QP 1 of route.remote_gid, with kGsiQkey.
struct SendMad {
    Route route;
    std::array<std::byte, wire::kMadBytes> bytes{};
};

/// Neither function may call the manager: what is to be done about an event is done after the call that
/// made it has returned.
class Outbox {
  public:
    Outbox() = default;
    Outbox(const Outbox&) = delete;
    Outbox& operator=(const Outbox&) = delete;
    virtual ~Outbox() = default;
    /// May be lost, as any datagram.
    virtual void send(const SendMad& mad) = 0;
    virtual void event(const Event& event) = 0;
};

}  // namespace urnic::cm
