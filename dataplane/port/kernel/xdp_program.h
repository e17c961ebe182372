// Our XDP program. The kernel loads it once, which takes more rights than to attach it again to an interface
// that comes back.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "os/unique_fd.h"

struct bpf_object;

namespace urnic::dataplane {

class XdpProgram {
  public:
    /// Loads it. `takes_fragments`: frames may have several buffers (Linux 5.18). Throws SetupError.
    explicit XdpProgram(bool takes_fragments);
    ~XdpProgram();
    XdpProgram(const XdpProgram&) = delete;
    XdpProgram& operator=(const XdpProgram&) = delete;

    /// Attaches it to an interface of the caller's network namespace: in the driver where that can, else in
    /// the kernel's general way. It stays there until the link (bpf_link) is closed, or the process ends,
    /// however it ends. Throws SetupError: another program is there, or no permission.
    [[nodiscard]] UniqueFd attach(const std::string& interface, int index) const;
    /// RoCEv2 frames of that queue of the NIC go to the socket from now on. Throws SetupError.
    void redirect(std::uint32_t queue, int socket) const;

  private:
    struct ObjectDeleter {
        void operator()(bpf_object* object) const;
    };
    std::unique_ptr<bpf_object, ObjectDeleter> object_;
};

/// How many queues the interface receives by (ethtool -l).
[[nodiscard]] std::uint32_t receive_queues(const std::string& interface);

}  // namespace urnic::dataplane
