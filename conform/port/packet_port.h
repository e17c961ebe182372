// A port for single frames: a packet socket on an interface of this host, of whose addresses the tester uses
// one, and a second one where a case needs two peers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/address.h"
#include "conform/live/wire_port.h"
#include "os/unique_fd.h"

namespace urnic::conform {

class PacketPort final : public WirePort {
  public:
    /// The address of the interface on the network of `peer` (IPv4-mapped or IPv6) becomes the tester's.
    /// With a VLAN (not 0) all frames have its tag, and the address may be any interface's of this host: that
    /// of the VLAN's. Sends no more frames a second. Throws SetupError: no such interface, no right, `peer`
    /// is no neighbour.
    PacketPort(const std::string& interface, std::uint16_t vlan, const Gid& peer,
               std::uint32_t frames_per_second);

    TimeNs send(std::span<const std::byte> frame) override;
    TimeNs send_together(const std::vector<FrameBytes>& untagged) override;
    [[nodiscard]] std::optional<SeenFrame> receive(TimeNs until) override;
    [[nodiscard]] TimeNs now() const override;
    [[nodiscard]] std::uint64_t lost() override;

    [[nodiscard]] const Mac& mac() const { return mac_; }
    [[nodiscard]] const Gid& address() const { return address_; }
    /// Another of the same interface on the same network; nothing: it has only one.
    [[nodiscard]] const std::optional<Gid>& second_address() const { return second_address_; }
    /// Asks by ARP or neighbour discovery for the MAC of a neighbour; nothing: nobody answers.
    [[nodiscard]] std::optional<Mac> resolve(const Gid& neighbour, TimeNs patience_ns);

  private:
    void look_at_interface();
    void choose_addresses(const Gid& peer);
    void open_socket();
    /// One frame, waiting until it may go and the kernel takes it; the time then.
    TimeNs put(std::span<const std::byte> frame);
    /// Waits until so many frames may go; the time then.
    TimeNs take_turn(std::size_t frames);
    /// The kernel did not take a frame: waits a little. Throws BenchFailed when it never will, or did not
    /// until `end`.
    void wait_to_send(TimeNs end) const;

    std::string interface_;
    std::uint16_t vlan_;
    int index_ = 0;
    Mac mac_{};
    Gid address_{};
    std::optional<Gid> second_address_;
    TimeNs gap_ns_;
    TimeNs next_send_ = 0;
    std::uint64_t lost_ = 0;
    UniqueFd frames_;
    std::deque<SeenFrame> segments_;  // of one frame that stood for several, those that nobody has had yet
    // So that the kernel answers no UDP port 4791 with "port unreachable", at either address.
    UniqueFd rocev2_sink_;
    UniqueFd second_rocev2_sink_;
};

}  // namespace urnic::conform
