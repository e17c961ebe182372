// A simulated RNIC: any number of QPs behind one port of a network. It takes frames in bursts, as a worker
// does, and sends no faster than its link.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "rnic/mem/key_table.h"
#include "rnic/qp/qp_watcher.h"
#include "tests/sim/copied_frames.h"
#include "tests/sim/last_asked.h"
#include "tests/sim/net/network.h"
#include "tests/sim/sim_host.h"

namespace urnic::sim {

/// A registered buffer. Its addresses are chosen, not where the memory happens to lie: two runs of one seed
/// send the same bytes.
class Region {
  public:
    [[nodiscard]] std::byte* data() const { return data_; }
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] std::uint64_t addr(std::size_t offset = 0) const { return iova_ + offset; }
    [[nodiscard]] std::uint32_t key() const { return key_; }
    [[nodiscard]] abi::Sge sge(std::size_t offset, std::uint32_t length) const {
        return {addr(offset), length, key_};
    }

  private:
    friend class SimDevice;
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
    std::uint64_t iova_ = 0;
    std::uint32_t key_ = 0;
};

/// A QP of a device.
class SimQp final : public SimHost {
  public:
    using SimHost::SimHost;
    bool dirty = false;  // has work for the next round
};

class SimDevice final : public NetworkNode, public SimWire {
  public:
    struct Options {
        std::string name;
        std::uint32_t number = 1;  // of the device: its addresses follow from it
        bool is_ipv6 = false;
        std::uint16_t vlan_tci = 0;          // 0: no tag
        TimeNs poll_ns = 500;                // a round of the worker comes up to this much after its cause
        std::uint32_t burst_frames = 32;     // taken in one round
        std::uint32_t rx_ring_frames = 512;  // more are dropped
        std::uint32_t packets_per_progress = 32;
        std::uint32_t held_frames = 0;  // packets that come early and are held; 0: QPs go back N
        std::uint32_t held_tables = 4;  // QPs that can hold them at once
        bool keeps_last_asked = false;  // answers no part of a READ before the one asked for last
    };
    SimDevice(Network& network, const Options& options, std::uint64_t seed);

    /// Frames go out by this direction.
    void attach(DirectionId out) { out_ = out; }
    [[nodiscard]] const wire::Mac& mac() const { return mac_; }
    [[nodiscard]] const wire::Gid& gid() const { return gid_; }
    [[nodiscard]] const std::string& name() const { return options_.name; }

    // --- What its applications have ----------------------------------------------------------------------
    /// What the QPs of a device share is filled in here.
    [[nodiscard]] SimQp& create_qp(SimHost::Options options);
    void destroy_qp(const SimQp& qp);
    /// Registers memory that outlives the device. `is_mapped` false: reached by copies alone.
    [[nodiscard]] Region register_memory(std::byte* data, std::size_t size_bytes, std::uint32_t access,
                                         bool is_mapped = true);
    /// Takes its key away; whoever looks it up from now on finds nothing.
    void revoke(const Region& region);
    /// The first key of a window, which outlives the device.
    [[nodiscard]] std::uint32_t add_window(MemoryWindow& window);
    /// modify_qp; `peer` is where attr.av leads. Returns 0 or errno.
    [[nodiscard]] int modify(SimQp& qp, abi::QpAttr attr, const SimDevice* peer = nullptr);
    /// The QP has work: it gets a round.
    void ring(SimQp& qp);

    /// Nothing is waiting here, and no QP wants to be called.
    [[nodiscard]] bool idle() const;
    /// Frames that came, and those of them that were looked at: the others wait in the receive ring.
    [[nodiscard]] std::uint64_t frames_received() const { return frames_received_; }
    [[nodiscard]] std::uint64_t frames_taken() const { return frames_received_ - rx_ring_.size(); }
    [[nodiscard]] std::uint64_t rx_ring_full() const { return rx_ring_full_; }
    [[nodiscard]] std::uint64_t refused() const { return refused_; }
    [[nodiscard]] std::uint64_t foreign() const { return foreign_; }
    /// READ requests for a part before the one that was asked for last.
    [[nodiscard]] std::uint64_t asked_too_late() const { return asked_too_late_; }

    // --- NetworkNode, SimWire ----------------------------------------------------------------------------
    void receive(TimeNs now, DirectionId from, Frame& frame) override;
    void wake(TimeNs now, std::uint64_t token) override;
    [[nodiscard]] TimeNs now() const override { return network_.now(); }
    [[nodiscard]] std::uint32_t room(const SimHost& /*from*/) const override { return network_.room(out_); }
    void timer_expired(SimHost& host, const TimerExpiry& expiry) override;
    [[nodiscard]] bool transmit(SimHost& from, const wire::Path& path, const wire::PacketHeader& header,
                                std::span<const MemoryPiece> pieces) override;

    KeyTable keys;
    Counters counters;
    HostListener* listener = nullptr;  // of QPs that are created from now on
    QpWatcher* watcher = nullptr;      // nullptr: nobody wants to know

  private:
    enum Token : std::uint64_t { kRound, kTimer };

    void schedule_round(TimeNs time);
    void schedule_timer(TimeNs time);
    void round(TimeNs now);
    void take_frame(const Frame& frame);
    [[nodiscard]] SimQp* find(std::uint32_t qp_num);
    [[nodiscard]] bool is_answered(const Qp& qp, const wire::PacketHeader& header);

    Network& network_;
    Options options_;
    Random random_;
    wire::Mac mac_{};
    wire::Gid gid_{};
    DirectionId out_ = 0;
    CopiedFrames held_frames_;
    ReorderBufferPool reorder_buffers_;
    std::vector<std::unique_ptr<SimQp>> qps_;
    std::deque<Frame*> rx_ring_;
    SimAddressSpace space_;
    std::uint32_t next_qp_num_;
    std::uint64_t next_iova_;
    TimeNs round_at_ = kNever;
    TimeNs timer_at_ = kNever;
    std::uint64_t frames_received_ = 0;
    std::uint64_t rx_ring_full_ = 0;
    std::uint64_t refused_ = 0;  // malformed, wrong ICRC
    std::uint64_t asked_too_late_ = 0;
    LastAsked last_asked_;
    std::uint64_t foreign_ = 0;  // not for this device or for no QP of it
};

}  // namespace urnic::sim
