// A mapped range of a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

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

}  // namespace urnic
