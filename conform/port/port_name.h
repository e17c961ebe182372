// What --port names.
#pragma once

#include <filesystem>
#include <string>

namespace urnic::conform {

/// The interface of a --port. Throws SetupError when it names none, with what to type instead where it names
/// a PCI device: `sysfs` says which interface that has.
[[nodiscard]] std::string interface_of(const std::string& port, const std::filesystem::path& sysfs = "/sys");

}  // namespace urnic::conform
