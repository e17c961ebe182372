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

    /// Ranges of one client whose pages are still to be brought into our page tables; of more nobody looks.
    static constexpr std::uint32_t kMostPopulations = 64;

    /// Of all windows, those too that nobody uses any more, until they are unmapped.
    struct Counts {
        std::atomic<std::uint64_t> mapped_bytes{0};
        std::atomic<std::uint32_t> populations{0};  // that have not ended
    };
    /// A mapping of the memory file.
    struct Mapped {
        Mapping mapping;
        std::shared_ptr<Counts> counts;  // nullptr: not counted

        Mapped() = default;
        Mapped(const Mapped&) = delete;
        Mapped& operator=(const Mapped&) = delete;
        ~Mapped() {
            if (counts != nullptr) {
                counts->mapped_bytes.fetch_sub(mapping.size());
            }
        }
    };
    /// A mapped part of the memory file, shared by the regions that lie in it.
    struct Window : Disposable {
        std::uint64_t start = 0;  // file offset, which is the application's address
        std::shared_ptr<Mapped> mapped;
        std::uint32_t users = 0;
    };

    /// `disposer` unmaps windows that nobody uses any more; nullptr: that is done at once. On `populator`
    /// pages of a range are brought into our page tables, for which whoever punches the file has it wait;
    /// nullptr: while the range is acquired.
    explicit AppMemory(Disposer* disposer = nullptr, Disposer* populator = nullptr)
        : disposer_(disposer), populator_(populator) {}
    /// For ending it elsewhere; all windows have been released.
    [[nodiscard]] std::shared_ptr<const UniqueFd> take_file() { return std::move(file_); }

    /// Takes the client's memory file. EEXIST: there is one already; EINVAL: not a memfd of kMemoryFileBytes
    /// sealed against shrinking and growing. It stays the caller's then: closing it may take long.
    [[nodiscard]] int attach(UniqueFd&& file);

    /// A window that holds [addr, addr + length_bytes), for release() of the same range later. Those of its
    /// pages that are there come into our page tables soon, so that workers do not fault on them, unless the
    /// very range is held already: memory that is registered again and again is not walked over each time. 0
    /// or errno: EINVAL without a memory file or outside of it, ENOMEM when a bound is reached.
    [[nodiscard]] int acquire(std::uint64_t addr, std::uint64_t length_bytes, Window*& window);
    void release(Window* window, std::uint64_t addr, std::uint64_t length_bytes);
    /// Where the application's address lies here.
    [[nodiscard]] static std::byte* at(const Window& window, std::uint64_t addr) {
        return window.mapped->mapping.data() + (addr - window.start);
    }
    [[nodiscard]] std::size_t window_count() const { return windows_.size(); }

    /// Where read() and write() lead to.
    [[nodiscard]] ProcessMemory& process() { return process_; }

    /// Called by workers. False also when the process has ended, has become another program, or has not said
    /// where its memory is.
    [[nodiscard]] bool read(std::uint64_t va, std::byte* to, std::size_t length_bytes) override;
    [[nodiscard]] bool write(std::uint64_t va, const std::byte* from, std::size_t length_bytes) override;

  private:
    class Population;

    [[nodiscard]] std::unique_ptr<Population> populate(const Window& window, std::uint64_t addr,
                                                       std::uint64_t end) const;
    void give_up(Window& window);

    Disposer* disposer_;
    Disposer* populator_;
    ProcessMemory process_;
    std::shared_ptr<const UniqueFd> file_;
    std::vector<std::unique_ptr<Window>> windows_;
    std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
    using Range = std::pair<std::uint64_t, std::uint64_t>;  // address and length
    std::map<Range, std::uint32_t> held_;                   // how often each was acquired
};

}  // namespace urnic::daemon
