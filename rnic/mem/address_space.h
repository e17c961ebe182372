// Application memory as the protocol engine sees it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace urnic {

/// Memory of one application process that is not mapped here, reached by copying through the kernel.
/// Addresses are the application's own. Functions return whether the range can be reached: it may be
/// unmapped, or the process may have ended.
class AddressSpace {
  public:
    virtual ~AddressSpace() = default;
    [[nodiscard]] virtual bool read(std::uint64_t va, std::byte* to, std::size_t length_bytes) = 0;
    [[nodiscard]] virtual bool write(std::uint64_t va, const std::byte* from, std::size_t length_bytes) = 0;
};

/// A checked, contiguous piece of application memory (or of a WQE's inline data): `direct` when it is mapped
/// in this process, else `space` and `va`, which mean nothing otherwise.
struct MemoryPiece {
    std::byte* direct = nullptr;
    AddressSpace* space = nullptr;
    std::uint64_t va = 0;
    std::uint32_t length_bytes = 0;
    /// The key of the region that `direct` lies in, by which it can be seen later whether it still does; 0:
    /// the piece is valid only until the next loop boundary, or the next change of the WQE.
    std::uint32_t key = 0;
};

}  // namespace urnic
