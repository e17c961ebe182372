#include "tests/sim/rpcrdma/walk.h"

#include <algorithm>
#include <string>
#include <utility>

namespace urnic::rpcrdma::sim {

WalkEnd::WalkEnd(const Config& config, std::uint32_t first_handle, bool has_windows)
    : config_(config),
      connection_(config, *this),
      next_handle_(first_handle),
      receive_octets_(config.receive_octets),
      has_windows_(has_windows) {}

void WalkEnd::set_program(Completed completed, Executed executed, Replied replied) {
    completed_ = std::move(completed);
    executed_ = std::move(executed);
    replied_ = std::move(replied);
}

bool WalkEnd::step(std::uint32_t pick) {
    if (is_down_) {
        return false;
    }
    for (std::uint32_t i = 0; i < 4; ++i) {
        switch ((pick + i) % 4) {
            case 0:
                if (!queue_.empty()) {
                    WorkRequest work = std::move(queue_.front());
                    queue_.pop_front();
                    carry_out(work);
                    return true;
                }
                break;
            case 1:
                if (!arrivals_.empty()) {
                    const Arrival arrival = std::move(arrivals_.front());
                    arrivals_.pop_front();
                    connection_.on_receive(arrival.message, arrival.invalidated);
                    return true;
                }
                break;
            case 2:
                if (!withdrawing_.empty()) {
                    const std::uint32_t call = withdrawing_.front();
                    withdrawing_.pop_front();
                    connection_.on_withdrawn(call);
                    return true;
                }
                break;
            default:
                if (resizing_to_ != 0 && arrivals_.empty()) {
                    receive_octets_ = std::exchange(resizing_to_, 0);
                    connection_.on_receives_resized(receive_octets_);
                    return true;
                }
                break;
        }
    }
    return false;
}

void WalkEnd::carry_out(WorkRequest& work) {
    switch (work.kind) {
        case WorkRequest::Kind::kSend:
            peer_->arrive(work);
            if (work.token != 0) {
                connection_.on_sent(work.token);
            }
            break;
        case WorkRequest::Kind::kWrite: {
            const std::span<std::byte> memory = peer_->reach(work.remote, Access::kWrite);
            has_failed_ = has_failed_ || memory.size() != work.from.size();
            if (!has_failed_) {
                std::copy(work.from.begin(), work.from.end(), memory.begin());
            }
            break;
        }
        case WorkRequest::Kind::kRead: {
            const std::span<std::byte> memory = peer_->reach(work.remote, Access::kRead);
            has_failed_ = has_failed_ || memory.size() != work.into.size();
            if (!has_failed_) {
                std::copy(memory.begin(), memory.end(), work.into.begin());
            }
            connection_.on_read(work.call, !has_failed_);
            break;
        }
    }
}

void WalkEnd::arrive(const WorkRequest& work) {
    if (is_down_) {
        return;
    }
    const std::size_t receives =
        std::size_t{config_.granted_credits} + config_.wanted_credits + kReserveReceives;
    if (arrivals_.size() >= receives) {
        faults.emplace_back("a message finds no receive");
    }
    if (work.message.size() > receive_octets_) {
        faults.push_back("a message of " + std::to_string(work.message.size()) + " octets for a receive of " +
                         std::to_string(receive_octets_));
    }
    if (work.invalidate != 0 && exposed_.erase(work.invalidate) == 0) {
        // NAK 0x62 (IBA 9.9.6.3): only the late Reply of a Call that has timed out may do that.
        has_failed_ = true;
        return;
    }
    if (work.invalidate != 0) {
        invalidated_.insert(work.invalidate);
    }
    arrivals_.push_back({work.message, work.invalidate});
}

std::span<std::byte> WalkEnd::reach(const Segment& segment, Access access) {
    const auto found = exposed_.find(segment.handle);
    if (found == exposed_.end() || found->second.access != access) {
        return {};
    }
    const auto address = reinterpret_cast<std::uint64_t>(found->second.memory.data());
    if (segment.offset < address || segment.offset - address + segment.length > found->second.memory.size()) {
        faults.emplace_back("RDMA beyond the exposed memory");
        return {};
    }
    return found->second.memory.subspan(segment.offset - address, segment.length);
}

void WalkEnd::disconnect() {
    is_down_ = true;
    queue_.clear();
    arrivals_.clear();
    withdrawing_.clear();
    exposed_.clear();
    connection_.on_disconnected();
}

bool WalkEnd::is_exposed(std::span<const std::byte> memory) const {
    return std::any_of(exposed_.begin(), exposed_.end(), [&](const auto& entry) {
        const std::span<std::byte> other = entry.second.memory;
        return memory.data() < other.data() + other.size() && other.data() < memory.data() + memory.size();
    });
}

Buffer WalkEnd::allocate(std::size_t octets) {
    const std::uint64_t cookie = next_cookie_++;
    Octets& memory = buffers_[cookie];
    memory.resize(std::max<std::size_t>(octets, 1), std::byte{0xEE});
    return {memory, cookie};
}

void WalkEnd::free(const Buffer& buffer) {
    if (is_exposed(buffer.octets)) {
        faults.emplace_back("a buffer is freed while a handle reaches it");
    }
    if (buffers_.erase(buffer.cookie) != 1) {
        faults.emplace_back("a buffer is freed twice");
    }
}

bool WalkEnd::expose(std::span<const std::byte> memory, Access access, Exposure& out) {
    auto* data = const_cast<std::byte*>(memory.data());
    out.segment = {next_handle_++, static_cast<std::uint32_t>(memory.size()),
                   reinterpret_cast<std::uint64_t>(data)};
    out.can_remote_invalidate = has_windows_;
    exposed_[out.segment.handle] = {{data, memory.size()}, access};
    return true;
}

bool WalkEnd::withdraw(std::uint32_t call, std::span<const Exposure> exposures, std::uint32_t invalidated) {
    for (const Exposure& exposure : exposures) {
        const bool was_there = exposed_.erase(exposure.segment.handle) == 1;
        if (!was_there && exposure.segment.handle != invalidated &&
            invalidated_.contains(exposure.segment.handle)) {
            // Its deadline passed while the Reply that invalidated it was on its way up: LOCAL_INV fails
            // (IBA 10.6.5.1).
            has_failed_ = true;
            continue;
        }
        if (!is_down_ && was_there == (exposure.segment.handle == invalidated)) {
            faults.emplace_back(was_there ? "the peer is said to have invalidated what it has not"
                                          : "a handle is withdrawn twice");
        }
    }
    if (is_down_ || call % 2 == 0) {
        return true;
    }
    withdrawing_.push_back(call);
    return false;
}

void WalkEnd::send(const OutgoingMessage& message) {
    WorkRequest work{.kind = WorkRequest::Kind::kSend};
    work.message.assign(message.header.begin(), message.header.end());
    for (const std::span<const std::byte> piece : message.payload) {
        work.message.insert(work.message.end(), piece.begin(), piece.end());
    }
    work.invalidate = message.invalidate;
    work.token = message.token;
    queue_.push_back(std::move(work));
}

void WalkEnd::read(std::uint32_t call, const Segment& from, std::span<std::byte> into) {
    queue_.push_back({.kind = WorkRequest::Kind::kRead, .remote = from, .into = into, .call = call});
}

void WalkEnd::write(std::span<const std::byte> from, const Segment& to) {
    queue_.push_back({.kind = WorkRequest::Kind::kWrite, .from = from, .remote = to});
}

void WalkEnd::resize_receives(std::uint32_t octets) {
    resizing_to_ = octets;
    // Larger ones are there before the peer is told; smaller ones when it is.
    receive_octets_ = std::max(receive_octets_, octets);
}

void WalkEnd::close(CloseReason reason) {
    has_closed_ = true;
    reason_ = reason;
}

}  // namespace urnic::rpcrdma::sim
