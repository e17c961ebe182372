#include "tests/sim/sim_device.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "rnic/wire/opcodes.h"

namespace urnic::sim {

SimDevice::SimDevice(Network& network, const Options& options, std::uint64_t seed)
    : network_(network),
      options_(options),
      random_(seed),
      reorder_buffers_(held_frames_, options.held_tables),
      next_qp_num_(options.number * 0x10'0000U + 0x11),
      next_iova_(std::uint64_t{options.number} << 40U) {
    held_frames_.limit = options.held_frames;
    const auto number = static_cast<std::uint8_t>(options.number);
    mac_ = {2, 0, 0, 0, 0, number};
    gid_ = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, number};
    if (options.is_ipv6) {
        gid_ = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number};
    }
}

SimQp& SimDevice::create_qp(SimHost::Options options) {
    options.address = static_cast<std::uint8_t>(options_.number);
    options.keys = &keys;
    options.counters = &counters;
    options.reorder_buffers = options_.held_frames != 0 ? &reorder_buffers_ : nullptr;
    options.listener = listener;
    SimQp& made = *qps_.emplace_back(std::make_unique<SimQp>(*this, options_.name, next_qp_num_++, options));
    made.packets_per_progress = options_.packets_per_progress;
    return made;
}

void SimDevice::destroy_qp(const SimQp& qp) {
    std::erase_if(qps_, [&qp](const auto& each) { return each.get() == &qp; });
}

Region SimDevice::register_memory(std::byte* data, std::size_t size_bytes, std::uint32_t access,
                                  bool is_mapped) {
    Region region;
    region.data_ = data;
    region.size_ = size_bytes;
    region.iova_ = next_iova_;
    constexpr std::uint64_t kGap = 1U << 20U;
    next_iova_ += abi::round_up(size_bytes, kGap) + kGap;
    MemoryRegion entry;
    entry.iova = region.iova_;
    entry.length_bytes = size_bytes;
    entry.va = reinterpret_cast<std::uintptr_t>(data);
    entry.direct = is_mapped ? data : nullptr;
    entry.space = is_mapped ? nullptr : &space_;
    entry.pd = 1;
    entry.access = access;
    region.key_ = keys.add(entry, static_cast<std::uint32_t>(random_.next()));
    URNIC_CHECK(region.key_ != 0);
    return region;
}

void SimDevice::revoke(const Region& region) {
    URNIC_CHECK(keys.remove(region.key_));
    keys.release(region.key_);
}

std::uint32_t SimDevice::add_window(MemoryWindow& window) {
    const std::uint32_t key = keys.add_window(window, static_cast<std::uint32_t>(random_.next()));
    URNIC_CHECK(key != 0);
    return key;
}

int SimDevice::modify(SimQp& qp, abi::QpAttr attr, const SimDevice* peer) {
    wire::PathSpec spec;
    if (peer != nullptr) {
        attr.av.is_global = 1;
        attr.av.port_num = 1;
        std::memcpy(attr.av.dgid, peer->gid_.data(), peer->gid_.size());
        spec.src_mac = mac_;
        spec.dst_mac = peer->mac_;
        spec.src_gid = gid_;
        spec.dst_gid = peer->gid_;
        spec.vlan_tci = options_.vlan_tci;
        spec.udp_src_port = static_cast<std::uint16_t>(0xc000U | (qp.qp().qp_num() & 0x3fffU));
    }
    const int error = qp.modify(attr, spec);
    if (error == 0 && (attr.mask & kQpAttrState) != 0 && attr.state == QpState::kReset) {
        last_asked_.forget(qp.qp().qp_num());
    }
    ring(qp);
    return error;
}

void SimDevice::ring(SimQp& qp) {
    qp.dirty = true;
    schedule_round(network_.now() + random_.below(options_.poll_ns));
}

bool SimDevice::idle() const {
    return rx_ring_.empty() && std::all_of(qps_.begin(), qps_.end(), [](const auto& each) {
               return !each->dirty && each->qp().deadline() == kNever;
           });
}

void SimDevice::receive(TimeNs now, DirectionId /*from*/, Frame& frame) {
    if (rx_ring_.size() >= options_.rx_ring_frames) {
        ++rx_ring_full_;
        network_.release(frame);
        return;
    }
    ++frames_received_;
    rx_ring_.push_back(&frame);
    schedule_round(now + random_.below(options_.poll_ns));
}

