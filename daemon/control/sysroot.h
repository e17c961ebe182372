// What programs find in /sys and /dev: the discovery shim shows them the files of this tree in place of the
// system's. Contents are those of a soft RoCE device.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/state/control_state.h"
#include "dataplane/device/device.h"

namespace urnic::daemon {

class Sysroot final : public RnicObserver {
  public:
    /// Nothing is written yet. `dir`: RUN_DIR/sysroot.
    Sysroot(std::string dir, std::vector<const dataplane::Device*> devices, std::uint32_t num_workers)
        : dir_(std::move(dir)), devices_(std::move(devices)), num_workers_(num_workers) {}
    Sysroot(const Sysroot&) = delete;
    Sysroot& operator=(const Sysroot&) = delete;
    /// Removes the tree.
    ~Sysroot() override;

    /// Writes the whole tree in place of what is there. Throws std::system_error, which names the file.
    void write();
    /// Brings ports/1/counters and hw_counters up to date. Files are written in place: the modification time
    /// of a device's directory is the device's identity to libibverbs. Errors are not worth stopping for.
    /// What did not change is not written.
    void refresh_counters();
    void on_port_state(const RnicState& rnic, bool is_up) override;
    void on_link(RnicState& rnic, bool /*has_link*/) override { on_port_state(rnic, false); }
    void on_subnet(const RnicState& rnic, std::optional<AsyncEventType> event) override;
    void on_gids(const RnicState& rnic) override;

  private:
    void refresh_pkeys(const dataplane::Device& device) const;
    void refresh_port(const dataplane::Device& device) const;
    /// The GID table of a device, and the interface that it borrows addresses of.
    void refresh_gids(const dataplane::Device& device) const;
    void write_device(const dataplane::Device& device) const;
    void write_port(const dataplane::Device& device) const;
    void link_interface(const dataplane::Device& device) const;

    std::string dir_;
    std::vector<const dataplane::Device*> devices_;
    std::vector<std::map<std::string, std::uint64_t>> shown_;  // by device: what was written last
    std::uint32_t num_workers_;
};

}  // namespace urnic::daemon
