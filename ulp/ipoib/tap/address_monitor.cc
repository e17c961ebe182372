#include "ulp/ipoib/tap/address_monitor.h"

#include <arpa/inet.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>

#include <cstring>

#include "ulp/ipoib/tap/setup_error.h"

namespace urnic::ipoib {

AddressMonitor::AddressMonitor(const std::string& interface, OnIpv4 on_ipv4, OnIpv6 on_ipv6)
    : socket_(nl_socket_alloc()),
      index_(static_cast<int>(if_nametoindex(interface.c_str()))),
      on_ipv4_(std::move(on_ipv4)),
      on_ipv6_(std::move(on_ipv6)) {
    nl_socket_disable_seq_check(socket_);
    nl_socket_modify_cb(socket_, NL_CB_VALID, NL_CB_CUSTOM, on_message, this);
    int error = nl_connect(socket_, NETLINK_ROUTE);
    error =
        error < 0 ? error : nl_socket_add_memberships(socket_, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR, 0);
    error = error < 0 ? error : nl_socket_set_nonblocking(socket_);
    if (error < 0) {
        nl_socket_free(socket_);
        throw SetupError(std::string("cannot follow the addresses of ") + interface +
                         " by rtnetlink: " + nl_geterror(error));
    }
}

AddressMonitor::~AddressMonitor() { nl_socket_free(socket_); }

int AddressMonitor::fd() const { return nl_socket_get_fd(socket_); }

/// Messages that were lost cost an announcement, nothing else.
void AddressMonitor::take() { nl_recvmsgs_default(socket_); }

int AddressMonitor::on_message(nl_msg* message, void* monitor) {
    const auto& self = *static_cast<AddressMonitor*>(monitor);
    const nlmsghdr* header = nlmsg_hdr(message);
    nlattr* attributes[IFA_MAX + 1];  // NOLINT: nlmsg_parse() fills an array
    if (header->nlmsg_type != RTM_NEWADDR ||
        nlmsg_parse(const_cast<nlmsghdr*>(header), sizeof(ifaddrmsg), attributes, IFA_MAX, nullptr) < 0) {
        return NL_OK;
    }
    const auto* address = static_cast<const ifaddrmsg*>(nlmsg_data(header));
    if (static_cast<int>(address->ifa_index) != self.index_) {
        return NL_OK;
    }
    if (address->ifa_family == AF_INET && attributes[IFA_LOCAL] != nullptr &&
        nla_len(attributes[IFA_LOCAL]) == 4) {
        std::uint32_t value = 0;
        std::memcpy(&value, nla_data(attributes[IFA_LOCAL]), sizeof value);
        self.on_ipv4_(ntohl(value));
    }
    // A tentative address is nobody's yet: the message comes again when it is not (RFC 4862, 5.4).
    const bool is_tentative = (address->ifa_flags & IFA_F_TENTATIVE) != 0;
    if (address->ifa_family == AF_INET6 && !is_tentative && attributes[IFA_ADDRESS] != nullptr &&
        nla_len(attributes[IFA_ADDRESS]) == 16) {
        Ipv6Address value{};
        std::memcpy(value.data(), nla_data(attributes[IFA_ADDRESS]), value.size());
        self.on_ipv6_(value);
    }
    return NL_OK;
}

}  // namespace urnic::ipoib
