// A subnet administrator with four nodes, and requests to it, for tests.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "rnic/subnet/sa_components.h"
#include "rnic/subnet/subnet_administrator.h"

namespace urnic::subnet::test {

namespace mad = wire::mad;
namespace mc = member_component;
namespace pc = path_component;

inline constexpr std::uint16_t kAsker = 2;  // its LID
inline constexpr std::uint64_t kLinuxJoin = mc::kMgid | mc::kPortGid | mc::kPkey | mc::kJoinState;
inline constexpr std::uint64_t kCreate = mc::kMgid | mc::kPortGid | mc::kQkey | mc::kPkey | mc::kSl |
                                         mc::kFlowLabel | mc::kTclass | mc::kJoinState;

inline wire::Gid gid_of(std::uint8_t number) {
    wire::Gid gid{0xfe, 0x80};
    gid[15] = number;
    return gid;
}
inline wire::Gid group_gid(std::uint16_t number, std::uint8_t scope = 2) {
    wire::Gid gid{0xff, static_cast<std::uint8_t>(0x10 | scope), 0x60, 0x1b};
    gid[14] = static_cast<std::uint8_t>(number >> 8U);
    gid[15] = static_cast<std::uint8_t>(number);
    return gid;
}

/// Ports 1, 2 and 3 with LIDs and GUIDs of these numbers; 1 is the subnet manager's. Port 4 has no LID.
class AdministratorTest : public testing::Test {
  protected:
    AdministratorTest() {
        for (std::uint8_t number = 1; number <= 4; ++number) {
            NodeOptions options;
            options.guid = number;
            options.description = "urnic" + std::to_string(number);
            options.port.lid = number == 4 ? 0 : number;
            options.port.mtu = number == 3 ? 4 : 5;
            nodes_.emplace_back(options);
            (void)set_connected(nodes_.back(), 1, true);
            nodes_.back().ports[1].info.port_state = mad::kActive;
            nodes_.back().ports[1].info.master_sm_lid = 1;
        }
        std::vector<const Node*> nodes;
        for (const Node& node : nodes_) {
            nodes.push_back(&node);
        }
        administrator_.emplace(nodes_.front(), nodes,
                               [this](const MadPacket& packet) { sent_.push_back(packet); });
    }

    /// A request of `slid`; the record lies at its place.
    MadPacket request(std::uint8_t method, std::uint16_t attribute, std::uint64_t mask,
                      std::uint16_t slid = kAsker) {
        MadPacket packet;
        packet.slid = slid;
        packet.dlid = 1;
        packet.src_qp = packet.dest_qp = 1;
        packet.qkey = wire::kGsiQkey;
        wire::MadHeader header;
        header.mgmt_class = wire::kMadClassSubnetAdministration;
        header.class_version = 2;
        header.method = method;
        header.transaction_id = ++transaction_id_;
        header.attribute_id = attribute;
        const mad::SaHeader sa{0, 0, mask};
        MadRef(packet.mad).write(wire::kMadTable, 0, header);
        MadRef(packet.mad).write(mad::kSaHeaderTable, mad::kSaHeaderOffset, sa);
        return packet;
    }
    template <class T>
    MadPacket request(std::uint8_t method, std::uint16_t attribute, std::uint64_t mask,
                      const wire::HeaderTable& table, const T& record, std::uint16_t slid = kAsker) {
        MadPacket packet = request(method, attribute, mask, slid);
        MadRef(packet.mad).write(table, mad::kSaDataOffset, record);
        return packet;
    }
    MadPacket path_request(std::uint8_t method, std::uint64_t mask, const mad::PathRecord& path) {
        return request(method, mad::kPathRecord, mask, mad::kPathRecordTable, path);
    }
    /// The one MAD that comes back.
    MadPacket ask(const MadPacket& packet) {
        sent_.clear();
        EXPECT_TRUE(administrator_->handle(packet, now_));
        EXPECT_EQ(sent_.size(), 1U);
        return sent_.empty() ? MadPacket{} : sent_.front();
    }
    std::uint16_t status_of(const MadPacket& packet) {
        MadPacket answer = ask(packet);
        return MadRef(answer.mad).status();
    }
    /// The records of a table, acknowledged as a program's would be.
    template <class T>
    std::vector<T> table(const MadPacket& packet, const wire::HeaderTable& layout) {
        sent_.clear();
        EXPECT_TRUE(administrator_->handle(packet, now_));
        RmppReceiver receiver(1U << 20U);
        bool is_done = false;
        while (!sent_.empty() && !is_done) {
            const MadPacket segment = sent_.front();
            sent_.pop_front();
            std::optional<MadBytes> ack;
            const auto result = receiver.on_data(segment.mad, ack);
            EXPECT_NE(result, RmppReceiver::Result::kBad);
            is_done = result == RmppReceiver::Result::kDone;
            if (ack) {
                MadPacket back = packet;
                back.mad = *ack;
                EXPECT_TRUE(administrator_->handle(back, now_));
            }
        }
        EXPECT_TRUE(is_done);
        const std::vector<std::byte>& message = receiver.message();
        mad::SaHeader header;
        wire::read_fields(mad::kSaHeaderTable, &message[mad::kSaHeaderOffset], &header);
        std::vector<T> records;
        for (std::size_t at = mad::kSaDataOffset; at < message.size(); at += header.attribute_offset * 8U) {
            wire::read_fields(layout, &message[at], &records.emplace_back());
        }
        return records;
    }

    static mad::McMemberRecord member(const wire::Gid& mgid, std::uint8_t port = kAsker,
                                      std::uint8_t join_state = kFullMember) {
        mad::McMemberRecord record;
        record.mgid = mgid;
        record.port_gid = gid_of(port);
        record.qkey = 0x8000'1b0b;
        record.pkey = 0xffff;
        record.join_state = join_state;
        return record;
    }
    MadPacket member_request(std::uint8_t method, std::uint64_t mask, const mad::McMemberRecord& record,
                             std::uint16_t slid = kAsker) {
        return request(method, mad::kMcMemberRecord, mask, mad::kMcMemberRecordTable, record, slid);
    }
    std::uint16_t join(std::uint64_t mask, const mad::McMemberRecord& record, std::uint16_t slid = kAsker) {
        return status_of(member_request(wire::kMadSet, mask, record, slid));
    }
    std::uint16_t leave(const mad::McMemberRecord& record, std::uint16_t slid = kAsker) {
        return status_of(
            member_request(wire::kMadDelete, mc::kMgid | mc::kPortGid | mc::kJoinState, record, slid));
    }

    std::deque<Node> nodes_;
    std::optional<SubnetAdministrator> administrator_;
    std::deque<MadPacket> sent_;
    std::uint64_t transaction_id_ = 0;
    TimeNs now_ = 1;
};

template <class T>
T record_of(const MadPacket& packet, const wire::HeaderTable& table) {
    MadBytes bytes = packet.mad;
    return MadRef(bytes).read<T>(table, mad::kSaDataOffset);
}
inline mad::PathRecord path_of(const MadPacket& packet) {
    return record_of<mad::PathRecord>(packet, mad::kPathRecordTable);
}
inline mad::McMemberRecord member_of(const MadPacket& packet) {
    return record_of<mad::McMemberRecord>(packet, mad::kMcMemberRecordTable);
}

inline void put(MadBytes& bytes, std::size_t at, std::initializer_list<unsigned> octets) {
    for (const unsigned octet : octets) {
        bytes[at++] = static_cast<std::byte>(octet);
    }
}

}  // namespace urnic::subnet::test
