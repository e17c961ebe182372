// A random walk: connections between simulated RNICs over a bad network, each end posting random operations
// in both directions at once, checked by an oracle at every completion.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/sim/walk/endpoint.h"

namespace urnic::sim {

struct WalkStats {
    OracleStats oracle;
    TroubleStats trouble;
    LinkCounters links;
    std::uint64_t packets = 0;      // that RNICs sent
    std::uint64_t retries = 0;      // go-backs of requesters
    std::uint64_t connections = 0;  // opened
    std::uint64_t events = 0;       // of the simulation
    void add(const WalkStats& other);
};

class Walk final : public HostListener {
  public:
    /// `watcher` is told what all devices do.
    explicit Walk(const WalkPlan& plan, PacketLog* log = nullptr, QpWatcher* watcher = nullptr);
    ~Walk() override;
    Walk(const Walk&) = delete;
    Walk& operator=(const Walk&) = delete;

    /// Empty, or what went wrong first.
    [[nodiscard]] std::string run();
    [[nodiscard]] WalkStats stats() const;

  private:
    class Connection;
    void build_network();
    void build_connections();
    [[nodiscard]] bool finished() const;
    void come_to_rest();
    void check_end();
    void fail(const std::string& what);
    void completed(std::uint32_t qp_num, const Completion& completion, bool is_lost) override;
    void raised(std::uint32_t qp_num, AsyncEventType type) override;

    WalkPlan plan_;
    QpWatcher* watcher_;
    Network network_;
    WalkShared shared_;
    std::unique_ptr<Switch> switch_;
    std::vector<std::unique_ptr<WalkDevice>> devices_;
    std::vector<DirectionId> uplinks_;  // of each device
    std::vector<std::unique_ptr<Connection>> connections_;
    std::uint64_t events_ = 0;
    bool stopping_ = false;
};

}  // namespace urnic::sim
