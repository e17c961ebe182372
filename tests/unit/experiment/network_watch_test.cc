// What a trace tells of an experiment's network agrees with the results, and changes nothing.
#include "experiment/network_watch.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "tests/unit/experiment/outcome.h"

namespace urnic::experiment {
namespace {

// Two switches in a row; marks, pauses, and a port without room.
constexpr const char* kBusy = R"(
duration_us = 600
sample_us = 10
[topology]
kind = "dumbbell"
pairs = 2
rate_gbit = 40
trunk_gbit = 50
[switch]
xoff_kb = 40
[[flow]]
name = "a"
from = ["h1", "h2"]
to = "h3"
[[flow]]
name = "read"
from = "h4"
to = "h1"
verb = "read"
)";

constexpr const char* kSubnet = R"(
duration_us = 600
sample_us = 10
link_layer = "infiniband"
[topology]
kind = "dumbbell"
pairs = 2
rate_gbit = 40
trunk_gbit = 50
[subnet]
vls = 1
vl_buffer_bytes = 16384
[[flow]]
name = "a"
from = ["h1", "h2"]
to = "h3"
sl = 2
)";

struct KeptEvent {
    std::uint64_t time_ns;
    std::string group;
    std::string name;
    nlohmann::ordered_json data;
};

class Collected final : public trace::TraceOutput {
  public:
    void add(const trace::Event& event) override {
        EXPECT_LE(latest, event.time_ns) << event.name;
        latest = event.time_ns;
        all.push_back(
            {event.time_ns, std::string(event.group), std::string(event.name), trace::json_of(event.data)});
    }
    void add_message(const trace::AcknowledgedMessage& message) override {
        EXPECT_LE(latest, message.end_ns);
        latest = message.end_ns;
    }
    void finish() override {}
    [[nodiscard]] std::vector<KeptEvent> of(const std::string& name, const std::string& group = {}) const {
        std::vector<KeptEvent> found;
        for (const KeptEvent& event : all) {
            if (event.name == name && (group.empty() || event.group == group)) {
                found.push_back(event);
            }
        }
        return found;
    }
    [[nodiscard]] std::uint64_t count(const std::string& name, const std::string& group = {}) const {
        const auto found = of(name, group);
        return std::accumulate(found.begin(), found.end(), std::uint64_t{0}, [](auto sum, const auto& event) {
            return sum + event.data.at("count").template get<std::uint64_t>();
        });
    }

    std::vector<KeptEvent> all;
    std::uint64_t latest = 0;
};

/// Runs the one run of an experiment with a watch, and compares what came of it with a run without.
struct Watched {
    explicit Watched(std::string_view text, const Changes& changes = {})
        : runs(read_experiment(text, "test", changes)), simulation(runs[0].config) {
        trace::PacketTrace packets(events, {});
        trace::EngineTrace qps(packets);
        trace::NetworkTrace network(events, qps);
        simulation.watch(qps, network);
        const TimeNs half = runs[0].config.duration_ns / 2;
        simulation.run_until(half);
        simulation.run_until(2 * half);
        qps.settle();
        const std::vector<Finished> finished{{&runs[0], &simulation.results()}};
        EXPECT_EQ(to_json(finished, true), Outcome(text, changes).json());
    }
    [[nodiscard]] const PortResult& port(const std::string& name) const {
        for (const PortResult& port : simulation.results().ports) {
            if (port.name == name) {
                return port;
            }
        }
        throw std::runtime_error("no port " + name);
    }

    std::vector<Run> runs;
    Simulation simulation;
    Collected events;
};

TEST(NetworkWatch, PortsAndPaths) {
    const Watched watched(kBusy);
    const auto ports = watched.events.of("port_added");
    std::vector<std::string> names;
    for (const KeptEvent& port : ports) {
        names.push_back(port.group);
        EXPECT_EQ(port.time_ns, 0U);
    }
    EXPECT_EQ(names, (std::vector<std::string>{"s1>h1", "s1>h2", "s1>s2", "s2>h3", "s2>h4", "s2>s1", "h1>s1",
                                               "h2>s1", "h3>s2", "h4>s2"}));
    std::map<std::string, nlohmann::ordered_json> paths;
    for (const KeptEvent& path : watched.events.of("path_assigned")) {
        paths[path.group] = path.data;
    }
    EXPECT_EQ(paths.size(), 6U);
    EXPECT_EQ(
        paths.at("h1/0x11").dump(),
        R"({"peer":"h3/0x11","flow":"a.1","payload":true,"priority":3,"ports":["h1>s1","s1>s2","s2>h3"]})");
    EXPECT_EQ(
        paths.at("h3/0x11").dump(),
        R"({"peer":"h1/0x11","flow":"a.1","payload":false,"priority":3,"ports":["h3>s2","s2>s1","s1>h1"]})");
    EXPECT_EQ(
        paths.at("h4/0x11").dump(),
        R"({"peer":"h1/0x12","flow":"read","payload":true,"priority":3,"ports":["h4>s2","s2>s1","s1>h1"]})");
}

