// RDMA netlink as the daemon answers it: whole answers, errors, and messages that are none.
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "abi/netlink.h"
#include "daemon/control/long_answer.h"
#include "tests/unit/daemon/control_fixture.h"

namespace urnic::daemon {
namespace {

constexpr std::uint16_t kGet = NLM_F_REQUEST | NLM_F_ACK;
constexpr std::uint16_t kDump = kGet | NLM_F_DUMP;
constexpr std::uint32_t kSequence = 4711;
constexpr std::uint32_t kSender = 815;

/// One message of an answer: its header, and its attributes by type where it has some.
struct Message {
    nlmsghdr header{};
    int error = 1;  // of NLMSG_ERROR
    std::map<int, std::string> attributes;

    [[nodiscard]] std::uint32_t number(int type) const {
        std::uint32_t value = 0;
        const auto found = attributes.find(type);
        if (found != attributes.end() && found->second.size() >= sizeof value) {
            std::memcpy(&value, found->second.data(), sizeof value);
        }
        return value;
    }
};

class ControlNetlink : public ControlTest {
  protected:
    using Attributes = std::vector<std::pair<int, std::uint32_t>>;

    static std::vector<std::byte> message(std::uint32_t command, std::uint16_t flags,
                                          const Attributes& attributes) {
        std::vector<std::byte> bytes(sizeof(nlmsghdr) + attributes.size() * 8);
        const nlmsghdr header{static_cast<std::uint32_t>(bytes.size()),
                              static_cast<std::uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command)), flags,
                              kSequence, kSender};
        std::memcpy(bytes.data(), &header, sizeof header);
        std::size_t at = sizeof header;
        for (const auto& [type, value] : attributes) {
            const nlattr attribute{8, static_cast<std::uint16_t>(type)};
            std::memcpy(bytes.data() + at, &attribute, sizeof attribute);
            std::memcpy(bytes.data() + at + 4, &value, sizeof value);
            at += 8;
        }
        return bytes;
    }
    [[nodiscard]] Answer send(const std::vector<std::byte>& bytes) const {
        abi::NetlinkRequest request{};
        request.message_bytes = static_cast<std::uint32_t>(bytes.size());
        std::copy_n(bytes.begin(), std::min(bytes.size(), sizeof request.message), request.message);
        return connect().ask(abi::Op::kNetlink, request);
    }
    /// The messages of an answer; each has to be whole.
    static std::vector<Message> messages(const Answer& answer) {
        EXPECT_EQ(answer.error(), 0);
        std::vector<Message> all;
        if (answer.fds.size() != 1) {
            ADD_FAILURE() << "no file";
            return all;
        }
        std::string text(std::size_t{1} << 20U, '\0');
        text.resize(static_cast<std::size_t>(pread(answer.fds[0].get(), text.data(), text.size(), 0)));
        for (std::size_t at = 0; at < text.size();) {
            Message& one = all.emplace_back();
            std::memcpy(&one.header, text.data() + at, std::min(sizeof one.header, text.size() - at));
            if (one.header.nlmsg_len < sizeof one.header || one.header.nlmsg_len > text.size() - at ||
                one.header.nlmsg_len > abi::kMaxNetlinkBytes) {
                ADD_FAILURE() << "a message of " << one.header.nlmsg_len << " bytes at " << at;
                break;
            }
            EXPECT_EQ(one.header.nlmsg_seq, kSequence);
            EXPECT_EQ(one.header.nlmsg_pid, kSender);
            read_body(one, text.substr(at + sizeof one.header, one.header.nlmsg_len - sizeof one.header));
            at += NLMSG_ALIGN(one.header.nlmsg_len);
        }
        return all;
    }
    static void read_body(Message& one, const std::string& body) {
        if (one.header.nlmsg_type == NLMSG_ERROR || one.header.nlmsg_type == NLMSG_DONE) {
            std::memcpy(&one.error, body.data(), std::min(sizeof one.error, body.size()));
            return;
        }
        for (std::size_t at = 0; at + sizeof(nlattr) <= body.size();) {
            nlattr attribute{};
            std::memcpy(&attribute, body.data() + at, sizeof attribute);
            ASSERT_GE(attribute.nla_len, sizeof attribute);
            ASSERT_LE(attribute.nla_len, body.size() - at);
            one.attributes[attribute.nla_type & NLA_TYPE_MASK] =
                body.substr(at + sizeof attribute, attribute.nla_len - sizeof attribute);
            at += NLA_ALIGN(attribute.nla_len);
        }
    }
    [[nodiscard]] std::vector<Message> ask(std::uint32_t command, std::uint16_t flags,
                                           const Attributes& attributes = {}) const {
        return messages(send(message(command, flags, attributes)));
    }
    /// The error of an answer that is nothing else.
    [[nodiscard]] int error_of(std::uint32_t command, std::uint16_t flags,
                               const Attributes& attributes = {}) const {
        const std::vector<Message> all = ask(command, flags, attributes);
        return all.size() == 1 && all[0].header.nlmsg_type == NLMSG_ERROR ? -all[0].error : 0;
    }
};

