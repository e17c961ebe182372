// Memory shared with applications: sealed memfds and their mappings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "os/unique_fd.h"

namespace urnic {

/// A mapped range of a file that unmaps itself.
class Mapping {
  public:
    Mapping() = default;
    Mapping(Mapping&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Mapping& operator=(Mapping&& other) noexcept;
    ~Mapping() { reset(); }

    /// Maps [offset, offset + bytes) of `fd` shared and writable. 0 or errno.
    [[nodiscard]] int map(int fd, std::uint64_t offset, std::size_t bytes);
    void reset();
    [[nodiscard]] std::byte* data() const { return data_; }
    [[nodiscard]] std::size_t size() const { return bytes_; }

  private:
    std::byte* data_ = nullptr;
    std::size_t bytes_ = 0;
};

/// A memfd of fixed size, mapped here for writing.
struct SharedFile {
    UniqueFd fd;
    Mapping mapping;
};

enum class Sharing : std::uint8_t {
    kWritable,      // clients may map it for writing
    kReadOnlyThere  // from now on nobody maps it for writing again; our mapping stays writable
};

/// Makes a memfd of `bytes` zeros that can neither shrink nor grow, so that no access to the mapping can
/// raise SIGBUS. 0 or errno.
[[nodiscard]] int create_shared_file(const char* name, std::size_t bytes, Sharing sharing, SharedFile& file);

}  // namespace urnic
