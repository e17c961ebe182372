// The bench of the tester: a QP of the device under test, which an agent commands, and a port on its network.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "conform/case/bench.h"
#include "conform/live/agent.h"
#include "conform/live/live_wire.h"

namespace urnic::conform {

/// What is known about the device.
struct DeviceFacts {
    std::uint32_t mtu = 4096;  // of its port
    std::uint32_t max_dest_rd_atomic = 16;
    std::uint32_t max_rd_atomic = 16;
    std::uint32_t max_message_bytes = 1U << 31U;  // of its port
    bool has_atomics = true;
    bool is_selective = false;
};

/// A QP of the device beside the one under test, connected to a number of the tester's.
struct OtherQp {
    std::uint32_t number = 0;
    std::uint32_t peer_number = 0;
    Gid peer_gid{};
};

class LiveBench final : public JudgedBench {
  public:
    /// `first_qp`: the tester's QP numbers begin there, a new one for each connection.
    LiveBench(WirePort& port, Agent& agent, const LivePath& path, std::uint32_t first_qp);
    ~LiveBench() override;

    void set_facts(const DeviceFacts& facts) { facts_ = facts; }
    [[nodiscard]] const DeviceFacts& facts() const { return facts_; }
    void begin_case(TimeNs limit_ns) override { wire_.begin_case(limit_ns); }
    void end_case() override { agent_.reset(); }
    [[nodiscard]] TimeNs real_now() const override { return wire_.real_now(); }
    [[nodiscard]] TimeNs held_up_ns() const override { return wire_.held_up_ns(); }
    [[nodiscard]] const std::vector<TracedFrame>& trace() const override { return wire_.trace(); }

    // --- What only this engine has
    /// An RC QP with the attributes of the one under test; its frames come to next() as well.
    [[nodiscard]] OtherQp add_qp() { return add_qp(path_.own_gid); }
    /// The same, whose peer has the tester's second address. Throws NotApplicable when there is none.
    [[nodiscard]] OtherQp add_qp_of_second_address();
    /// Throws NotApplicable when the device has none.
    [[nodiscard]] AgentWindow add_window();
    /// Posts BIND_MW of a type 2 window to `length` bytes of a region of add_region(), with this R_Key.
    void bind(std::uint64_t wr_id, const AgentWindow& window, std::uint32_t rkey, const Region& region,
              std::size_t offset, std::uint64_t length, std::uint32_t access);
    /// What the UD QP under test sends to: the tester; for SendRequest::address_handle.
    [[nodiscard]] std::uint32_t add_address_handle() {
        return add_address_handle(options_.traffic_class, options_.sl);
    }
    [[nodiscard]] std::uint32_t add_address_handle(std::uint8_t traffic_class, std::uint8_t sl);
    /// Whose tag all frames of the path have; 0: they have none.
    [[nodiscard]] std::uint16_t vlan() const { return path_.vlan; }
    /// As transmit(), with nothing between the frames: for what a device does about a burst.
    void transmit_together(const std::vector<FrameBytes>& burst) { wire_.transmit_together(burst); }
    /// The answers about an address that come for so long, by ARP or neighbour discovery, from whoever.
    [[nodiscard]] std::vector<SeenFrame> neighbour_messages(const Gid& address, TimeNs patience) {
        return wire_.neighbour_messages(address, wire_.real_now() + patience);
    }
    /// Everything that came or completed and was not looked at is forgotten.
    void forget();

    void create(const ConnectOptions& connect, const QpOptions& qp, std::span<const std::byte> data) override;
    void rtr() override;
    void rts() override;
    void init() override;
    [[nodiscard]] int modify(const abi::QpAttr& attr) override;
    [[nodiscard]] QpState state(QpState hoped) override;
    [[nodiscard]] bool is_draining() override { return agent_.query(qp_.index).is_draining; }
    [[nodiscard]] Region& memory() override;
    [[nodiscard]] Region& add_region(std::size_t bytes, std::uint32_t access) override;
    void post(const std::vector<SendRequest>& requests) override;
    void post_receive(std::uint64_t wr_id, const std::vector<abi::Sge>& sge) override;
    [[nodiscard]] std::uint32_t srq_number(std::size_t index) const override;
    void post_srq_receive(std::size_t index, std::uint64_t wr_id, const std::vector<abi::Sge>& sge) override;
    [[nodiscard]] std::vector<SeenCompletion> completions(bool recv, std::size_t hoped) override;
    [[nodiscard]] std::vector<AsyncEventType> events(std::size_t hoped) override;
    [[nodiscard]] std::uint32_t qp_num() const override { return qp_.number; }
    [[nodiscard]] std::uint32_t peer_qp_num() const override { return peer_qp_; }
    [[nodiscard]] wire::PathSpec path() const override { return wire_.path(); }
    void transmit(const std::vector<FrameBytes>& burst) override { wire_.transmit(burst); }
    [[nodiscard]] const SeenFrame* next(TimeNs until) override { return wire_.next(until); }
    SeenFrame take() override { return wire_.take(); }
    [[nodiscard]] TimeNs now() const override { return wire_.clock(); }
    void wait_until(TimeNs time) override { wire_.wait_until(time); }
    [[nodiscard]] const Tolerance& tolerance() const override { return tolerance_; }
    [[nodiscard]] bool is_selective() const override { return facts_.is_selective; }
    [[nodiscard]] std::uint32_t max_message_bytes() const override { return facts_.max_message_bytes; }

  private:
    class AgentRegion;
    struct Bytes {
        std::uint64_t address = 0;
        std::size_t used = 0;
    };

    [[nodiscard]] bool is_ours(std::uint32_t number) const;
    void must_modify(std::uint32_t qp, const std::string& attributes);
    void make_init(std::uint32_t qp, QpType type);
    void make_rtr(std::uint32_t qp, QpType type, std::uint32_t dest_qp, const Gid& peer);
    void make_rts(std::uint32_t qp, QpType type);
    [[nodiscard]] OtherQp add_qp(const Gid& peer);
    [[nodiscard]] std::uint32_t next_peer_qp();
    [[nodiscard]] std::string request_text(const SendRequest& request);
    template <typename Item, typename Poll>
    std::vector<Item> poll_until(std::size_t hoped, Poll&& poll);

    LiveWire wire_;
    Agent& agent_;
    LivePath path_;
    DeviceFacts facts_;
    Tolerance tolerance_;
    ConnectOptions options_;
    AgentQp qp_;
    std::vector<AgentSrq> srqs_;  // of an XRC target
    QpType type_ = QpType::kRc;
    std::uint32_t peer_qp_;       // opposite the QP under test
    std::uint32_t last_peer_qp_;  // number that was given last
    std::vector<OtherQp> others_;
    Bytes arena_;
    std::deque<std::unique_ptr<AgentRegion>> regions_;
};

}  // namespace urnic::conform
