// An experiment in virtual time: hosts with real QPs on a network, flows that keep them busy, and what is
// seen of it at regular times. The same configuration gives the same results, to the last bit.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "experiment/config.h"
#include "experiment/network_watch.h"
#include "experiment/virtual_host.h"

namespace urnic::experiment {

/// One flow at one time.
struct FlowSample {
    double goodput_gbit = 0;  // since the sample before
    double rate_gbit = 0;     // RC: what the sender may send
    double target_gbit = 0;   // RT
    double alpha = 0;
};

struct FlowResult {
    std::uint16_t udp_source_port = 0;
    std::uint64_t bytes = 0;         // delivered
    std::uint64_t steady_bytes = 0;  // of these, after the warm-up
    std::uint64_t messages = 0;      // completed
    TimeNs finished_ns = kNever;     // when the last message was
    bool has_failed = false;         // retries ran out, or the peer refused
    bool is_steady = true;           // it was there from the end of the warm-up to the end
    std::uint64_t cnps = 0;          // that its sender honoured
    std::vector<FlowSample> samples;
};

struct PortResult {
    std::string name;  // "s1>h3"
    BitsPerSecond rate = 0;
    bool is_host = false;
    netsim::SwitchPortCounters counters;
    netsim::SwitchPortCounters at_warm_up;
    std::vector<std::uint64_t> queue_bytes;  // one a sample
    std::vector<TimeNs> xmit_wait_ns;        // so far, one a sample; empty on Ethernet
    TimeNs xmit_wait_at_warm_up_ns = 0;
};

/// Of all hosts together.
struct TotalResult {
    std::uint64_t marks = 0;  // packets that came with a CE mark
    std::uint64_t cnps_sent = 0;
    std::uint64_t cnps_handled = 0;
    std::uint64_t host_pauses = 0;  // that hosts were told
    std::uint64_t drops = 0;
    std::uint64_t sent_again = 0;
    std::uint64_t timeouts = 0;
    std::uint64_t events = 0;
    std::uint64_t packets = 0;  // delivered to hosts
};

struct TotalSample {
    std::uint64_t marks = 0;
    std::uint64_t cnps = 0;
    std::uint64_t pauses = 0;  // sent by switches
    std::uint64_t drops = 0;
};

struct Results {
    std::vector<FlowResult> flows;  // as in the configuration
    std::vector<PortResult> ports;  // of all switches; on InfiniBand of hosts, too
    TotalResult total;
    TimeNs steady_from_ns = 0;  // the first sample at the end of the warm-up or behind it
    std::vector<TimeNs> sampled_at;
    std::vector<TotalSample> totals;
};

class Simulation final : public VirtualNetworkListener, public CompletionListener {
  public:
    /// problem_of(config) is empty; it outlives the simulation.
    explicit Simulation(const ExperimentConfig& config);

    /// From now on, which is the beginning, `watcher` is told what hosts do with their QPs, and `network`
    /// what its ports are and do.
    void watch(QpWatcher& watcher, trace::NetworkTrace& network);
    /// Lets time pass; no further than the configured duration.
    void run_until(TimeNs end);
    /// After the end.
    [[nodiscard]] const Results& results() const { return results_; }

    void deliver(TimeNs now, netsim::NodeIndex host, VirtualPacket& packet) override;
    void dropped() override { ++results_.total.drops; }
    void room(TimeNs now, netsim::NodeIndex host) override;
    void completed(TimeNs now, netsim::NodeIndex host, const Completion& completion) override;

  private:
    struct Flow {
        const FlowConfig* config = nullptr;
        VirtualHost* asker = nullptr;  // posts the work requests
        VirtualHost::QpIndex asker_qp = 0;
        VirtualHost* sender = nullptr;  // of the data
        VirtualHost::QpIndex sender_qp = 0;
        VirtualHost* receiver = nullptr;
        VirtualHost::QpIndex receiver_qp = 0;
        std::uint64_t posted = 0;
        bool is_active = false;
        std::uint32_t last_psn = 0;  // as far as its bytes are counted
        double bytes = 0;
        double at_sample = 0;
    };
    // Timers behind those of QPs.
    [[nodiscard]] std::uint32_t start_timer(std::size_t flow) const {
        return static_cast<std::uint32_t>(timer_owners_.size() + flow);
    }
    [[nodiscard]] std::uint32_t sample_timer() const { return start_timer(flows_.size()); }

    void add_hosts();
    void add_flows();
    void add_ports();
    template <bool kIsWatched>
    void run(TimeNs end);
    [[nodiscard]] netsim::NodeIndex node_of(std::uint32_t timer) const;
    void on_timer(std::uint32_t timer);
    void post_more(Flow& flow);
    void count_bytes(Flow& flow);
    void take_sample();
    void read_ports(bool ends_warm_up, TotalSample& totals);
    void take_totals();
    void finish();

    const ExperimentConfig& config_;
    std::unique_ptr<VirtualNetwork> network_;
    std::unique_ptr<NetworkWatch> network_watch_;  // nullptr: nobody wants to know
    HostWorld world_;
    std::vector<std::unique_ptr<VirtualHost>> hosts_;  // by node
    std::vector<Flow> flows_;
    std::vector<std::vector<std::size_t>> flow_of_qp_;  // by node and QP
    std::vector<std::pair<VirtualHost*, VirtualHost::QpIndex>> timer_owners_;
    TimeNs now_ = 0;
    TimeNs sampled_at_ = 0;
    bool warmed_up_ = false;
    bool finished_ = false;
    Results results_;
};

}  // namespace urnic::experiment
