#include "conform/port/port_name.h"

#include <string_view>
#include <system_error>
#include <vector>

#include "os/setup_error.h"

namespace urnic::conform {
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPacket = "af_packet:";
constexpr std::string_view kPci = "pci:";

/// No part of a path but a name.
bool is_pci_address(const std::string& text) {
    constexpr std::string_view kDigits = "0123456789abcdefABCDEF:.";
    return !text.empty() && text.find_first_not_of(kDigits) == std::string::npos && text[0] != '.';
}

/// The address as sysfs has it: with the domain, which people leave out.
std::string with_domain(const std::string& address) {
    constexpr std::size_t kWithoutDomain = 7;  // 01:00.0
    return address.size() == kWithoutDomain ? "0000:" + address : address;
}

std::vector<std::string> names_in(const fs::path& directory) {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
         entry.increment(error)) {
        names.push_back(entry->path().filename().string());
    }
    return names;
}

/// Of the NIC; one of virtio has a device of that bus in between.
std::vector<std::string> interfaces_of(const fs::path& device) {
    std::vector<std::string> names = names_in(device / "net");
    for (const std::string& child : names_in(device)) {
        if (child.starts_with("virtio")) {
            const std::vector<std::string> more = names_in(device / child / "net");
            names.insert(names.end(), more.begin(), more.end());
        }
    }
    return names;
}

/// What to do about a NIC that is named by its PCI address.
std::string instead_of_pci(const std::string& address, const fs::path& sysfs) {
    if (!is_pci_address(address)) {
        return "name the NIC's interface, af_packet:INTERFACE; `ip link` lists them";
    }
    const fs::path device = sysfs / "bus/pci/devices" / with_domain(address);
    std::error_code error;
    if (!fs::exists(device, error)) {
        return "and there is no PCI device " + address +
               " here; name the NIC's interface, af_packet:INTERFACE; `ip link` lists them";
    }
    std::string instead;
    for (const std::string& name : interfaces_of(device)) {
        instead += (instead.empty() ? "" : " or ") + std::string("--port af_packet:") + name;
    }
    if (!instead.empty()) {
        return "type " + instead;
    }
    const fs::path driver = fs::read_symlink(device / "driver", error).filename();
    return address + " has no interface (" +
           (error ? "it has no driver" : "its driver is " + driver.string()) +
           "): give it back to the kernel's driver, `driverctl unset-override " + with_domain(address) +
           "`, and name the interface that it gets, af_packet:INTERFACE";
}

}  // namespace

std::string interface_of(const std::string& port, const fs::path& sysfs) {
    if (port.starts_with(kPacket)) {
        return port.substr(kPacket.size());
    }
    if (port.starts_with(kPci)) {
        throw SetupError("--port " + port + ": the tester takes frames from the kernel, not by DPDK; " +
                         instead_of_pci(port.substr(kPci.size()), sysfs));
    }
    throw SetupError("--port " + port +
                     " is not known; it is af_packet:INTERFACE, or for `urnic conform` standalone");
}

}  // namespace urnic::conform
