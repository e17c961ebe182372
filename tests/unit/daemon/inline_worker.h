#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "dataplane/port/port.h"
#include "dataplane/worker/round_watch.h"

namespace urnic::dataplane {

/// What all workers of inline_worker.cc together have seen; they run on the server's thread.
struct WorkerRecord {
    std::atomic<std::uint64_t> calls{0};
    std::atomic<std::int64_t> qps{0};
    std::atomic<std::uint32_t> last_sends{0};  // calls of send_posted()
    std::atomic<std::uint32_t> plans{0};       // devices with faults, on the worker that was told last
    std::atomic<std::uint32_t> captures{0};    // in force, on the worker that was told last
    std::atomic<int> ports_down{0};            // on all workers together
    std::atomic<int> attach_error{0};          // what attach_client() answers
    std::atomic<std::uint32_t> last_forgotten_srq{0};  // that a QP was told of
    std::optional<LongRound> long_round;               // what take_long_round() gives, once
    std::atomic<bool> last_path_is_ipv4{false};
    std::atomic<std::uint8_t> last_path_mac_end{0};    // last byte of the destination MAC
    std::atomic<std::uint16_t> last_path_udp_port{0};  // the source port
};

WorkerRecord& worker_record();

/// The port of a device that has none: remembers its groups.
class NoPort final : public Port {
  public:
    std::uint16_t rx_burst(std::uint32_t, rte_mbuf**, std::uint16_t) override { return 0; }
    std::uint16_t tx_burst(std::uint32_t, rte_mbuf**, std::uint16_t) override { return 0; }
    void set_multicast(std::span<const wire::Mac> macs) override {
        const std::lock_guard lock(mutex_);
        groups_.assign(macs.begin(), macs.end());
    }
    [[nodiscard]] int wait_fd(std::uint32_t) const override { return -1; }
    [[nodiscard]] std::vector<wire::Mac> groups() const {
        const std::lock_guard lock(mutex_);
        return groups_;
    }

  private:
    mutable std::mutex mutex_;
    std::vector<wire::Mac> groups_;
};

}  // namespace urnic::dataplane
