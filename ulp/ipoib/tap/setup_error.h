/// What goes wrong before a link is up: what, where, and what to do.
#pragma once

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace urnic::ipoib {

struct SetupError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

[[nodiscard]] inline SetupError errno_error(const std::string& what, const std::string& hint) {
    return SetupError(what + ": " + std::strerror(errno) + (hint.empty() ? "" : " (" + hint + ")"));
}

}  // namespace urnic::ipoib
