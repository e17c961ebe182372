/// Addresses that an interface gets, by rtnetlink.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ulp/ipoib/codec/multicast.h"

struct nl_sock;
struct nl_msg;

namespace urnic::ipoib {

class AddressMonitor {
  public:
    using OnIpv4 = std::function<void(std::uint32_t)>;
    using OnIpv6 = std::function<void(const Ipv6Address&)>;
    /// Of addresses that are new from now on. Throws SetupError.
    AddressMonitor(const std::string& interface, OnIpv4 on_ipv4, OnIpv6 on_ipv6);
    ~AddressMonitor();
    AddressMonitor(const AddressMonitor&) = delete;
    AddressMonitor& operator=(const AddressMonitor&) = delete;

    [[nodiscard]] int fd() const;
    /// Takes what has come.
    void take();

  private:
    static int on_message(nl_msg* message, void* monitor);

    nl_sock* socket_;
    int index_;
    OnIpv4 on_ipv4_;
    OnIpv6 on_ipv6_;
};

}  // namespace urnic::ipoib
