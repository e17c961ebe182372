// Our XDP program on an interface, from here to the destructor or the end of the process, however it ends:
// the kernel holds it by a link (bpf_link) that is ours.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "os/unique_fd.h"

struct bpf_object;

namespace urnic::dataplane {

class XdpProgram {
  public:
    /// Attaches it in the caller's network namespace: in the driver where that can, else in the kernel's
    /// general way. Throws SetupError: another program is there, or no permission.
    XdpProgram(const std::string& interface, int index);
    ~XdpProgram();
    XdpProgram(const XdpProgram&) = delete;
    XdpProgram& operator=(const XdpProgram&) = delete;

    /// RoCEv2 frames of that queue of the NIC go to the socket from now on. Throws SetupError.
    void redirect(std::uint32_t queue, int socket) const;

  private:
    struct ObjectDeleter {
        void operator()(bpf_object* object) const;
    };
    std::unique_ptr<bpf_object, ObjectDeleter> object_;
    UniqueFd link_;
};

/// How many queues the interface receives by (ethtool -l).
[[nodiscard]] std::uint32_t receive_queues(const std::string& interface);

}  // namespace urnic::dataplane
