// A port for single frames: a packet socket on an interface of this host, whose IPv4 address the tester uses.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/address_text.h"
#include "conform/live/wire_port.h"
#include "os/unique_fd.h"

namespace urnic::conform {

class PacketPort final : public WirePort {
  public:
    /// Sends no more frames a second. Throws SetupError: no such interface, no IPv4 address, no right.
    PacketPort(const std::string& interface, std::uint32_t frames_per_second);

    TimeNs send(std::span<const std::byte> frame) override;
    [[nodiscard]] std::optional<SeenFrame> receive(TimeNs until) override;
    [[nodiscard]] TimeNs now() const override;
    [[nodiscard]] std::uint64_t lost() override;

    [[nodiscard]] const Mac& mac() const { return mac_; }
    /// In the order of the wire.
    [[nodiscard]] const Ipv4Address& address() const { return address_; }
    /// Asks by ARP for the MAC of a neighbour; nothing: nobody answers.
    [[nodiscard]] std::optional<Mac> resolve(const Ipv4Address& neighbour, TimeNs patience_ns);
    /// Returns whether the interface's subnet has that address, and it is neither the subnet's broadcast
    /// address nor the interface's.
    [[nodiscard]] bool is_neighbour(const Ipv4Address& address) const;

  private:
    void look_at_interface();

    std::string interface_;
    int index_ = 0;
    Mac mac_{};
    Ipv4Address address_{};
    std::uint32_t netmask_ = 0;
    TimeNs gap_ns_;
    TimeNs next_send_ = 0;
    std::uint64_t lost_ = 0;
    UniqueFd frames_;
    UniqueFd rocev2_sink_;  // so that the kernel answers no UDP port 4791 with "port unreachable"
};

}  // namespace urnic::conform
