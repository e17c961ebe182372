// What a trace says of the network: its ports, what happened at them, and which paths the QPs have.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <vector>

namespace urnic::view {

/// The page has the same list (PORT_KIND in page/network.js).
enum class PortKind : std::uint8_t {
    kQueue,      // value: bytes that wait; most: since the event before
    kMarked,     // value: packets
    kDropped,    // value: packets; most: which of kDropTriggers
    kPaused,     // the other end of the link stops it; value: priority
    kResumed,    // the same
    kStops,      // it stops the other end of its link; value: priority
    kLetsGo,     // the same
    kWaitBegan,  // for credit
    kWaitEnded,
};
inline constexpr std::array<const char*, 3> kDropTriggers = {"dropped", "watchdog_dropped", "xmit_discards"};

struct PortEvent {
    double time_ms = 0;
    double value = 0;
    double most = 0;
    PortKind kind = PortKind::kQueue;
};

struct Port {
    std::string name;  // "s1>h3"
    std::string node;
    bool is_host = false;
    double bits_per_s = 0;
    std::vector<PortEvent> events;
};

struct Path {
    std::string qp;  // "h1/0x11"
    std::string flow;
    bool has_payload = false;
    double level = 0;  // priority, of InfiniBand SL
    std::vector<std::size_t> ports;
};

class NetworkLog {
  public:
    static constexpr std::size_t kMostPorts = 4'096;
    static constexpr std::size_t kMostPaths = 4'000;
    static constexpr std::size_t kMostHops = 64;

    enum class Taken : std::uint8_t { kNot, kAsEvent, kAsFact, kBad, kBeyond };
    /// `name` has no "rdma:". kNot: it is no event of a network, or of its QPs, too.
    Taken add(double time_ms, const std::string& group, const std::string& name,
              const nlohmann::ordered_json& data);

    [[nodiscard]] const std::vector<Port>& ports() const { return ports_; }
    [[nodiscard]] const std::vector<Path>& paths() const { return paths_; }
    /// Of its events.
    [[nodiscard]] double end_ms() const { return end_ms_; }

  private:
    Taken add_port(const std::string& group, const nlohmann::ordered_json& data);
    Taken add_path(const std::string& group, const nlohmann::ordered_json& data);
    Taken add_pause(double time_ms, const std::string& group, bool is_begin,
                    const nlohmann::ordered_json& data);
    static bool fill(PortEvent& event, const std::string& name, const nlohmann::ordered_json& data);

    std::vector<Port> ports_;
    std::vector<Path> paths_;
    std::unordered_map<std::string, std::size_t> numbers_;  // of ports
    std::unordered_map<std::string, std::size_t> hosts_;    // the port of each
    double end_ms_ = 0;
};

}  // namespace urnic::view
