// Subscriptions to the administrator of administrator_fixture.h, and what it reports, for tests.
#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/unit/rnic/subnet/administrator_fixture.h"

namespace urnic::subnet::test {

inline constexpr std::uint16_t kInService = 64;
inline constexpr std::uint16_t kOutOfService = 65;
inline constexpr std::uint16_t kCreated = 66;
inline constexpr std::uint16_t kDeleted = 67;
/// RespTimeValue 16, and 2 * 2^18 for the way (SaSubscriptions).
inline constexpr TimeNs kReportNs = (TimeNs{4096} << 16U) + (TimeNs{4096} << 19U);

class SubscriptionTest : public AdministratorTest {
  protected:
    /// Whom a report goes to (LID), and the trap.
    using Told = std::vector<std::pair<std::uint16_t, std::uint16_t>>;

    static mad::InformInfo to_all(std::uint16_t trap_number = 0xffff) {
        mad::InformInfo info;
        info.lid_range_begin = 0xffff;
        info.is_generic = 1;
        info.subscribe = 1;
        info.type = 0xffff;
        info.trap_number = trap_number;
        info.resp_time_value = 16;
        info.producer_type = 0xffffff;
        return info;
    }
    MadPacket inform_request(const mad::InformInfo& info, std::uint16_t slid = kAsker) {
        return request(wire::kMadSet, mad::kInformInfo, 0, mad::kInformInfoTable, info, slid);
    }
    std::uint16_t set(const mad::InformInfo& info, std::uint16_t slid = kAsker) {
        return status_of(inform_request(info, slid));
    }
    std::uint16_t unsubscribe(mad::InformInfo info, std::uint32_t qpn = 1) {
        info.subscribe = 0;
        info.qpn = qpn;
        return set(info);
    }
    /// What has been reported since the last call.
    Told told() {
        Told reports;
        for (MadPacket packet : std::exchange(sent_, {})) {
            if (MadRef mad(packet.mad); mad.method() == wire::kMadReport) {
                reports.emplace_back(
                    packet.dlid, mad.read<mad::Notice>(mad::kNoticeTable, mad::kSaDataOffset).trap_number);
                last_report_ = packet;
            }
        }
        return reports;
    }
    void down(std::size_t port) {
        (void)set_connected(nodes_[port - 1], 1, false);
        administrator_->on_port_down(nodes_[port - 1], now_);
    }
    void up(std::size_t port) {
        (void)set_connected(nodes_[port - 1], 1, true);
        nodes_[port - 1].ports[1].info.port_state = mad::kActive;
        administrator_->on_port_up(nodes_[port - 1], now_);
    }
    Told on_down(std::size_t port) {
        sent_.clear();
        down(port);
        return told();
    }
    /// As the subscriber answers the last one.
    bool answer_report(std::uint16_t slid = kAsker) {
        MadPacket answer = last_report_;
        answer.slid = slid;
        answer.dlid = 1;
        MadRef(answer.mad).set_method(wire::kMadReportResponse);
        return administrator_->handle(answer, now_);
    }
    void change_group(std::uint8_t method, std::uint16_t number) {
        const std::uint64_t mask =
            method == wire::kMadSet ? kCreate : mc::kMgid | mc::kPortGid | mc::kJoinState;
        EXPECT_TRUE(administrator_->handle(member_request(method, mask, member(group_gid(number))), now_));
    }
    [[nodiscard]] const SaSubscriptions& subscriptions() const { return administrator_->subscriptions(); }

    MadPacket last_report_;
};

}  // namespace urnic::subnet::test
