#include "tests/sim/captures/capture_host.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace urnic::sim {

CaptureHost::CaptureHost(SimNetwork& network, const Conversation& conversation, int self)
    : SimHost(network, "ours", conversation.qp_num(self), {.path = conversation.path(self)}),
      conversation_(conversation),
      self_(self) {
    network.lose = [](const SentPacket& /*packet*/) { return true; };  // the peer is the capture's
    to_init();
    const wire::PathSpec addresses = conversation.path(self);
    abi::QpAttr attr{};
    attr.mask = kQpAttrState | kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn |
                kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer;
    attr.state = QpState::kRtr;
    std::memcpy(attr.av.dgid, addresses.dst_gid.data(), addresses.dst_gid.size());
    attr.av.is_global = 1;
    attr.av.port_num = 1;
    for (attr.path_mtu = 1; mtu_bytes(attr.path_mtu) < conversation.mtu_bytes();) {
        ++attr.path_mtu;
    }
    attr.dest_qp_num = conversation.qp_num(1 - self);
    attr.rq_psn = conversation.first_psn(1 - self);
    attr.max_dest_rd_atomic = 16;
    attr.min_rnr_timer = 12;  // what perftest and ibv_rc_pingpong ask for
    URNIC_CHECK(modify(attr) == 0);
    to_rts({.timeout = 14, .retry_cnt = 7, .rnr_retry = 7}, conversation.first_psn(self));
}

void CaptureHost::register_named_memory() {
    for (const CapturedOperation& operation : conversation_.operations_of(1 - self_)) {
        const bool is_atomic =
            operation.opcode == WrOpcode::kCompareSwap || operation.opcode == WrOpcode::kFetchAdd;
        const std::uint32_t key = is_atomic ? operation.atomic.rkey : operation.reth.rkey;
        const std::uint64_t va = is_atomic ? operation.atomic.va : operation.reth.va;
        if (operation.opcode == WrOpcode::kSend) {
            continue;
        }
        auto at =
            std::find_if(named_.begin(), named_.end(), [&](const Named& named) { return named.key == key; });
        if (at == named_.end()) {
            at = named_.insert(named_.end(), Named{.key = key});
        }
        at->first = std::min(at->first, va);
        at->end = std::max(at->end, va + operation.length_bytes);
    }
    for (Named& named : named_) {
        named.bytes.assign(named.end - named.first, std::byte{0xee});
        MemoryRegion region;
        region.iova = named.first;
        region.length_bytes = named.bytes.size();
        region.va = named.first;
        region.direct = named.bytes.data();
        region.pd = 1;
        region.access = kAllAccess;
        URNIC_CHECK(keys().add(region, named.key) == named.key);
    }
}

std::span<std::byte> CaptureHost::named_memory(std::uint64_t va, std::uint32_t rkey,
                                               std::size_t length_bytes) {
    const auto at =
        std::find_if(named_.begin(), named_.end(), [&](const Named& named) { return named.key == rkey; });
    URNIC_CHECK(at != named_.end() && va >= at->first && va + length_bytes <= at->end);
    return std::span(at->bytes).subspan(va - at->first, length_bytes);
}

Psn CaptureHost::expected_psn() const {
    abi::QpAttr attr;
    qp().query(attr);
    return Psn(attr.rq_psn);
}

Frames frames_of(const SimNetwork& network, bool requests) {
    Frames frames;
    for (const SentPacket& packet : network.packets()) {
        if (packet.is_request() == requests) {
            frames.push_back(packet.frame);
        }
    }
    return frames;
}

}  // namespace urnic::sim
