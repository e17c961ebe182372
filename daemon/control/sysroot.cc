#include "daemon/control/sysroot.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <rdma/rdma_user_cm.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <new>
#include <system_error>

#include "abi/control.h"
#include "base/address_text.h"
#include "daemon/control/port_counters.h"
#include "os/log.h"
#include "os/unique_fd.h"
#include "rnic/device/counters.h"

namespace urnic::daemon {

namespace {

namespace fs = std::filesystem;

/// ABI of the uverbs device as the provider's driver declares it (min and max 1).
constexpr const char* kDeviceAbiVersion = "1";
/// ABI of uverbs itself, which libibverbs wants to be 3 to 6.
constexpr const char* kUverbsAbiVersion = "6";

int write_in_place(const std::string& path, const std::string& text) {
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644));
    const bool done =
        file && ::pwrite(file.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
        ::ftruncate(file.get(), static_cast<off_t>(text.size())) == 0;
    return done ? 0 : errno;
}

/// Writes files named relative to one directory.
class Writer {
  public:
    explicit Writer(fs::path dir) : dir_(std::move(dir)) { fs::create_directories(dir_); }

    void operator()(const std::string& name, const std::string& value) const {
        const fs::path path = dir_ / name;
        fs::create_directories(path.parent_path());
        if (const int error = write_in_place(path, value + "\n"); error != 0) {
            throw std::system_error(error, std::generic_category(), "cannot write " + path.string());
        }
    }

  private:
    fs::path dir_;
};

fs::path port_dir(const std::string& dir, const dataplane::Device& device) {
    return fs::path(dir) / "sys/class/infiniband" / device.name / "ports/1";
}

fs::path device_dir(const std::string& dir, const dataplane::Device& device) {
    return fs::path(dir) / "sys/class/infiniband" / device.name / "device";
}

const char* state_of(const dataplane::Device& device) {
    if (device.port_state.is_up()) {
        return "4: ACTIVE";
    }
    constexpr std::uint8_t kArmed = 3;
    return !device.port_state.has_link() ? "1: DOWN" : device.subnet.state == kArmed ? "3: ARMED" : "2: INIT";
}
const char* phys_state_of(const dataplane::Device& device) {
    switch (device.port_state.phys()) {
        case dataplane::PortState::Phys::kDisabled:
            return "3: Disabled";
        case dataplane::PortState::Phys::kLinkUp:
            return "5: LinkUp";
        case dataplane::PortState::Phys::kPolling:
            break;
    }
    return "2: Polling";
}

/// What a subnet manager changes.
std::map<std::string, std::string> subnet_files(const dataplane::Device& device) {
    constexpr std::uint32_t kCmSupported = 0x0001'0000;
    const dataplane::SubnetPortInfo& info = device.subnet;
    const std::uint32_t mask = device.is_infiniband() ? info.capability_mask : kCmSupported;
    return {{"lid", fmt::format("0x{:x}", info.lid.load())},
            {"lid_mask_count", std::to_string(info.lmc.load())},
            {"sm_lid", fmt::format("0x{:x}", info.sm_lid)},
            {"sm_sl", std::to_string(info.sm_sl)},
            {"cap_mask", fmt::format("0x{:08x}", mask)}};
}

/// For libibumad, of the devices of InfiniBand: which RNIC each number is.
constexpr const char* kUmadAbiVersion = "5";

}  // namespace

Sysroot::~Sysroot() {
    std::error_code ignored;
    fs::remove_all(dir_, ignored);
}

void Sysroot::write() {
    fs::remove_all(dir_);
    Writer verbs(fs::path(dir_) / "sys/class/infiniband_verbs");
    verbs("abi_version", kUverbsAbiVersion);
    fs::create_directories(fs::path(dir_) / "dev/infiniband");
    // librdmacm's, which the provider serves.
    const Writer cm(fs::path(dir_) / "sys/class/misc/rdma_cm");
    cm("abi_version", std::to_string(RDMA_USER_CM_ABI_VERSION));
    fs::create_symlink("/dev/null", fs::path(dir_) / "dev/infiniband/rdma_cm");
    std::uint32_t num_umads = 0;
    for (const dataplane::Device* device : devices_) {
        write_device(*device);
        if (device->is_infiniband()) {
            const Writer mad(fs::path(dir_) / "sys/class/infiniband_mad");
            mad("abi_version", kUmadAbiVersion);
            for (const char* kind : {"umad", "issm"}) {
                mad(fmt::format("{}{}/ibdev", kind, num_umads), device->name);
                mad(fmt::format("{}{}/port", kind, num_umads), "1");
            }
            ++num_umads;
        }
        const std::string uverbs = "uverbs_" + device->name;
        verbs(uverbs + "/ibdev", device->name);
        // Switches off libibverbs' check of the device number, and its wait for udev.
        verbs(uverbs + "/dev", "0:0");
        verbs(uverbs + "/abi_version", kDeviceAbiVersion);
        // A character device that answers ENOTTY to every ioctl; the provider does the rest.
        fs::create_symlink("/dev/null", fs::path(dir_) / "dev/infiniband" / uverbs);
    }
}

void Sysroot::write_device(const dataplane::Device& device) const {
    const Writer file(fs::path(dir_) / "sys/class/infiniband" / device.name);
    const std::string guid = guid_text(device.node_guid);
    file("node_type", "1: CA");
    file("node_guid", guid);
    file("sys_image_guid", guid);
    file("node_desc", device.name);
    file("fw_ver", URNIC_VERSION);
    file("hca_type", "urnic");
    file("hw_rev", "0x0");
    file("board_id", "urnic");
    fs::create_directories(device_dir(dir_, device));
    write_port(device);
}

