// The daemon's side of one client's registered memory: windows on its memory file, and copying through the
// kernel for what does not lie there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/verbs/process_memory.h"
#include "os/disposer.h"
#include "os/mapping.h"
#include "os/monotonic_clock.h"
#include "os/unique_fd.h"
#include "rnic/mem/address_space.h"

namespace urnic::daemon {

class AppMemory final : public AddressSpace {
  public:
    /// Windows begin and end at multiples of this, so that neighbouring regions share one mapping.
    static constexpr std::uint64_t kWindowBytes = 1ULL << 30U;
    /// Bounds of one client, so that none eats the daemon's mappings or address space.
    static constexpr std::size_t kMaxWindows = 512;
    static constexpr std::uint64_t kMaxMappedBytes = 4ULL << 40U;

    /// A mapped part of the memory file, shared by the regions that lie in it.
    struct Window : Disposable {
        std::uint64_t start = 0;  // file offset, which is the application's address
        Mapping mapping;
        std::uint32_t users = 0;
        std::shared_ptr<std::atomic<std::uint64_t>> mapped_bytes;  // of all windows, until they are unmapped

        ~Window() override {
            if (mapped_bytes != nullptr) {
                mapped_bytes->fetch_sub(mapping.size());
            }
        }
    };

    /// `disposer`: unmaps windows that nobody uses any more; nullptr: that is done at once. `clock`: bounds
    /// the time that acquire() takes to bring pages into our page tables.
    explicit AppMemory(Disposer* disposer = nullptr, TimeNs (*clock)() = clock_now)
        : disposer_(disposer), clock_(clock) {}
    /// For ending it elsewhere; all windows have been released.
    [[nodiscard]] UniqueFd take_file() { return std::move(file_); }

    /// Takes the client's memory file. EEXIST: there is one already; EINVAL: not a memfd of kMemoryFileBytes
    /// sealed against shrinking and growing. It stays the caller's then: closing it may take long.
    [[nodiscard]] int attach(UniqueFd&& file);

    /// A window that holds [addr, addr + length_bytes), for release() of the same range later. Brings those
    /// of its first pages that are there into our page tables, so that workers do not fault on them, unless
    /// the very range is held already: an application that registers memory again and again does not wait for
    /// a walk over it. 0 or errno: EINVAL without a memory file or outside of it, ENOMEM when a bound is
    /// reached.
    [[nodiscard]] int acquire(std::uint64_t addr, std::uint64_t length_bytes, Window*& window);
    void release(Window* window, std::uint64_t addr, std::uint64_t length_bytes);
    /// Where the application's address lies here.
    [[nodiscard]] static std::byte* at(const Window& window, std::uint64_t addr) {
        return window.mapping.data() + (addr - window.start);
    }
    [[nodiscard]] std::size_t window_count() const { return windows_.size(); }

    /// Where read() and write() lead to.
    [[nodiscard]] ProcessMemory& process() { return process_; }

    /// Called by workers. False also when the process has ended, has become another program, or has not told
    /// where its memory is.
    [[nodiscard]] bool read(std::uint64_t va, std::byte* to, std::size_t length_bytes) override;
    [[nodiscard]] bool write(std::uint64_t va, const std::byte* from, std::size_t length_bytes) override;

  private:
    void give_up(Window& window);

    Disposer* disposer_;
    TimeNs (*clock_)();
    ProcessMemory process_;
    UniqueFd file_;
    std::vector<std::unique_ptr<Window>> windows_;
    std::shared_ptr<std::atomic<std::uint64_t>> mapped_bytes_ =
        std::make_shared<std::atomic<std::uint64_t>>(0);
    using Range = std::pair<std::uint64_t, std::uint64_t>;  // address and length
    std::map<Range, std::uint32_t> held_;                   // how often each was acquired
};

}  // namespace urnic::daemon
