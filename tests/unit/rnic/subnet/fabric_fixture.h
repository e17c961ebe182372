// Two adapters and a switch of management, whose host notes what it is told.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "rnic/subnet/subnet.h"
#include "tests/unit/rnic/subnet/smp_builder.h"

namespace urnic::subnet::test {

namespace mad = wire::mad;

class Fabric : public testing::Test, protected SubnetHost {
  protected:
    Fabric() {
        NodeOptions options;
        options.guid = 1;
        options.description = "a";
        a_ = subnet_.add(options);
        options.guid = 2;
        options.description = "b";
        b_ = subnet_.add(options);
        options.type = mad::kSwitch;
        options.num_ports = 4;
        options.guid = 3;
        options.description = "switch";
        switch_ = subnet_.add(options);
        subnet_.connect(a_, 1, switch_, 1);
        subnet_.connect(b_, 1, switch_, 2);
    }
    void run() {
        while (subnet_.advance(now_, 1000)) {
        }
    }
    /// What comes back to `a` after it has sent this.
    std::vector<MadPacket> ask(const MadPacket& packet) {
        given_.clear();
        subnet_.send(a_, packet);
        run();
        return given_;
    }
    /// A Set of PortInfo with what `change` does to what is there.
    template <class Change>
    std::uint16_t set_port(std::initializer_list<std::uint8_t> path, std::uint8_t port, Change change) {
        const auto before = ask(packet_of(directed(wire::kMadGet, mad::kPortInfo, port, path)));
        auto info = take<mad::PortInfo>(before.at(0).mad, mad::kPortInfoTable);
        info.port_state = info.port_physical_state = 0;
        change(info);
        MadBytes bytes = directed(wire::kMadSet, mad::kPortInfo, port, path);
        put(bytes, mad::kPortInfoTable, info);
        auto answer = ask(packet_of(bytes));
        return MadRef(answer.at(0).mad).status();
    }
    /// As a subnet manager on `a` does: LIDs 1, 2 and 3, the table, and all ports active.
    void bring_up() {
        const auto lid = [](std::uint16_t value) {
            return [value](mad::PortInfo& info) { info.lid = value, info.master_sm_lid = 1; };
        };
        ASSERT_EQ(set_port({}, 1, lid(1)), 0);
        ASSERT_EQ(set_port({1, 2}, 1, lid(2)), 0);
        ASSERT_EQ(set_port({1}, 0, lid(3)), 0);
        MadBytes table = directed(wire::kMadSet, mad::kLinearForwarding, 0, {1});
        std::fill_n(&table[kSmpData], 64, std::byte{255});
        table[kSmpData + 1] = std::byte{1};
        table[kSmpData + 2] = std::byte{2};
        table[kSmpData + 3] = std::byte{0};
        ASSERT_EQ(ask(packet_of(table)).size(), 1U);
        for (const std::uint8_t state : {mad::kArmed, mad::kActive}) {
            const auto to = [state](mad::PortInfo& info) {
                info.lid = info.lid == 0 ? 9 : info.lid;
                info.port_state = state;
            };
            ASSERT_EQ(set_port({}, 1, to), 0);
            ASSERT_EQ(set_port({1, 2}, 1, to), 0);
            ASSERT_EQ(set_port({1}, 1, to), 0);
            ASSERT_EQ(set_port({1}, 2, to), 0);
        }
        given_.clear();
    }
    std::uint8_t state_of(NodeId node, std::uint8_t port) {
        return subnet_.node(node).ports.at(port).info.port_state;
    }

    void on_change(NodeId node, const Change& change) override { changes_.emplace_back(node, change); }
    void on_port_state(NodeId node, std::uint8_t port) override { states_.emplace_back(node, port); }
    bool deliver(NodeId node, const MadPacket& packet) override {
        if (node != a_) {
            return false;
        }
        given_.push_back(packet);
        return true;
    }
    void read_counters(NodeId node, std::uint8_t port, PortCounterValues& values) override {
        values.fill(node * 100 + port);
    }
    void refresh_port_info(NodeId node) override {
        refreshed_.push_back(node);
        mad::PortInfo& info = subnet_.node(node).base_port().info;
        info.q_key_violations =
            static_cast<std::uint16_t>(info.q_key_violations + std::exchange(bad_keys_, 0));
    }

    Subnet subnet_{*this};
    NodeId a_ = 0, b_ = 0, switch_ = 0;
    TimeNs now_ = 0;
    std::vector<MadPacket> given_;
    std::vector<std::pair<NodeId, Change>> changes_;
    std::vector<std::pair<NodeId, std::uint8_t>> states_;
    std::vector<NodeId> refreshed_;
    int bad_keys_ = 0;
};

}  // namespace urnic::subnet::test
