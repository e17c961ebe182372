/// What a link wants done: datagrams by the UD QP, frames to the TAP device, groups, address handles.
#pragma once

#include <cstdint>

#include "ulp/ipoib/codec/link_address.h"

namespace urnic::ipoib {

/// An address handle; 0: none.
using AddressHandle = std::uint64_t;

class Outbox {
  public:
    virtual ~Outbox() = default;
    Outbox() = default;
    Outbox(const Outbox&) = delete;
    Outbox& operator=(const Outbox&) = delete;

    /// 0 if it cannot be made.
    [[nodiscard]] virtual AddressHandle create_handle(const Gid& destination) = 0;
    /// It ends when the SENDs that use it have.
    virtual void destroy_handle(AddressHandle handle) = 0;
    /// One datagram of both pieces, copied before it returns. Returns false when there is no send slot; it is
    /// lost then, as with a NIC.
    [[nodiscard]] virtual bool send(AddressHandle handle, std::uint32_t qpn, ConstOctets header,
                                    ConstOctets payload) = 0;
    /// One Ethernet frame of both pieces.
    virtual void deliver(ConstOctets header, ConstOctets payload) = 0;
    /// Joins and leaves a group as FullMember. Returns false when it cannot be joined now; it is tried
    /// again.
    [[nodiscard]] virtual bool join(const Gid& group) = 0;
    virtual void leave(const Gid& group) = 0;
};

}  // namespace urnic::ipoib
