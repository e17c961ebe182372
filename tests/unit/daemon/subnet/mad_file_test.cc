// One open umad device: registrations, requests and their responses, time-outs, long messages, what is no
// MAD.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <rdma/ib_user_mad.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "abi/umad.h"
#include "daemon/subnet/mad_file.h"
#include "rnic/wire/mad/subnet_attributes.h"

namespace urnic::daemon {
namespace {

using subnet::MadBytes;
using subnet::MadPacket;
using subnet::MadRef;

constexpr std::uint32_t kFirstTid = 0x100;
constexpr TimeNs kMs = 1'000'000;

MadBytes mad_of(std::uint8_t mgmt_class, std::uint8_t method, std::uint64_t transaction_id = 7) {
    MadBytes bytes{};
    bytes[0] = std::byte{1};
    bytes[1] = std::byte{mgmt_class};
    bytes[2] = std::byte{1};
    bytes[3] = std::byte{method};
    MadRef(bytes).set_transaction_id(transaction_id);
    return bytes;
}

std::vector<std::byte> datagram(const ib_user_mad_hdr& header, std::span<const std::byte> message) {
    std::vector<std::byte> bytes(sizeof header + message.size());
    std::memcpy(bytes.data(), &header, sizeof header);
    std::copy(message.begin(), message.end(), bytes.begin() + sizeof header);
    return bytes;
}

class MadFileTest : public testing::Test {
  protected:
    std::uint32_t add(const MadAgent& agent) {
        std::uint32_t id = 99;
        EXPECT_EQ(file_.add_agent(agent, id), 0);
        return id;
    }
    static MadAgent client(std::uint32_t qpn, std::uint8_t mgmt_class, std::uint8_t rmpp_version = 0) {
        MadAgent agent;
        agent.qpn = qpn;
        agent.mgmt_class = mgmt_class;
        agent.class_version = 1;
        agent.rmpp_version = rmpp_version;
        return agent;
    }
    bool write(std::uint32_t agent, std::uint32_t qp, std::span<const std::byte> message,
               std::uint32_t timeout_ms = 0, std::uint32_t retries = 0, TimeNs now = 0) {
        ib_user_mad_hdr header{};
        header.id = agent;
        header.qpn = htonl(qp);
        header.lid = htons(5);
        header.timeout_ms = timeout_ms;
        header.retries = retries;
        return file_.write(datagram(header, message), now);
    }
    static ib_user_mad_hdr header_of(const std::vector<std::byte>& given) {
        ib_user_mad_hdr header{};
        std::memcpy(&header, given.data(), sizeof header);
        return header;
    }
    std::vector<MadPacket> sent_;
    std::vector<std::vector<std::byte>> given_;
    MadFile file_{
        {[this](const MadPacket& packet) { sent_.push_back(packet); },
         [this](std::span<const std::byte> bytes) { given_.emplace_back(bytes.begin(), bytes.end()); }},
        kFirstTid};
};

TEST_F(MadFileTest, ARequestAndItsResponse) {
    (void)add(client(0, wire::kMadClassSubnetLidRouted));
    const std::uint32_t agent = add(client(0, wire::kMadClassSubnetDirected));
    EXPECT_EQ(agent, 1U);
    const MadBytes request = mad_of(wire::kMadClassSubnetDirected, wire::kMadGet, 0xffff'ffff'0000'0007);
    ASSERT_TRUE(write(agent, 0, request, 100));
    ASSERT_EQ(sent_.size(), 1U);
    // The upper half of the transaction ID names the agent.
    EXPECT_EQ(MadRef(sent_[0].mad).transaction_id(), (std::uint64_t{kFirstTid + 1} << 32U) + 7);
    EXPECT_EQ(sent_[0].dlid, 5);
    MadPacket response = sent_[0];
    response.slid = 5;
    MadRef(response.mad).set_method(wire::kMadGetResponse);
    EXPECT_TRUE(file_.take(response, 0));
    ASSERT_EQ(given_.size(), 1U);
    EXPECT_EQ(header_of(given_[0]).id, agent);
    EXPECT_EQ(header_of(given_[0]).status, 0U);
    EXPECT_EQ(header_of(given_[0]).length, 64U + 256U);
    EXPECT_EQ(ntohs(header_of(given_[0]).lid), 5);
    EXPECT_EQ(file_.next_event(), kNever);
    // Of somebody else, or of another class.
    MadRef(response.mad).set_transaction_id(7);
    EXPECT_FALSE(file_.take(response, 0));
}

TEST_F(MadFileTest, NoResponse) {
    const std::uint32_t agent = add(client(1, wire::kMadClassPerformance));
    ASSERT_TRUE(write(agent, 1, mad_of(wire::kMadClassPerformance, wire::kMadGet), 100, 2));
    EXPECT_EQ(file_.next_event(), 100 * kMs);
    file_.advance(99 * kMs);
    EXPECT_EQ(sent_.size(), 1U);
    file_.advance(100 * kMs);
    file_.advance(200 * kMs);
    EXPECT_EQ(sent_.size(), 3U);
    EXPECT_TRUE(given_.empty());
    file_.advance(300 * kMs);
    ASSERT_EQ(given_.size(), 1U);
    EXPECT_EQ(header_of(given_[0]).status, ETIMEDOUT);
    EXPECT_EQ(given_[0].size(), 64U + 24U);
    EXPECT_EQ(file_.next_event(), kNever);
}

TEST_F(MadFileTest, RequestsGoToWhoRegisteredForThem) {
    MadAgent server = client(1, 0x32);
    server.oui = 0x001405;
    server.methods[0] = 1U << wire::kMadGet;
    const std::uint32_t agent = add(server);
    MadPacket packet;
    packet.dest_qp = packet.src_qp = 1;
    packet.mad = mad_of(0x32, wire::kMadGet);
    EXPECT_FALSE(file_.take(packet, 0));  // another OUI
    packet.mad[38] = std::byte{0x14};
    packet.mad[39] = std::byte{0x05};
    EXPECT_TRUE(file_.take(packet, 0));
    EXPECT_EQ(header_of(given_.at(0)).id, agent);
    packet.mad[3] = std::byte{wire::kMadSet};
    EXPECT_FALSE(file_.take(packet, 0));
    packet.mad[3] = std::byte{0x7f};
    EXPECT_FALSE(file_.take(packet, 0));
    packet.mad[3] = std::byte{wire::kMadGet};
    packet.mad[2] = std::byte{2};
    EXPECT_FALSE(file_.take(packet, 0));
    EXPECT_TRUE(file_.has_agent_for(server));
    server.methods[0] = 1U << wire::kMadSet;
    EXPECT_FALSE(file_.has_agent_for(server));
    EXPECT_EQ(file_.remove_agent(agent), 0);
    EXPECT_EQ(file_.remove_agent(agent), EINVAL);
    packet.mad[2] = std::byte{1};
    EXPECT_FALSE(file_.take(packet, 0));
}

TEST_F(MadFileTest, Bounds) {
    std::uint32_t id = 0;
    EXPECT_EQ(file_.add_agent(client(2, 1), id), EINVAL);
    EXPECT_EQ(file_.add_agent(client(1, wire::kMadClassPerformance, 1), id), EINVAL);  // it has no RMPP
    for (std::size_t i = 0; i < MadFile::kMaxAgents; ++i) {
        EXPECT_EQ(add(client(1, wire::kMadClassPerformance)), i);
    }
    EXPECT_EQ(file_.add_agent(client(1, 4), id), ENOMEM);
    const MadBytes request = mad_of(wire::kMadClassPerformance, wire::kMadGet);
    for (std::size_t i = 0; i < MadFile::kMaxOutstanding; ++i) {
        ASSERT_TRUE(write(0, 1, request, 1000));
    }
    EXPECT_FALSE(write(0, 1, request, 1000));
    EXPECT_TRUE(write(0, 1, request));  // nobody waits for an answer to it
}

TEST_F(MadFileTest, WhatIsNoMad) {
    (void)add(client(1, wire::kMadClassPerformance));
    const MadBytes request = mad_of(wire::kMadClassPerformance, wire::kMadGet);
    EXPECT_FALSE(file_.write({}, 0));
    EXPECT_FALSE(write(0, 1, std::span(request).first(23)));
    EXPECT_TRUE(write(0, 1, std::span(request).first(24)));
    EXPECT_FALSE(write(1, 1, request));  // no such agent
    EXPECT_FALSE(write(0xffff'ffff, 1, request));
    EXPECT_FALSE(write(0, 0, request));  // its agent is QP1's
    EXPECT_FALSE(write(0, 2, request));
    EXPECT_FALSE(write(0, 1, mad_of(wire::kMadClassSubnetDirected, wire::kMadSet)));  // SMPs are QP0's
    EXPECT_FALSE(write(0, 1, std::vector<std::byte>(257, std::byte{1})));
    EXPECT_EQ(sent_.size(), 1U);
}

/// Two devices, each the other's end: a table of 20,000 octets, as subnet administration answers.
TEST_F(MadFileTest, ALongMessage) {
    std::vector<MadPacket> to_server;
    std::vector<std::vector<std::byte>> at_server;
    MadFile server(
        {[&](const MadPacket& packet) { sent_.push_back(packet); },
         [&](std::span<const std::byte> bytes) { at_server.emplace_back(bytes.begin(), bytes.end()); }},
        0x900);
    MadAgent administrator = client(1, wire::kMadClassSubnetAdministration, 1);
    administrator.methods[0] = 1U << 0x12U;
    std::uint32_t id = 0;
    ASSERT_EQ(server.add_agent(administrator, id), 0);
    std::vector<std::vector<std::byte>> at_client;
    MadFile asking(
        {[&](const MadPacket& packet) { to_server.push_back(packet); },
         [&](std::span<const std::byte> bytes) { at_client.emplace_back(bytes.begin(), bytes.end()); }},
        0x800);
    ASSERT_EQ(asking.add_agent(client(1, wire::kMadClassSubnetAdministration, 1), id), 0);
    ib_user_mad_hdr header{};
    header.qpn = htonl(1);
    header.lid = htons(subnet::kPermissiveLid);
    header.timeout_ms = 1000;
    ASSERT_TRUE(asking.write(datagram(header, mad_of(wire::kMadClassSubnetAdministration, 0x12)), 0));
    ASSERT_EQ(to_server.size(), 1U);
    ASSERT_TRUE(server.take(to_server[0], 0));

    std::vector<std::byte> answer(56 + 20'000, std::byte{0x5a});
    const MadBytes front =
        mad_of(wire::kMadClassSubnetAdministration, 0x92, MadRef(to_server[0].mad).transaction_id());
    std::copy_n(front.begin(), 56, answer.begin());
    answer[24] = std::byte{1};
    answer[25] = std::byte{1};
    answer[26] = std::byte{1};
    header.timeout_ms = 0;
    ASSERT_TRUE(server.write(datagram(header, answer), 0));
    to_server.clear();
    for (std::size_t turn = 0; turn < sent_.size(); ++turn) {
        MadPacket segment = sent_[turn];
        EXPECT_TRUE(asking.take(segment, 0));
        for (const MadPacket& ack : std::exchange(to_server, {})) {
            EXPECT_TRUE(server.take(ack, 0));
        }
    }
    EXPECT_EQ(sent_.size(), 100U);
    ASSERT_EQ(at_client.size(), 1U);
    EXPECT_EQ(at_client[0].size(), 64U + answer.size());
    EXPECT_TRUE(std::equal(answer.begin() + 36, answer.end(), at_client[0].begin() + 64 + 36));
    EXPECT_EQ(asking.next_event(), kNever);
    EXPECT_EQ(server.next_event(), kNever);
}

}  // namespace
}  // namespace urnic::daemon
