// Memory windows in the key table.
#include "abi/verbs_values.h"
#include "base/check.h"
#include "rnic/mem/key_table_slot.h"

namespace urnic {

namespace {

constexpr std::uint32_t kWritingRemotely = kAccessRemoteWrite | kAccessRemoteAtomic;
constexpr std::uint32_t kRemoteRights = kWritingRemotely | kAccessRemoteRead;
/// What a bind may ask for. Local write says nothing about a window; programs pass it on all the same.
constexpr std::uint32_t kWindowAccess = kRemoteRights | kAccessLocalWrite | kAccessZeroBased;

/// The right to change a window, for a few instructions. Nobody waits for it: who finds it taken, or not in
/// the state that its request needs, fails. An application whose requests are in order never gets there.
class WindowChange {
  public:
    explicit WindowChange(MemoryWindow& window)
        : window_(window), version_(window.version.load(std::memory_order_relaxed)) {
        taken_ = (version_ & 1U) == 0 &&
                 window_.version.compare_exchange_strong(version_, version_ + 1, std::memory_order_acquire,
                                                         std::memory_order_relaxed);
    }
    ~WindowChange() {
        if (taken_) {
            window_.version.store(version_ + 2, std::memory_order_release);
        }
    }
    WindowChange(const WindowChange&) = delete;
    WindowChange& operator=(const WindowChange&) = delete;
    [[nodiscard]] bool taken() const { return taken_; }

