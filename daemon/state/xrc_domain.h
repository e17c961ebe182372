// XRC domains and the target QPs in them (IBA annex A14): what processes share. The control thread's own, but
// for what it says is a worker's.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "dataplane/worker/worker.h"
#include "os/unique_fd.h"
#include "rnic/queue/shared_recv_queue.h"

namespace urnic::daemon {

/// A target QP. Lives as long as somebody has a handle to it.
struct XrcTarget {
    dataplane::QpSlot slot;
    std::uint32_t handles = 0;
};

/// A domain. Lives as long as somebody has it open; its SRQs and target QPs are all on one worker, so that
/// packets find an SRQ without a lock.
struct XrcDomain {
    /// Which file stands for the domain: the same file is the same domain, in whatever process.
    struct File {
        std::uint64_t device = 0;
        std::uint64_t inode = 0;
        bool operator==(const File&) const = default;
    };
    File file;
    UniqueFd fd;  // keeps the inode from being used again; none: a domain without a file
    std::uint32_t worker = 0;
    std::uint32_t references = 0;
    std::unordered_map<std::uint32_t, std::unique_ptr<XrcTarget>> targets;  // by QP number
    XrcSrqTable srqs;                                                       // the worker's
};

}  // namespace urnic::daemon
