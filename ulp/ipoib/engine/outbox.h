/// What a link wants done: datagrams by the UD QP, frames to the TAP device, groups, address handles.
#pragma once

#include <cstdint>

#include "ulp/ipoib/codec/link_address.h"

namespace urnic::ipoib {

/// An address handle; 0: none.
using AddressHandle = std::uint64_t;
/// Not yet: the path is being asked for, and Link::on_settled() follows.
inline constexpr AddressHandle kPendingHandle = ~AddressHandle{0};

/// Of what may need an answer of the subnet administrator.
enum class Progress : std::uint8_t {
    kDone,
    kPending,  ///< Link::on_settled() follows
    kFailed,   ///< for now: it is tried again
};

class Outbox {
  public:
    virtual ~Outbox() = default;
    Outbox() = default;
    Outbox(const Outbox&) = delete;
    Outbox& operator=(const Outbox&) = delete;

    /// 0 if it cannot be made, or kPendingHandle.
    [[nodiscard]] virtual AddressHandle create_handle(const Gid& destination) = 0;
    /// It ends when the SENDs that use it have.
    virtual void destroy_handle(AddressHandle handle) = 0;
    /// One datagram of both pieces, copied before it returns. Returns false when there is no send slot; it is
    /// lost then, as with a NIC.
    [[nodiscard]] virtual bool send(AddressHandle handle, std::uint32_t qpn, ConstOctets header,
                                    ConstOctets payload) = 0;
    /// One Ethernet frame of both pieces.
    virtual void deliver(ConstOctets header, ConstOctets payload) = 0;
    /// Joins and leaves a group as FullMember.
    [[nodiscard]] virtual Progress join(const Gid& group) = 0;
    virtual void leave(const Gid& group) = 0;
};

}  // namespace urnic::ipoib