TEST(NetworkWatch, MarksPausesAndQueues) {
    const Watched watched(kBusy);
    // One port's queue is above the others' thresholds; a packet is marked once on its way.
    EXPECT_GT(watched.events.count("packets_marked"), 0U);
    EXPECT_EQ(watched.events.count("packets_marked", "s2>h3"), watched.port("s2>h3").counters.marks_made);
    std::uint64_t most = 0;
    for (const KeptEvent& event : watched.events.of("queue_updated", "s2>h3")) {
        most = std::max(most, event.data.at("most_bytes").get<std::uint64_t>());
    }
    EXPECT_EQ(most, watched.port("s2>h3").counters.most_bytes);
    // s2 stops s1, and s1 its hosts; what is asked for arrives.
    std::map<std::string, std::size_t> paused;
    for (const KeptEvent& event : watched.events.of("pfc_paused")) {
        ++paused[event.group + " " + event.data.at("direction").get<std::string>()];
        EXPECT_EQ(event.data.at("priority"), 3);
    }
    EXPECT_GT(paused["s2>s1 sent"], 0U);
    EXPECT_NEAR(static_cast<double>(paused["s1>s2 received"]), static_cast<double>(paused["s2>s1 sent"]), 1);
    EXPECT_GT(paused["s1>h1 sent"], 0U);
    EXPECT_GT(paused["h1 received"], 0U);
    EXPECT_EQ(paused.count("h1>s1 received"), 0U);
    EXPECT_EQ(watched.events.count("packets_dropped"), 0U);
    EXPECT_TRUE(watched.events.of("credit_wait_began").empty());
}

TEST(NetworkWatch, Drops) {
    const Watched watched(kBusy,
                          {{"switch.pfc", "false"}, {"switch.buffer_kb", "60"}, {"switch.ecn", "false"}});
    EXPECT_GT(watched.events.count("packets_dropped"), 0U);
    EXPECT_EQ(watched.events.count("packets_dropped"), watched.simulation.results().total.drops);
    EXPECT_EQ(watched.events.count("packets_dropped", "s2>h3"), watched.port("s2>h3").counters.dropped);
    EXPECT_TRUE(watched.events.of("pfc_paused").empty());
}

TEST(NetworkWatch, WaitsForCreditAreThoseOfTheResults) {
    const Watched watched(kSubnet);
    constexpr double kNsPerMs = 1e6;
    std::map<std::string, double> waited_ns;
    std::map<std::string, std::uint64_t> open;
    for (const KeptEvent& event : watched.events.all) {
        if (event.name == "credit_wait_began") {
            open[event.group] = event.time_ns;
        } else if (event.name == "credit_wait_ended") {
            waited_ns[event.group] += event.data.at("duration").get<double>() * kNsPerMs;
            open.erase(event.group);
        }
    }
    for (const auto& [port, since] : open) {
        waited_ns[port] += static_cast<double>(watched.runs[0].config.duration_ns - since);
    }
    for (const char* port : {"h1>s1", "h2>s1", "s1>s2"}) {
        EXPECT_GT(waited_ns[port], 1'000) << port;
        EXPECT_NEAR(waited_ns[port], static_cast<double>(watched.port(port).xmit_wait_ns.back()), 1) << port;
    }
    EXPECT_EQ(waited_ns.count("s2>h3"), 0U) << "a host takes what comes at once";
    std::uint64_t most = 0;
    for (const KeptEvent& event : watched.events.of("queue_updated", "s1>s2")) {
        most = std::max(most, event.data.at("most_bytes").get<std::uint64_t>());
    }
    EXPECT_EQ(most, watched.port("s1>s2").counters.most_bytes);
    EXPECT_EQ(watched.events.of("path_assigned", "h1/0x11").at(0).data.dump(),
              R"({"peer":"h3/0x11","flow":"a.1","payload":true,"sl":2,"ports":["h1>s1","s1>s2","s2>h3"]})");
}

}  // namespace
}  // namespace urnic::experiment