  private:
    MemoryWindow& window_;
    std::uint32_t version_;
    bool taken_;
};

// Whether the window is in a state for it (IBA 10.6.6.2, 10.6.7.2.3).
bool may_bind(const MemoryWindow& window, const WindowBind& request) {
    if (window.index != request.new_key >> KeyTable::kConsumerBits || window.pd != request.pd ||
        (request.access & ~kWindowAccess) != 0) {
        return false;
    }
    if (window.type == WindowType::kType1) {
        return (request.access & kAccessZeroBased) == 0;
    }
    // A window that is bound has to be invalidated first, and a bind of nothing is no invalidation.
    return request.length_bytes != 0 && window.region_key.load(std::memory_order_relaxed) == 0;
}

}  // namespace

std::uint32_t KeyTable::add_window(MemoryWindow& window, std::uint32_t random) {
    const std::uint32_t key = reserve(random);
    if (key == 0) {
        return 0;
    }
    window.index = key >> kConsumerBits;
    slot_of(key).is_window.store(true, std::memory_order_relaxed);
    window_of(key).store(&window, std::memory_order_release);
    return key;
}

void KeyTable::remove_window(const MemoryWindow& window) {
    window_of(window.index << kConsumerBits).store(nullptr, std::memory_order_relaxed);
}

void KeyTable::unbind(MemoryWindow& window) {
    const WindowChange change(window);
    URNIC_CHECK(change.taken());
    publish(window, {.new_key = window.index << kConsumerBits}, nullptr);
}

void KeyTable::force_close(std::uint32_t key) {
    slot_of(key).windows.fetch_or(kRegionClosed, std::memory_order_relaxed);
}

void KeyTable::unbind_closed() {
    const auto is_bound_to_closed = [this](const MemoryWindow& window) {
        const std::uint32_t key = window.region_key.load(std::memory_order_relaxed);
        return key != 0 && (slot_of(key).windows.load(std::memory_order_relaxed) & kRegionClosed) != 0;
    };
    for (std::uint32_t i = 0; i < kSlots; ++i) {
        MemoryWindow* window = windows_.get()[i].load(std::memory_order_relaxed);
        // A worker that has it for a few instructions binds it to another region or to none.
        while (window != nullptr && is_bound_to_closed(*window)) {
            const WindowChange change(*window);
            if (change.taken() && is_bound_to_closed(*window)) {
                publish(*window, {.new_key = window->index << kConsumerBits}, nullptr);
            }
        }
    }
}

// The region that the window is to be bound to, counting the window; nullptr: it may not be.
KeyTable::Slot* KeyTable::take_region(const WindowBind& request) {
    const MemoryRegion* region = find(request.region_key);
    if (region == nullptr || region->pd != request.pd || (region->access & kAccessMwBind) == 0 ||
        ((request.access & kWritingRemotely) != 0 && (region->access & kAccessLocalWrite) == 0) ||
        !is_within(request.addr, request.length_bytes, region->iova, region->length_bytes)) {
        return nullptr;
    }
    Slot& slot = slot_of(request.region_key);
    if ((slot.windows.fetch_add(1, std::memory_order_relaxed) & kRegionClosed) != 0) {
        slot.windows.fetch_sub(1, std::memory_order_relaxed);
        return nullptr;
    }
    return &slot;
}

bool KeyTable::bind(const WindowBind& request) {
    MemoryWindow* window = window_of(request.new_key).load(std::memory_order_acquire);
    if (window == nullptr || !may_bind(*window, request)) {
        return false;
    }
    const WindowChange change(*window);
    if (!change.taken() || !may_bind(*window, request)) {
        return false;
    }
    if (request.length_bytes == 0) {  // type 1: back to being bound to nothing
        publish(*window, request, nullptr);
        return true;
    }
    const Slot* slot = take_region(request);
    if (slot == nullptr) {
        return false;
    }
    publish(*window, request, &slot->region);
    return true;
}

bool KeyTable::invalidate(std::uint32_t key, const KeyUser& user) {
    MemoryWindow* window = window_of(key).load(std::memory_order_acquire);
    const auto is_it = [&] {
        return window->type == WindowType::kType2 && window->pd == user.pd &&
               window->qp_num.load(std::memory_order_relaxed) == user.qp_num &&
               slot_of(key).key.load(std::memory_order_relaxed) == key;
    };
    if (window == nullptr || key == 0 || !is_it()) {
        return false;
    }
    const WindowChange change(*window);
    if (!change.taken() || !is_it()) {
        return false;
    }
    publish(*window, {.new_key = key}, nullptr);
    return true;
}

// Gives the window, whose change the caller has taken, another state. Without a region it is bound to
// nothing and has no key.
void KeyTable::publish(MemoryWindow& window, const WindowBind& request, const MemoryRegion* region) {
    // Release: a reader that sees one of the changes sees the odd version, too.
    constexpr auto kRelease = std::memory_order_release;
    const std::uint32_t old_region = window.region_key.load(std::memory_order_relaxed);
    const std::uint64_t offset = region == nullptr ? 0 : request.addr - region->iova;
    const bool is_zero_based = (request.access & kAccessZeroBased) != 0;
    window.iova.store(is_zero_based ? 0 : request.addr, kRelease);
    window.length_bytes.store(request.length_bytes, kRelease);
    window.va.store(region == nullptr ? 0 : region->va + offset, kRelease);
    window.direct.store(region == nullptr || region->direct == nullptr ? nullptr : region->direct + offset,
                        kRelease);
    window.space.store(region == nullptr ? nullptr : region->space, kRelease);
    window.access.store(request.access & kRemoteRights, kRelease);
    window.qp_num.store(request.qp_num, kRelease);
    window.region_key.store(region == nullptr ? 0 : request.region_key, kRelease);
    slot_of(request.new_key).key.store(region == nullptr ? 0 : request.new_key, kRelease);
    if (old_region != 0) {
        // Release: the region may go once it is counted out.
        slot_of(old_region).windows.fetch_sub(1, kRelease);
    }
}

// A copy that is not of one piece means that the window is being changed just now. Then the key that came
// is no good: a window is bound again only after its old key ended, and nobody is told of a new key before
// its bind has completed.
KeyTable::Verdict KeyTable::resolve_window(const Slot& slot, std::uint32_t key, const KeyUser& user,
                                           std::uint32_t access, std::uint64_t addr,
                                           std::uint32_t length_bytes, MemoryPiece& piece) const {
    constexpr auto kAcquire = std::memory_order_acquire;
    const MemoryWindow* window = window_of(key).load(kAcquire);
    if (key == 0 || window == nullptr) {
        return Verdict::kBadKey;
    }
    const std::uint32_t version = window->version.load(kAcquire);
    const bool is_published = slot.key.load(kAcquire) == key;
    const std::uint64_t iova = window->iova.load(kAcquire);
    const std::uint64_t total_bytes = window->length_bytes.load(kAcquire);
    const std::uint64_t va = window->va.load(kAcquire);
    std::byte* const direct = window->direct.load(kAcquire);
    AddressSpace* const space = window->space.load(kAcquire);
    const std::uint32_t rights = window->access.load(kAcquire);
    const std::uint32_t qp_num = window->qp_num.load(kAcquire);
    if (!is_published || (version & 1U) != 0 || window->version.load(std::memory_order_relaxed) != version) {
        return Verdict::kBadKey;
    }
    // A type 2B window serves the QP that it was bound on (IBA 10.6.7.2.4).
    if (window->pd != user.pd || (window->type == WindowType::kType2 && qp_num != user.qp_num)) {
        return Verdict::kBadPd;
    }
    if ((rights & access) != access) {
        return Verdict::kBadAccess;
    }
    if (!is_within(addr, length_bytes, iova, total_bytes)) {
        return Verdict::kBadRange;
    }
    const std::uint64_t offset = addr - iova;
    piece.direct = direct == nullptr ? nullptr : direct + offset;
    piece.space = space;
    piece.va = va + offset;
    piece.length_bytes = length_bytes;
    piece.key = 0;
    return Verdict::kOk;
}

}  // namespace urnic
