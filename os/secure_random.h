// Random numbers that nobody can guess.
#pragma once

#include <cstdint>

namespace urnic {

/// A random number nobody can guess (R_Keys, QP numbers).
[[nodiscard]] std::uint32_t secure_random();

}  // namespace urnic
