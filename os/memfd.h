// Memory shared with applications: a sealed memfd and our mapping of it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/mapping.h"
#include "os/unique_fd.h"

namespace urnic {

/// A memfd of fixed size, mapped here for writing.
struct Memfd {
    UniqueFd fd;
    Mapping mapping;
};

enum class Sharing : std::uint8_t {
    kWritable,           // clients may map it for writing
    kReadOnlyForClients  // from now on nobody maps it for writing again; our mapping stays writable
};

/// Makes a memfd of `bytes` zeros that can neither shrink nor grow, so that no access to the mapping can
/// raise SIGBUS. 0 or errno.
[[nodiscard]] int create_memfd(const char* name, std::size_t bytes, Sharing sharing, Memfd& file);

}  // namespace urnic
