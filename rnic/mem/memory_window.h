// A memory window: an R_Key of its own for a part of a memory region, bound and taken back by work requests
// (IBA 10.6.6, 10.6.7).
//
// The control thread makes it and ends it. In between the worker of whatever QP executes a bind or an
// invalidation changes it, while other workers look at it. Who changes it takes it by a compare-and-swap that
// makes `version` odd; a reader copies what it needs and looks whether the version is still the same. Neither
// ever waits (docs/adr/0010).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "rnic/mem/address_space.h"

namespace urnic {

/// ibv_mw_type. Type 2 is 2B: bound to a QP and a PD.
enum class WindowType : std::uint8_t { kType1 = 1, kType2 = 2 };

struct MemoryWindow {
    MemoryWindow(WindowType window_type, std::uint32_t pd_number) : type(window_type), pd(pd_number) {}

    const WindowType type;
    const std::uint32_t pd;   // daemon-wide PD number
    std::uint32_t index = 0;  // the part of its keys that stays (KeyTable::kConsumerBits are left out)

    std::atomic<std::uint32_t> version{0};  // odd: somebody is changing what follows
    std::atomic<std::uint64_t> iova{0};     // what remote addresses begin at: 0 if zero-based
    std::atomic<std::uint64_t> length_bytes{0};
    std::atomic<std::uint64_t> va{0};           // as in MemoryRegion
    std::atomic<std::byte*> direct{nullptr};    // as in MemoryRegion
    std::atomic<AddressSpace*> space{nullptr};  // as in MemoryRegion
    std::atomic<std::uint32_t> access{0};       // remote rights
    std::atomic<std::uint32_t> qp_num{0};       // type 2: the one QP it serves
    std::atomic<std::uint32_t> region_key{0};   // of the region it is bound to; 0: not bound
};

/// A bind work request, and the QP that executes it.
struct WindowBind {
    std::uint32_t new_key = 0;  // names the window by its index, and is its R_Key from now on
    std::uint32_t region_key = 0;
    std::uint64_t addr = 0;  // of the region's address range
    std::uint64_t length_bytes = 0;
    std::uint32_t access = 0;  // AccessFlags
    std::uint32_t pd = 0;
    std::uint32_t qp_num = 0;
};

/// Whose request names a key.
struct KeyUser {
    std::uint32_t pd = 0;
    std::uint32_t qp_num = 0;
};

}  // namespace urnic
