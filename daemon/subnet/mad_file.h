// What one open umad device does (Linux's user_mad.c as its ABI describes it): agents, requests that wait for
// their responses, messages of several segments.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/time.h"
#include "rnic/subnet/mad_packet.h"
#include "rnic/subnet/rmpp_transfer.h"

namespace urnic::daemon {

/// A registration: which requests an agent takes.
struct MadAgent {
    std::uint32_t qpn = 0;
    std::uint8_t mgmt_class = 0;
    std::uint8_t class_version = 0;
    std::uint8_t rmpp_version = 0;  // 0: the program makes segments itself, or needs none
    std::uint32_t oui = 0;
    std::array<std::uint64_t, 2> methods{};  // bit m: requests of method m

    [[nodiscard]] bool has_method(std::uint8_t method) const {
        return method < 128 && (methods.at(method / 64U) >> (method % 64U) & 1U) != 0;
    }
};

class MadFile {
  public:
    static constexpr std::size_t kMaxAgents = 32;
    static constexpr std::size_t kMaxOutstanding = 1024;
    static constexpr std::size_t kMaxMessages = 64;  // of several segments, each way

    /// `send`: a MAD leaves by the device's port. `give`: a datagram for the program. `first_tid`: the upper
    /// half of transaction IDs of its first agent; each agent has one more.
    struct Effects {
        std::function<void(const subnet::MadPacket&)> send;
        std::function<void(std::span<const std::byte>)> give;
    };
    MadFile(Effects effects, std::uint32_t first_tid) : effects_(std::move(effects)), first_tid_(first_tid) {}

    /// 0 and its number, or an errno value.
    [[nodiscard]] int add_agent(const MadAgent& agent, std::uint32_t& id);
    [[nodiscard]] int remove_agent(std::uint32_t id);
    [[nodiscard]] bool has_agent_for(const MadAgent& like) const;

    /// What the program wrote. Returns whether it was one: header, agent, length, QP.
    bool write(std::span<const std::byte> datagram, TimeNs now);
    /// A MAD that came to the port. Returns whether one of the agents takes it.
    bool take(const subnet::MadPacket& packet, TimeNs now);
    /// Requests whose time is over go back to the program with ETIMEDOUT, or out once more.
    void advance(TimeNs now);
    [[nodiscard]] TimeNs next_event() const;

  private:
    struct Request {
        std::uint32_t agent = 0;
        std::vector<std::byte> header;  // ib_user_mad_hdr as it was written
        subnet::MadPacket packet;
        std::uint32_t retries = 0;
        TimeNs timeout_ns = 0;
        TimeNs deadline = kNever;
    };
    struct Outgoing {
        std::uint32_t agent = 0;
        subnet::RmppTransfer transfer;
    };
    struct Incoming {
        std::uint64_t transaction_id = 0;
        std::uint8_t mgmt_class = 0;
        std::uint16_t slid = 0;
        std::uint32_t agent = 0;
        subnet::RmppReceiver receiver;
        TimeNs deadline = kNever;
    };

    [[nodiscard]] std::optional<std::uint32_t> agent_for(const subnet::MadPacket& packet) const;
    bool take_control(const subnet::MadPacket& packet, TimeNs now);
    void take_segment(std::uint32_t agent, const subnet::MadPacket& packet, TimeNs now);
    /// Returns false if too many are under way.
    bool start_message(std::uint32_t agent, std::span<const std::byte> message,
                       const subnet::MadPacket& packet, TimeNs now);
    void finish_request(std::uint64_t transaction_id);
    void give(std::uint32_t agent, const subnet::MadPacket& from, std::span<const std::byte> message);

    Effects effects_;
    std::uint32_t first_tid_;
    std::map<std::uint32_t, MadAgent> agents_;
    std::list<Request> requests_;
    std::list<Outgoing> outgoing_;
    std::list<Incoming> incoming_;
};

}  // namespace urnic::daemon
