/// A TAP device: the kernel's end of a link. The kernel leaves checksums and segmentation to it, as to a NIC.
#pragma once

#include <string>

#include "ulp/ipoib/codec/link_address.h"
#include "ulp/ipoib/codec/offload.h"
#include "ulp/ipoib/engine/coalescer.h"

namespace urnic::ipoib {

class TapDevice : public FrameSink {
  public:
    /// Makes a TAP device of that name ("": the kernel chooses) in this network namespace, with that MAC and
    /// MTU, and sets it up. Throws SetupError.
    TapDevice(const std::string& name, const Mac& mac, std::uint32_t mtu);
    ~TapDevice() override;

    [[nodiscard]] int fd() const { return fd_; }
    [[nodiscard]] const std::string& name() const { return name_; }
    /// A frame that the kernel sends; empty: none now. Valid until the next call.
    [[nodiscard]] Octets read(Offload& offload);
    /// Gives the kernel a frame.
    void write(const Offload& offload, std::span<const ConstOctets> pieces) override;
    /// Frames that the kernel has not taken.
    [[nodiscard]] std::uint64_t refusals() const { return refusals_; }

  private:
    void set_offloads() const;

    int fd_ = -1;
    std::string name_;
    std::uint64_t refusals_ = 0;
    /// An IP packet of 65,535 octets, and what is in front of it.
    std::array<std::byte, 65536 + 64> frame_{};
};

}  // namespace urnic::ipoib
