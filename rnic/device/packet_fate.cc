#include "rnic/device/packet_fate.h"

#include <utility>

namespace urnic {

namespace {

/// In the order of abi::kPacketDrops.
constexpr Counter Counters::*kDropCounters[] = {
    &Counters::drop_malformed,      &Counters::drop_not_roce,       &Counters::drop_not_for_us,
    &Counters::drop_unknown_qp,     &Counters::drop_wrong_sender,   &Counters::drop_qp_state,
    &Counters::drop_pkey,           &Counters::drop_qkey,           &Counters::drop_opcode,
    &Counters::drop_uc_message,     &Counters::drop_mad_full,       &Counters::drop_port_down,
    &Counters::drop_neighbour_msgs, &Counters::rx_icrc_encapsulated};
static_assert(std::size(kDropCounters) + abi::kMadDrops == std::size(abi::kPacketDrops));

// Without a loop, which takes as long as the packet's record.
template <std::size_t... Drop>
std::uint64_t sum_of_drops(const Counters& counters, std::index_sequence<Drop...> /*all*/) {
    return ((counters.*kDropCounters[Drop]).value() + ...);
}

}  // namespace

std::uint64_t FateWatch::sum_of(const Counters& counters) {
    return counters.duplicate_request.value() + counters.out_of_seq_request.value() +
           counters.send_rnr_err.value() + counters.resp_remote_access_errors.value() +
           counters.resp_local_length_error.value() + counters.resp_cqe_error.value() +
           sum_of_drops(counters, std::make_index_sequence<kDrops>());
}

void FateWatch::look(const Counters& counters, Seen& seen) {
    for (std::size_t i = 0; i < kDrops; ++i) {
        seen.drops[i] = (counters.*kDropCounters[i]).value();
    }
    seen.duplicate = counters.duplicate_request.value();
    seen.early = counters.out_of_seq_request.value();
    seen.no_receive = counters.send_rnr_err.value();
    seen.refused = counters.resp_remote_access_errors.value() + counters.resp_local_length_error.value() +
                   counters.resp_cqe_error.value();
}

void FateWatch::begin(const Counters& counters, std::uint32_t held) {
    held_before_ = held;
    const std::uint64_t sum = sum_of(counters);
    if (of_ == &counters && sum_ == sum) [[likely]] {
        return;
    }
    look(counters, before_);
    of_ = &counters;
    sum_ = sum;
}

Fate FateWatch::end(const Counters& counters, std::uint32_t held) const {
    // A response that comes early counts nowhere, but it is held, too.
    const bool is_held = held > held_before_;
    if (sum_of(counters) == sum_) [[likely]] {
        return {is_held ? abi::PacketFate::kEarlyKept : abi::PacketFate::kDelivered};
    }
    Seen after;
    look(counters, after);
    for (std::size_t i = 0; i < kDrops; ++i) {
        if (after.drops[i] != before_.drops[i]) {
            return {abi::PacketFate::kDropped, static_cast<std::uint8_t>(i)};
        }
    }
    if (after.duplicate != before_.duplicate) {
        return {abi::PacketFate::kDuplicate};
    }
    if (is_held) {
        return {abi::PacketFate::kEarlyKept};
    }
    if (after.early != before_.early) {
        return {abi::PacketFate::kEarlyDropped};
    }
    if (after.no_receive != before_.no_receive) {
        return {abi::PacketFate::kNoReceive};
    }
    return {after.refused != before_.refused ? abi::PacketFate::kRefused : abi::PacketFate::kDelivered};
}

}  // namespace urnic
