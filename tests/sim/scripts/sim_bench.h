// The bench of the packet scripts in virtual time: a real RcQp on a simulated host, and no network behind it.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "conform/case/bench.h"
#include "rnic/qp/limits.h"
#include "tests/sim/sim_host.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/srq_fixture.h"

namespace urnic::sim {

/// What the QP does with packets that come early. A run of the program has one of both for all scripts.
enum class Recovery : std::uint8_t {
    kGoBackN,    // discards them
    kSelective,  // holds them, the daemon's default
};
void set_recovery(Recovery recovery);
[[nodiscard]] Recovery recovery();

class SimBench final : public conform::Bench {
  public:
    static constexpr std::uint32_t kQp = 1;      // ours
    static constexpr std::uint32_t kPeerQp = 2;  // the script's

    SimBench();
    ~SimBench() override;

    void create(const ConnectOptions& connect, const conform::QpOptions& qp,
                std::span<const std::byte> data) override;
    void rtr() override;
    void rts() override;
    void init() override;
    [[nodiscard]] int modify(const abi::QpAttr& attr) override;
    [[nodiscard]] QpState state(QpState /*hoped*/) override { return host_->qp().state(); }
    [[nodiscard]] bool is_draining() override;
    [[nodiscard]] std::optional<std::uint64_t> counter(Counter Counters::*which) override;
    [[nodiscard]] conform::Region& memory() override;
    [[nodiscard]] conform::Region& add_region(std::size_t bytes, std::uint32_t access) override;
    void post(const std::vector<SendRequest>& requests) override;
    void post_receive(std::uint64_t wr_id, const std::vector<abi::Sge>& sge) override;
    [[nodiscard]] std::uint32_t srq_number(std::size_t index) const override {
        return srqs_.at(index)->queue().identity().number;
    }
    void post_srq_receive(std::size_t index, std::uint64_t wr_id, const std::vector<abi::Sge>& sge) override;
    [[nodiscard]] std::vector<conform::SeenCompletion> completions(bool recv, std::size_t hoped) override;
    [[nodiscard]] std::vector<AsyncEventType> events(std::size_t hoped) override;
    [[nodiscard]] std::uint32_t qp_num() const override { return kQp; }
    [[nodiscard]] std::uint32_t peer_qp_num() const override { return kPeerQp; }
    [[nodiscard]] wire::PathSpec path() const override;
    void transmit(const std::vector<conform::FrameBytes>& burst) override;
    [[nodiscard]] const conform::SeenFrame* next(TimeNs until) override;
    conform::SeenFrame take() override;
    [[nodiscard]] TimeNs now() const override { return network_->now(); }
    void wait_until(TimeNs time) override { network_->run_until(time); }
    [[nodiscard]] const conform::Tolerance& tolerance() const override { return tolerance_; }
    [[nodiscard]] bool is_selective() const override { return recovery() == Recovery::kSelective; }
    [[nodiscard]] std::uint32_t max_message_bytes() const override { return kMaxMessageBytes; }

    /// Of the next host: what is not in QpOptions.
    SimHost::Options host_options;
    [[nodiscard]] SimHost& host() { return *host_; }
    [[nodiscard]] SimRegion& sim_memory() { return *memory_; }
    [[nodiscard]] SimNetwork& network() { return *network_; }

  private:
    class HostRegion;

    /// Those of a target; the ones before are gone.
    void make_srqs(const conform::QpOptions& qp);

    std::unique_ptr<SimNetwork> network_;
    std::vector<std::unique_ptr<SimSrq>> srqs_;  // of an XRC target
    XrcSrqTable srq_domain_;
    std::unique_ptr<SimHost> host_;
    std::unique_ptr<SimHost> peer_address_;
    SimRegion* memory_ = nullptr;
    std::deque<std::unique_ptr<HostRegion>> regions_;
    ConnectOptions options_;
    std::optional<conform::SeenFrame> front_;
    conform::Tolerance tolerance_;
};

}  // namespace urnic::sim