// One round is enough for all causes; the earliest of them counts.
void SimDevice::schedule_round(TimeNs time) {
    if (time < round_at_) {
        round_at_ = time;
        network_.wake_at(time, *this, kRound);
    }
}

void SimDevice::schedule_timer(TimeNs time) {
    if (time < timer_at_) {
        timer_at_ = time;
        network_.wake_at(time, *this, kTimer);
    }
}

void SimDevice::wake(TimeNs now, std::uint64_t token) {
    if (token == kRound) {
        if (now == round_at_) {
            round_at_ = kNever;
            round(now);
        }
    } else if (now == timer_at_) {
        timer_at_ = kNever;
        round(now);
    }
}

void SimDevice::round(TimeNs now) {
    for (std::uint32_t taken = 0; taken < options_.burst_frames && !rx_ring_.empty(); ++taken) {
        Frame& frame = *rx_ring_.front();
        rx_ring_.pop_front();
        take_frame(frame);
        network_.release(frame);
    }
    bool again = !rx_ring_.empty();
    TimeNs deadline = kNever;
    for (std::size_t i = 0; i < qps_.size(); ++i) {
        SimQp& each = *qps_[i];
        if (each.qp().deadline() <= now) {
            each.qp().handle_timeout(now, each);
            each.dirty = true;
        }
        if (each.dirty) {
            each.dirty = each.progress_once();
            if (watcher != nullptr) {
                watcher->progressed(now, options_.name, each.qp());
            }
            again |= each.dirty;
        }
        deadline = std::min(deadline, each.qp().deadline());
    }
    if (deadline != kNever) {
        schedule_timer(std::max(deadline, now + 1));
    }
    if (again) {
        const TimeNs soon = now + 1 + random_.below(options_.poll_ns);
        schedule_round(network_.room(out_) == 0 ? std::max(soon, network_.half_empty_at(out_)) : soon);
    }
}

void SimDevice::take_frame(const Frame& frame) {
    wire::PacketView view;
    if (wire::parse_frame(frame.span(), view) != wire::ParseError::kNone || !wire::icrc_ok(view)) {
        ++refused_;
        return;
    }
    SimQp* qp = wire::same_mac(view.dst_mac, mac_) && wire::same_gid(view.dst_gid, gid_)
                    ? find(view.header.dest_qp)
                    : nullptr;
    if (qp == nullptr) {
        ++foreign_;
        return;
    }
    if (options_.keeps_last_asked && !is_answered(qp->qp(), view.header)) {
        ++asked_too_late_;
        return;
    }
    const auto num_held = [this] { return static_cast<std::uint32_t>(held_frames_.size()); };
    if (watcher != nullptr) {
        watcher->begin_receive(qp->qp(), num_held());
    }
    qp->deliver(view);
    if (watcher != nullptr) {
        watcher->end_receive(now(), options_.name, {qp->qp(), view.header, view.payload.size()}, num_held());
    }
    qp->dirty = true;
}

bool SimDevice::is_answered(const Qp& qp, const wire::PacketHeader& header) {
    abi::QpAttr attr;
    qp.query(attr);
    const bool is_read = (wire::opcode_info(header.opcode).flags & wire::kIsRead) != 0;
    return !is_read || attr.path_mtu == 0 || last_asked_.takes(header, 128U << attr.path_mtu);
}

SimQp* SimDevice::find(std::uint32_t qp_num) {
    for (const auto& each : qps_) {
        if (each->qp().qp_num() == qp_num) {
            return each.get();
        }
    }
    return nullptr;
}

void SimDevice::timer_expired(SimHost& host, const TimerExpiry& expiry) {
    if (watcher != nullptr) {
        watcher->timer_expired(now(), options_.name, host.qp(), expiry);
    }
}

bool SimDevice::transmit(SimHost& from, const wire::Path& path, const wire::PacketHeader& header,
                         std::span<const MemoryPiece> pieces) {
    Frame& frame = network_.take_frame();
    frame.length = static_cast<std::uint32_t>(wire::build_frame(path, header, pieces, frame.bytes));
    if (frame.length == 0) {
        network_.release(frame);
        return false;
    }
    if (watcher != nullptr) {
        std::size_t payload_bytes = 0;
        for (const MemoryPiece& piece : pieces) {
            payload_bytes += piece.length_bytes;
        }
        watcher->sent(now(), options_.name, {from.qp(), header, payload_bytes});
    }
    network_.send(out_, frame);
    return true;
}

}  // namespace urnic::sim
