#include "conform/judged_device.h"

#include "conform/cm/cm_bench.h"
#include "conform/cm/cm_probe.h"
#include "conform/live/agent.h"
#include "conform/live/live_bench.h"
#include "conform/live/probe.h"
#include "conform/port/port_name.h"
#include "conform/port/tcp_agent.h"
#include "conform/run.h"
#include "rnic/cm/types.h"
#include "rnic/neighbour/neighbour_message.h"

namespace urnic::conform {

namespace {

constexpr int kFirstPatienceMs = 5'000;
// Linux rxe waits 50 s for each object that something still holds before it destroys it all the same.
constexpr int kPatienceMs = 110'000;
constexpr const char* kAgentPort = "18590";
constexpr std::uint16_t kTcpPortSpace = 0x0106;

// HOST, HOST:PORT, [IPv6] or [IPv6]:PORT.
std::string agent_host(const Options& options, const Gid& peer) {
    const std::string& agent = options.agent;
    if (agent.empty()) {
        return options.peer + (net::is_link_local(peer) ? "%" + interface_of(options.port) : std::string{});
    }
    return agent.front() == '[' ? agent.substr(1, agent.find(']') - 1) : agent.substr(0, agent.find(':'));
}

std::string agent_port(const std::string& agent) {
    const std::size_t end = agent.find(']');
    const std::size_t colon = agent.find(':', end == std::string::npos ? 0 : end);
    return colon == std::string::npos ? kAgentPort : agent.substr(colon + 1);
}

class AgentDevice final : public JudgedDevice {
  public:
    AgentDevice(const Options& options, WirePort& port, const LivePath& path, std::uint32_t first_qp)
        : name_(options.device),
          gid_(path.device_gid),
          channel_(agent_host(options, path.device_gid), agent_port(options.agent), kFirstPatienceMs),
          agent_(channel_),
          bench_(port, agent_, path, first_qp) {}
    [[nodiscard]] JudgedBench& bench() override { return bench_; }
    [[nodiscard]] std::map<std::string, std::string> prepare() override;

  private:
    std::string name_;
    Gid gid_;
    TcpAgent channel_;
    Agent agent_;
    LiveBench bench_;
};

std::map<std::string, std::string> AgentDevice::prepare() {
    agent_.hello();
    channel_.set_patience(kPatienceMs);
    std::map<std::string, std::string> device = agent_.open(name_, gid_);
    const auto number = [&](const char* name, std::uint32_t fallback) {
        const auto found = device.find(name);
        return found == device.end() ? fallback : static_cast<std::uint32_t>(agent_number(found->second));
    };
    DeviceFacts facts;
    facts.mtu = number("mtu", facts.mtu);
    facts.max_dest_rd_atomic = number("max_rd", facts.max_dest_rd_atomic);
    facts.max_rd_atomic = number("max_init_rd", facts.max_rd_atomic);
    // More than C9-94 allows says nothing, and 0 neither.
    if (const auto most = number("max_msg", 0); most != 0) {
        facts.max_message_bytes = std::min(most, facts.max_message_bytes);
    }
    facts.has_atomics = number("atomic", 1) != 0;
    bench_.set_facts(facts);
    prove_transport(bench_);
    facts.is_selective = keeps_early_packets(bench_);
    bench_.set_facts(facts);
    device["mtu"] = std::to_string(facts.mtu);
    device["early_packets"] = facts.is_selective ? "kept" : "discarded";
    return device;
}

class ListenerDevice final : public JudgedDevice {
  public:
    ListenerDevice(const Options& options, WirePort& port, const LivePath& path, std::uint32_t first_qp)
        : listener_(options.cm_port),
          bench_(port, path, cm::ip_service_id(kTcpPortSpace, options.cm_port), first_qp) {}
    [[nodiscard]] JudgedBench& bench() override { return bench_; }
    [[nodiscard]] std::map<std::string, std::string> prepare() override;

  private:
    std::uint16_t listener_;
    CmBench bench_;
};

std::map<std::string, std::string> ListenerDevice::prepare() {
    std::map<std::string, std::string> device = prove_listener(bench_, listener_);
    device["name"] = "listener " + std::to_string(listener_);
    bench_.expect_listener();
    const bool is_selective = listener_keeps_early_packets(bench_);
    bench_.set_selective(is_selective);
    device["early_packets"] = is_selective ? "kept" : "discarded";
    return device;
}

class ClientDevice final : public JudgedDevice {
  public:
    ClientDevice(const Options& options, WirePort& port, const LivePath& path, std::uint32_t first_qp)
        : port_(options.cm_port),
          bench_(port, path, cm::ip_service_id(kTcpPortSpace, options.cm_port), first_qp) {}
    [[nodiscard]] JudgedBench& bench() override { return bench_; }
    [[nodiscard]] std::map<std::string, std::string> prepare() override {
        std::map<std::string, std::string> device = prove_client(bench_, port_);
        device["name"] = "client of port " + std::to_string(port_);
        return device;
    }

  private:
    std::uint16_t port_;
    PassiveCmBench bench_;
};

}  // namespace

std::unique_ptr<JudgedDevice> device_with_agent(const Options& options, WirePort& port, const LivePath& path,
                                                std::uint32_t first_qp) {
    return std::make_unique<AgentDevice>(options, port, path, first_qp);
}

std::unique_ptr<JudgedDevice> device_with_listener(const Options& options, WirePort& port,
                                                   const LivePath& path, std::uint32_t first_qp) {
    return std::make_unique<ListenerDevice>(options, port, path, first_qp);
}

std::unique_ptr<JudgedDevice> device_with_client(const Options& options, WirePort& port, const LivePath& path,
                                                 std::uint32_t first_qp) {
    return std::make_unique<ClientDevice>(options, port, path, first_qp);
}

}  // namespace urnic::conform
