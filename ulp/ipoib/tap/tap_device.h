/// A TAP device: the kernel's end of a link.
#pragma once

#include <string>

#include "ulp/ipoib/codec/link_address.h"

namespace urnic::ipoib {

class TapDevice {
  public:
    /// Makes a TAP device of that name ("": the kernel chooses) in this network namespace, with that MAC and
    /// MTU, and sets it up. Throws SetupError.
    TapDevice(const std::string& name, const Mac& mac, std::uint32_t mtu);
    ~TapDevice();
    TapDevice(const TapDevice&) = delete;
    TapDevice& operator=(const TapDevice&) = delete;

    [[nodiscard]] int fd() const { return fd_; }
    [[nodiscard]] const std::string& name() const { return name_; }
    /// A frame that the kernel sends; empty: none now. Valid until the next call.
    [[nodiscard]] ConstOctets read();
    /// Gives the kernel a frame of both pieces; false: it does not take it.
    bool write(ConstOctets header, ConstOctets payload) const;

  private:
    int fd_ = -1;
    std::string name_;
    std::array<std::byte, 65536> frame_{};
};

}  // namespace urnic::ipoib
