// The daemon's run directory: one daemon at a time, and nothing left behind.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>

#include "os/credentials.h"
#include "os/unique_fd.h"

namespace urnic::daemon {

/// A reason why the daemon does not start; what() says what to do.
struct StartError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class RunDir {
  public:
    /// Makes the directory if need be and takes it over from a daemon that has ended. It belongs to `owner`
    /// then, if one is given, and what lies in it is touched with his rights alone. Throws StartError:
    /// another daemon serves it, or it cannot be made or written.
    RunDir(std::string dir, unsigned mode, const std::optional<Account>& owner);
    /// Removes the socket, the lock, what DPDK has, and the directory if it was made here and is empty, as
    /// far as the daemon may still do that.
    ~RunDir();
    RunDir(const RunDir&) = delete;
    RunDir& operator=(const RunDir&) = delete;

    /// Makes the directory in which DPDK's telemetry listens, for its owner alone. Throws StartError.
    void make_dpdk_dir(const std::optional<Account>& owner) const;

    [[nodiscard]] const std::string& path() const { return dir_; }
    [[nodiscard]] std::string socket_path() const { return dir_ + "/control.sock"; }
    [[nodiscard]] std::string sysroot_path() const { return dir_ + "/sysroot"; }

  private:
    [[nodiscard]] std::string lock_path() const { return dir_ + "/urnicd.lock"; }
    [[nodiscard]] std::string dpdk_path() const { return dir_ + "/dpdk"; }
    void make(unsigned mode);
    void check_owner(const std::optional<Account>& owner) const;
    void give_to(const Account& owner);
    void remove_what_root_left() const;
    void lock();

    std::string dir_;
    bool made_ = false;
    UniqueFd lock_;
};

}  // namespace urnic::daemon