TEST_F(ControlNetlink, ADumpHasAMessageForEachRnicAndAnEnd) {
    const std::vector<Message> all = ask(RDMA_NLDEV_CMD_GET, kDump);
    ASSERT_EQ(all.size(), 3U);
    for (std::uint32_t i = 0; i < 2; ++i) {
        EXPECT_EQ(all[i].header.nlmsg_type, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET));
        EXPECT_NE(all[i].header.nlmsg_flags & NLM_F_MULTI, 0);
        EXPECT_EQ(all[i].number(RDMA_NLDEV_ATTR_DEV_INDEX), i);
        EXPECT_EQ(all[i].attributes.at(RDMA_NLDEV_ATTR_DEV_NAME),
                  std::string("urnic") + char('0' + i) + '\0');
    }
    EXPECT_EQ(all[2].header.nlmsg_type, NLMSG_DONE);
    EXPECT_EQ(all[2].error, 0);
}

TEST_F(ControlNetlink, OneMessageIsAcknowledgedWhenThatIsAskedFor) {
    std::vector<Message> all =
        ask(RDMA_NLDEV_CMD_PORT_GET, kGet, {{RDMA_NLDEV_ATTR_DEV_INDEX, 1}, {RDMA_NLDEV_ATTR_PORT_INDEX, 1}});
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].number(RDMA_NLDEV_ATTR_DEV_INDEX), 1U);
    EXPECT_EQ(all[0].header.nlmsg_flags & NLM_F_MULTI, 0);
    EXPECT_EQ(all[1].header.nlmsg_type, NLMSG_ERROR);
    EXPECT_EQ(all[1].error, 0);
    all = ask(RDMA_NLDEV_CMD_PORT_GET, NLM_F_REQUEST, {{RDMA_NLDEV_ATTR_DEV_INDEX, 0}});
    EXPECT_EQ(all.size(), 1U);
}

TEST_F(ControlNetlink, AnEmptyDumpIsItsEndAlone) {
    for (const std::uint32_t command :
         {RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_CMD_RES_CQ_GET, RDMA_NLDEV_CMD_RES_MR_GET,
          RDMA_NLDEV_CMD_RES_PD_GET, RDMA_NLDEV_CMD_RES_SRQ_GET, RDMA_NLDEV_CMD_RES_CM_ID_GET}) {
        const std::vector<Message> all = ask(command, kDump, {{RDMA_NLDEV_ATTR_DEV_INDEX, 0}});
        ASSERT_EQ(all.size(), 1U) << command;
        EXPECT_EQ(all[0].header.nlmsg_type, NLMSG_DONE) << command;
    }
}

TEST_F(ControlNetlink, AllOfManyObjectsAreThere) {
    constexpr std::size_t kMany = 3 * LongAnswer::kObjectsPerStep;
    std::vector<TestClient> owners;
    for (int i = 0; i < 2; ++i) {
        TestClient& owner = owners.emplace_back(client());
        const std::uint32_t context = owner.open();
        const std::uint32_t pd = owner.pd(context);
        for (std::size_t j = 0; j < kMany; ++j) {
            (void)owner.qp(pd, owner.cq(context, 1));
        }
    }
    const std::uint32_t other_rnic = owners[0].open("urnic1");
    (void)owners[0].cq(other_rnic, 1);
    const auto count = [&](std::uint32_t command, int table) {
        std::size_t entries = 0;
        for (const Message& one : ask(command, kDump, {{RDMA_NLDEV_ATTR_DEV_INDEX, 0}})) {
            const auto found = one.attributes.find(table);
            const std::string nested = found != one.attributes.end() ? found->second : "";
            for (std::size_t at = 0; at < nested.size(); ++entries) {
                nlattr attribute{};
                std::memcpy(&attribute, nested.data() + at, sizeof attribute);
                at += NLA_ALIGN(attribute.nla_len);
            }
        }
        return entries;
    };
    EXPECT_EQ(count(RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_ATTR_RES_QP), 2 * kMany);
    EXPECT_EQ(count(RDMA_NLDEV_CMD_RES_CQ_GET, RDMA_NLDEV_ATTR_RES_CQ), 2 * kMany);
    EXPECT_EQ(count(RDMA_NLDEV_CMD_RES_PD_GET, RDMA_NLDEV_ATTR_RES_PD), 2U);
}

