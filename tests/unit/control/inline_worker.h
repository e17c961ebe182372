#pragma once

#include <atomic>
#include <cstdint>

namespace urnic::dataplane {

/// What all workers of inline_worker.cc together have seen; they run on the server's thread.
struct WorkerBooks {
    std::atomic<std::uint64_t> calls{0};
    std::atomic<std::int64_t> qps{0};
    std::atomic<std::uint32_t> plans{0};  // devices with faults, on the worker that was told last
    std::atomic<int> attach_error{0};     // what attach_client() answers
    std::atomic<bool> last_path_is_ipv4{false};
    std::atomic<std::uint8_t> last_path_mac_end{0};  // last byte of the destination MAC
};

WorkerBooks& worker_books();

}  // namespace urnic::dataplane