void Sysroot::write_port(const dataplane::Device& device) const {
    const Writer file(port_dir(dir_, device));
    file("state", state_of(device));
    file("phys_state", phys_state_of(device));
    file("rate", "100 Gb/sec (4X EDR)");
    file("link_layer", device.is_infiniband() ? "InfiniBand" : "Ethernet");
    for (const auto& [name, value] : subnet_files(device)) {
        file(name, value);
    }
    fs::create_directories(port_dir(dir_, device) / "pkeys");
    refresh_pkeys(device);
    for (std::size_t i = 0; i < device.gids.size(); ++i) {
        // For free entries too: ibv_query_gid_table gives up at the first entry without a type.
        file(fmt::format("gid_attrs/types/{}", i), device.is_infiniband() ? "IB/RoCE v1" : "RoCE v2");
    }
    fs::create_directories(port_dir(dir_, device) / "gids");
    fs::create_directories(port_dir(dir_, device) / "gid_attrs/ndevs");
    refresh_gids(device);
    const auto sums = sum_counters(device, num_workers_);
    for (const auto& [name, value] : sums) {
        file("hw_counters/" + name, std::to_string(value));
    }
    for (const auto& [name, value] : port_counters(sums)) {
        file(std::string("counters/") + name, std::to_string(value));
    }
    file("hw_counters/lifespan", "1000");  // milliseconds between refreshes
}

void Sysroot::refresh_counters() {
    shown_.resize(devices_.size());
    for (std::size_t i = 0; i < devices_.size(); ++i) {
        const fs::path dir = port_dir(dir_, *devices_[i]);
        auto sums = sum_counters(*devices_[i], num_workers_);
        if (sums == shown_[i]) {
            continue;
        }
        for (const auto& [name, value] : sums) {
            (void)write_in_place(dir / "hw_counters" / name, std::to_string(value) + "\n");
        }
        for (const auto& [name, value] : port_counters(sums)) {
            (void)write_in_place(dir / "counters" / name, std::to_string(value) + "\n");
        }
        shown_[i] = std::move(sums);
    }
}

void Sysroot::on_port_state(const RnicState& rnic, bool /*is_up*/) {
    try {
        refresh_port(*rnic.device);
    } catch (const std::bad_alloc&) {
        log_warning("no memory: the states of ports below {} are out of date", dir_);
    }
}

void Sysroot::on_subnet(const RnicState& rnic, std::optional<AsyncEventType> event) {
    on_port_state(rnic, false);
    if (event == AsyncEventType::kPkeyChange) {
        refresh_pkeys(*rnic.device);
    }
}

void Sysroot::refresh_pkeys(const dataplane::Device& device) const {
    const fs::path dir = port_dir(dir_, device) / "pkeys";
    for (std::size_t i = 0; i < device.pkeys.entries.size(); ++i) {
        (void)write_in_place(dir / std::to_string(i), fmt::format("0x{:04x}\n", device.pkeys.entries.at(i)));
    }
}

void Sysroot::on_gids(const RnicState& rnic) {
    try {
        refresh_gids(*rnic.device);
    } catch (const std::bad_alloc&) {
        log_warning("no memory: the GIDs below {} are out of date", dir_);
    }
}

void Sysroot::refresh_gids(const dataplane::Device& device) const {
    const fs::path dir = port_dir(dir_, device);
    for (std::size_t i = 0; i < device.gids.size(); ++i) {
        const std::string number = std::to_string(i);
        (void)write_in_place(dir / "gids" / number, full_gid_text(device.gids[i]) + "\n");
        // The kernel has a file for each entry, and EINVAL on reading one without an interface.
        const std::string& interface = device.gid_interfaces[i];
        (void)write_in_place(dir / "gid_attrs/ndevs" / number, interface.empty() ? "" : interface + "\n");
    }
    link_interface(device);
}

/// device/net/NAME, as NICs have it; it leads to what the kernel says of the interface, where the program
/// sees it.
void Sysroot::link_interface(const dataplane::Device& device) const {
    // The first address is the link-local one of the interface itself, not of a VLAN on it.
    const auto* named = std::find_if(device.gid_interfaces.begin(), device.gid_interfaces.end(),
                                     [](const std::string& name) { return !name.empty(); });
    const std::string name = named == device.gid_interfaces.end() ? std::string() : *named;
    // Empty it may not be: pyverbs' tests take the first name in it.
    const fs::path dir = device_dir(dir_, device) / "net";
    std::error_code ignored;
    if (name.empty() || !fs::is_symlink(dir / name, ignored)) {
        fs::remove_all(dir, ignored);
    }
    if (!name.empty()) {
        fs::create_directories(dir, ignored);
        fs::create_directory_symlink("/sys/class/net/" + name, dir / name, ignored);
    }
}

void Sysroot::refresh_port(const dataplane::Device& device) const {
    const fs::path dir = port_dir(dir_, device);
    (void)write_in_place(dir / "state", std::string(state_of(device)) + "\n");
    (void)write_in_place(dir / "phys_state", std::string(phys_state_of(device)) + "\n");
    for (const auto& [name, value] : subnet_files(device)) {
        (void)write_in_place(dir / name, value + "\n");
    }
}

}  // namespace urnic::daemon