TEST_F(ControlNetlink, Errors) {
    EXPECT_EQ(error_of(RDMA_NLDEV_CMD_GET, kGet), EINVAL) << "of which RNIC?";
    EXPECT_EQ(error_of(RDMA_NLDEV_CMD_GET, kGet, {{RDMA_NLDEV_ATTR_DEV_INDEX, 2}}), ENODEV);
    EXPECT_EQ(error_of(RDMA_NLDEV_CMD_GET, kGet, {{RDMA_NLDEV_ATTR_DEV_INDEX, 0xffff'ffff}}), ENODEV);
    EXPECT_EQ(error_of(RDMA_NLDEV_CMD_PORT_GET, kGet,
                       {{RDMA_NLDEV_ATTR_DEV_INDEX, 0}, {RDMA_NLDEV_ATTR_PORT_INDEX, 2}}),
              EINVAL);
    EXPECT_EQ(error_of(RDMA_NLDEV_CMD_RES_QP_GET, kDump), EINVAL);
    EXPECT_EQ(error_of(RDMA_NLDEV_CMD_RES_QP_GET, kGet, {{RDMA_NLDEV_ATTR_DEV_INDEX, 0}}), EOPNOTSUPP);
    EXPECT_EQ(error_of(RDMA_NLDEV_CMD_SET, kGet, {{RDMA_NLDEV_ATTR_DEV_INDEX, 0}}), EOPNOTSUPP);
    EXPECT_EQ(error_of(RDMA_NLDEV_CMD_NEWLINK, kGet), EOPNOTSUPP);
    EXPECT_EQ(error_of(RDMA_NLDEV_CMD_STAT_GET, kGet,
                       {{RDMA_NLDEV_ATTR_DEV_INDEX, 0}, {RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_QP}}),
              EOPNOTSUPP);
}

TEST_F(ControlNetlink, WhatIsNoMessageIsRefused) {
    const std::vector<std::byte> good = message(RDMA_NLDEV_CMD_GET, kDump, {{RDMA_NLDEV_ATTR_DEV_INDEX, 0}});
    for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
        EXPECT_EQ(send({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(bytes)}).error(), EINVAL)
            << bytes;
    }
    for (const std::uint32_t length : {0U, 15U, 25U, 1000U, 0xffff'ffffU}) {
        std::vector<std::byte> other = good;
        std::memcpy(other.data(), &length, sizeof length);
        EXPECT_EQ(send(other).error(), EINVAL) << length;
    }
    EXPECT_EQ(send(std::vector<std::byte>(abi::kMaxNetlinkRequestBytes + 1)).error(), EINVAL);
}

// Attributes of any length and type, nested or not: an answer, or an error.
TEST_F(ControlNetlink, AttributesOfAnyKindDoNoHarm) {
    const char* const given = std::getenv("URNIC_TEST_SEED");
    const unsigned seed =
        given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 500; ++round) {
        std::vector<std::byte> bytes =
            message(random() % 26, (random() & 1U) != 0 ? kDump : kGet,
                    {{static_cast<int>(random() % 70), random() % 3}, {1, random() % 3}});
        for (unsigned flips = random() % 4; flips > 0; --flips) {
            // Not in the header's length, number and sender.
            const std::size_t at = 16 + random() % (bytes.size() - 16);
            bytes[at] = static_cast<std::byte>(random());
        }
        EXPECT_FALSE(messages(send(bytes)).empty());
    }
}

}  // namespace
}  // namespace urnic::daemon
