/// The kernel as a member of a link's groups, on the interface below an RDMA device: rxe receives through the
/// kernel's IPv6, which drops what is for a group that nobody has joined, and the kernel's MLD reports tell
/// switches that snoop.
#pragma once

#include "ulp/ipoib/codec/link_address.h"

namespace urnic::ipoib {

class KernelMemberships {
  public:
    KernelMemberships() = default;
    ~KernelMemberships();
    KernelMemberships(const KernelMemberships&) = delete;
    KernelMemberships& operator=(const KernelMemberships&) = delete;

    /// On the interface of that index; 0: there is none, and then there is nothing to join.
    void set_interface(unsigned index) { interface_ = index; }
    /// Returns whether the kernel admits it. An interface that is not in this network namespace is none.
    [[nodiscard]] bool join(const Gid& group);
    void leave(const Gid& group);

  private:
    [[nodiscard]] bool request(int option, const Gid& group) const;

    unsigned interface_ = 0;
    int socket_ = -1;
};

}  // namespace urnic::ipoib
