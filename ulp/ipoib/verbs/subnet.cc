#include "ulp/ipoib/verbs/subnet.h"

#include <poll.h>

#include <array>
#include <cstdio>
#include <string>

#include "ulp/ipoib/codec/frame.h"
#include "ulp/ipoib/tap/clock.h"
#include "ulp/ipoib/tap/setup_error.h"
#include "ulp/ipoib/verbs/gid_text.h"

namespace urnic::ipoib {

namespace {

/// So long the broadcast group may take at the beginning.
constexpr std::uint64_t kPatienceMs = 10'000;
constexpr int kTurnMs = 100;
constexpr std::uint64_t kFarewellMs = 1000;

void wait_for(int fd, int milliseconds) {
    pollfd answer{fd, POLLIN, 0};
    ::poll(&answer, 1, milliseconds);
}

}  // namespace

Subnet::Subnet(const RdmaPort& port, const LinkScope& scope)
    : port_(port),
      broadcast_gid_(urnic::ipoib::broadcast_gid(scope)),
      umad_(port),
      client_({.port_gid = port.gid(), .pkey = scope.pkey}, broadcast_gid_, umad_),
      addressing_(port, client_) {
    join_broadcast();
}

void Subnet::join_broadcast() {
    const std::uint64_t begin = now_ms();
    while (now_ms() - begin < kPatienceMs) {
        client_.advance(now_ms());
        switch (client_.join(broadcast_gid_, JoinState::kFullMember)) {
            case Progress::kDone:
                broadcast_ = *client_.group(broadcast_gid_);
                return;
            case Progress::kPending:
                wait_for(umad_.fd(), kTurnMs);
                umad_.take(client_);
                break;
            case Progress::kFailed:
                if (client_.last_failure() != SubnetClient::kNoAnswer) {
                    std::array<char, 16> status{};
                    std::snprintf(status.data(), status.size(), "0x%04x", client_.last_failure());
                    throw SetupError(
                        "the subnet administrator of " + port_.text() + " refuses the broadcast group " +
                        text_of(broadcast_gid_) + " (status " + status.data() +
                        "): the subnet manager makes it, opensm where partitions.conf has `ipoib` for "
                        "the P_Key");
                }
                wait_for(-1, kTurnMs);
                break;
        }
    }
    throw SetupError("the subnet administrator of " + port_.text() +
                     " does not answer: does a subnet manager run? `sminfo` asks it");
}

std::uint32_t Subnet::mtu() const {
    return (128U << broadcast_.mtu) - static_cast<std::uint32_t>(kEncapsulationOctets);
}

std::vector<Gid> Subnet::take(bool has_answers) {
    client_.advance(now_ms());
    if (has_answers) {
        umad_.take(client_);
    }
    return client_.take_settled();
}

void Subnet::check_broadcast() const {
    const GroupRecord* const joined = client_.group(broadcast_gid_);
    if (joined != nullptr && (joined->qkey != broadcast_.qkey || joined->mtu != broadcast_.mtu)) {
        throw SetupError("the broadcast group " + text_of(broadcast_gid_) + " of " + port_.text() +
                         " has another Q_Key or MTU than before: start again");
    }
}

Subnet::~Subnet() {
    client_.leave_all();
    const std::uint64_t begin = now_ms();
    try {
        while (client_.has_requests() && now_ms() - begin < kFarewellMs) {
            wait_for(umad_.fd(), static_cast<int>(kFarewellMs));
            umad_.take(client_);
        }
    } catch (const SetupError&) {
        // The device was removed, and its memberships with it.
    }
}

bool is_subnet_change(const ibv_async_event& event, const RdmaPort& port) {
    switch (event.event_type) {
        case IBV_EVENT_PORT_ACTIVE:
        case IBV_EVENT_LID_CHANGE:
        case IBV_EVENT_PKEY_CHANGE:
        case IBV_EVENT_GID_CHANGE:
        case IBV_EVENT_SM_CHANGE:
        case IBV_EVENT_CLIENT_REREGISTER:
            return event.element.port_num == port.number();
        default:
            return false;
    }
}

}  // namespace urnic::ipoib
