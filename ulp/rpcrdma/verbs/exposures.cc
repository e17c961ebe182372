#include "ulp/rpcrdma/verbs/exposures.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ulp/rpcrdma/verbs/device.h"
#include "ulp/rpcrdma/verbs/pool.h"
#include "ulp/rpcrdma/verbs/registration.h"
#include "ulp/rpcrdma/verbs/send_queue.h"

namespace urnic::rpcrdma {

Exposures::~Exposures() {
    for (Entry& entry : entries_) {
        if (entry.state != State::kFree) release(entry);
    }
    for (const IdleWindow& idle : idle_windows_) {
        (void)ibv_dealloc_mw(idle.window);
    }
}

void Exposures::attach(const Device& device, SendQueue& queue) {
    device_ = &device;
    queue_ = &queue;
}

Exposures::Entry* Exposures::find(std::uint64_t cookie) {
    const auto index = static_cast<std::uint32_t>(cookie);
    if (index >= entries_.size()) return nullptr;
    Entry& entry = entries_[index];
    return entry.state != State::kFree && entry.generation == cookie >> 32U ? &entry : nullptr;
}

bool Exposures::expose(std::span<const std::byte> memory, Access access, Exposure& out) {
    if (is_ended_) return false;
    if (free_entries_.empty()) {
        free_entries_.push_back(static_cast<std::uint32_t>(entries_.size()));
        entries_.emplace_back();
    }
    const std::uint32_t index = free_entries_.back();
    Entry& entry = entries_[index];
    entry.access = access;
    // What the peer writes to is the program's to be written to.
    entry.memory = {const_cast<std::byte*>(memory.data()), memory.size()};
    std::span<std::byte> reachable = entry.memory;
    bool is_in_pool = Pool::instance().contains(memory.data(), memory.size());
    if (!is_in_pool && device_->has_windows() && memory.size() <= kMostCopiedOctets) {
        const std::span<std::byte> copy = Pool::instance().allocate(memory.size());
        if (!copy.empty()) {
            // For writing, too: what the peer leaves out stays as it was.
            std::memcpy(copy.data(), memory.data(), memory.size());
            entry.copy = copy.data();
            reachable = copy.first(memory.size());
            is_in_pool = true;
        }
    }
    const bool has_window = device_->has_windows();
    bool done = (is_in_pool && has_window) || register_memory(entry, reachable, out.segment);
    if (done && has_window) done = bind(entry, reachable, out.segment);
    if (!done) {
        free_memory(entry);
        return false;
    }
    free_entries_.pop_back();
    entry.state = State::kExposed;
    out.cookie = static_cast<std::uint64_t>(entry.generation) << 32U | index;
    out.can_remote_invalidate = has_window && device_->has_invalidation();
    return true;
}

ibv_mw* Exposures::take_window() {
    if (idle_windows_.empty()) {
        ibv_mw* const window = ibv_alloc_mw(device_->pd(), IBV_MW_TYPE_2);
        if (window == nullptr) return nullptr;
        idle_windows_.push_back({window, window->rkey});
    }
    return idle_windows_.back().window;
}

bool Exposures::bind(Entry& entry, std::span<std::byte> memory, Segment& segment) {
    ibv_mr* const region =
        entry.own_region != nullptr ? entry.own_region : Pool::instance().region(memory.data(), *device_);
    ibv_mw* const window = region == nullptr ? nullptr : take_window();
    if (window == nullptr) return false;
    // The provider of rxe names the window by the key that it has here, and does not note what a WQE binds.
    window->rkey = idle_windows_.back().key;
    Wqe wqe;
    wqe.kind = WqeKind::kBind;
    wqe.opcode = IBV_WR_BIND_MW;
    wqe.sge = {reinterpret_cast<std::uint64_t>(memory.data()), static_cast<std::uint32_t>(memory.size()), 0};
    wqe.key = ibv_inc_rkey(idle_windows_.back().key);
    wqe.window = window;
    wqe.window_region = region;
    wqe.window_access = entry.access == Access::kRead ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
    if (!queue_->push(wqe)) return false;
    idle_windows_.pop_back();
    entry.window = window;
    entry.window_key = wqe.key;
    segment = {wqe.key, wqe.sge.length, wqe.sge.addr};
    return true;
}

bool Exposures::register_memory(Entry& entry, std::span<std::byte> memory, Segment& segment) {
    // With a window its R_Key is not told, and without remote access it would be good for nothing.
    const bool has_window = device_->has_windows();
    unsigned access = has_window                      ? IBV_ACCESS_MW_BIND
                      : entry.access == Access::kRead ? IBV_ACCESS_REMOTE_READ
                                                      : IBV_ACCESS_REMOTE_WRITE;
    if (entry.access == Access::kWrite) access |= IBV_ACCESS_LOCAL_WRITE;
    ibv_mr* const region = ibv_reg_mr(device_->pd(), memory.data(), memory.size(), static_cast<int>(access));
    if (region == nullptr) return false;
    entry.own_region = region;
    segment = {region->rkey, static_cast<std::uint32_t>(memory.size()),
               reinterpret_cast<std::uint64_t>(memory.data())};
    return true;
}

void Exposures::free_memory(Entry& entry) {
    Pool::instance().free(std::exchange(entry.copy, nullptr));
    ibv_mr* const region = std::exchange(entry.own_region, nullptr);
    if (region != nullptr) (void)ibv_dereg_mr(region);
}

void Exposures::release(Entry& entry) {
    if (entry.copy != nullptr && entry.access == Access::kWrite && !is_ended_) {
        std::memcpy(entry.memory.data(), entry.copy, entry.memory.size());
    }
    ibv_mw* const window = std::exchange(entry.window, nullptr);
    if (window != nullptr) idle_windows_.push_back({window, entry.window_key});
    free_memory(entry);
    entry.state = State::kFree;
    ++entry.generation;
    free_entries_.push_back(static_cast<std::uint32_t>(&entry - entries_.data()));
}

std::uint32_t Exposures::add_withdrawal(std::uint32_t call) {
    auto free_one = std::find_if(withdrawals_.begin(), withdrawals_.end(),
                                 [](const Withdrawal& withdrawal) { return !withdrawal.is_used; });
    if (free_one == withdrawals_.end()) free_one = withdrawals_.insert(withdrawals_.end(), Withdrawal{});
    *free_one = {call, true};
    return static_cast<std::uint32_t>(free_one - withdrawals_.begin());
}

bool Exposures::withdraw(std::uint32_t call, std::span<const Exposure> exposures, std::uint32_t invalidated) {
    Wqe last;
    last.kind = WqeKind::kInvalidate;
    last.opcode = IBV_WR_LOCAL_INV;
    bool has_last = false;
    for (const Exposure& exposure : exposures) {
        Entry* const entry = find(exposure.cookie);
        if (entry == nullptr) continue;
        const bool is_unbound =
            entry->window == nullptr || is_ended_ || (invalidated != 0 && entry->window_key == invalidated);
        if (is_unbound) {
            release(*entry);
            continue;
        }
        entry->state = State::kWithdrawing;
        // Full queues end the connection, and the windows with it.
        if (has_last) (void)queue_->push(last);
        last.key = entry->window_key;
        last.token = exposure.cookie;
        has_last = true;
    }
    if (!has_last) return true;
    // WQEs complete in order: the last one tells.
    last.is_signaled = true;
    last.withdrawal = add_withdrawal(call) + 1;
    (void)queue_->push(last);
    return false;
}

void Exposures::end() {
    is_ended_ = true;
    for (Entry& entry : entries_) {
        if (ibv_mw* const window = std::exchange(entry.window, nullptr)) (void)ibv_dealloc_mw(window);
    }
}

void Exposures::on_invalidated(std::uint64_t cookie) {
    Entry* const entry = find(cookie);
    if (entry != nullptr) release(*entry);
}

std::uint32_t Exposures::take_withdrawal(std::uint32_t withdrawal) {
    Withdrawal& ended = withdrawals_[withdrawal - 1];
    ended.is_used = false;
    return ended.call;
}

}  // namespace urnic::rpcrdma
