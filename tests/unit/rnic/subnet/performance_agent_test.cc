// The performance agent: counters read, cleared and saturated; every wrong request. And the vendor ping.
#include <gtest/gtest.h>

#include <cstring>

#include "rnic/subnet/performance_agent.h"
#include "rnic/subnet/ping_agent.h"
#include "rnic/wire/mad/performance_attributes.h"

namespace urnic::subnet {
namespace {

namespace mad = wire::mad;

struct Counters final : PortCounterSource {
    PortCounterValues values{};
    void read(std::uint8_t port, PortCounterValues& to) override {
        to = values;
        to[static_cast<std::size_t>(PortCounter::kRcvPkts)] += port;
    }
    std::uint64_t& operator[](PortCounter counter) { return values.at(static_cast<std::size_t>(counter)); }
};

MadBytes request(std::uint8_t method, std::uint16_t attribute, std::uint8_t port, std::uint16_t select = 0) {
    MadBytes bytes{};
    bytes[0] = std::byte{1};
    bytes[1] = std::byte{wire::kMadClassPerformance};
    bytes[2] = std::byte{1};
    bytes[3] = std::byte{method};
    store_be16(&bytes[16], attribute);
    bytes[65] = std::byte{port};
    store_be16(&bytes[66], select);
    return bytes;
}

class Performance : public testing::Test {
  protected:
    std::uint16_t status_of(MadBytes bytes) {
        EXPECT_TRUE(agent_.handle(MadRef(bytes), counters_));
        EXPECT_EQ(MadRef(bytes).method(), wire::kMadGetResponse);
        return MadRef(bytes).status();
    }
    mad::PortCounters read(std::uint8_t method = wire::kMadGet, std::uint16_t select = 0) {
        MadBytes bytes = request(method, mad::kPortCounters, 1, select);
        EXPECT_TRUE(agent_.handle(MadRef(bytes), counters_));
        EXPECT_EQ(MadRef(bytes).status(), kStatusGood);
        return MadRef(bytes).read<mad::PortCounters>(mad::kPortCountersTable, 64);
    }
    mad::PortCountersExtended read_extended(std::uint8_t method = wire::kMadGet, std::uint16_t select = 0) {
        MadBytes bytes = request(method, mad::kPortCountersExtended, 1, select);
        EXPECT_TRUE(agent_.handle(MadRef(bytes), counters_));
        return MadRef(bytes).read<mad::PortCountersExtended>(mad::kPortCountersExtendedTable, 64);
    }
    Counters counters_;
    PerformanceAgent agent_{1, 2};
};

TEST_F(Performance, CountersStopAtTheirLargestValue) {
    counters_[PortCounter::kSymbolError] = 0x1'0005;
    counters_[PortCounter::kLinkDowned] = 0x1ff;
    counters_[PortCounter::kLocalLinkIntegrityErrors] = 9;
    counters_[PortCounter::kExcessiveBufferOverrunErrors] = 16;
    counters_[PortCounter::kXmitData] = 0x1'0000'0007;
    counters_[PortCounter::kRcvPkts] = 41;
    counters_[PortCounter::kXmitWait] = 12;
    const mad::PortCounters shown = read();
    EXPECT_EQ(shown.symbol_error_counter, 0xffff);
    EXPECT_EQ(shown.link_downed_counter, 0xff);
    EXPECT_EQ(shown.local_link_integrity_errors, 9);
    EXPECT_EQ(shown.excessive_buffer_overrun_errors, 15);
    EXPECT_EQ(shown.port_xmit_data, 0xffff'ffffU);
    EXPECT_EQ(shown.port_rcv_pkts, 42U);
    EXPECT_EQ(shown.port_xmit_wait, 12U);
    EXPECT_EQ(read_extended().port_xmit_data, 0x1'0000'0007U);
}

/// Each attribute clears its own, and of them what CounterSelect names.
TEST_F(Performance, Clear) {
    counters_[PortCounter::kXmitPkts] = 100;
    counters_[PortCounter::kXmitData] = 1000;
    EXPECT_EQ(read(wire::kMadSet, 1U << 14U).port_xmit_pkts, 0U);
    EXPECT_EQ(read().port_xmit_data, 1000U);
    EXPECT_EQ(read_extended().port_xmit_pkts, 100U);
    counters_[PortCounter::kXmitPkts] += 3;
    EXPECT_EQ(read().port_xmit_pkts, 3U);
    (void)read_extended(wire::kMadSet, 0x00ff);
    EXPECT_EQ(read_extended().port_xmit_pkts, 0U);
    EXPECT_EQ(read().port_xmit_pkts, 3U);
    (void)read(wire::kMadSet, 0xffff);
    EXPECT_EQ(read().port_xmit_data, 0U);
}

TEST_F(Performance, EveryWrongKind) {
    EXPECT_EQ(status_of(request(wire::kMadGet, mad::kPortCounters, 0)), kStatusBadValue);
    EXPECT_EQ(status_of(request(wire::kMadGet, mad::kPortCounters, 3)), kStatusBadValue);
    EXPECT_EQ(status_of(request(wire::kMadGet, mad::kPortCountersExtended, 255)), kStatusBadValue);
    EXPECT_EQ(status_of(request(wire::kMadGet, 0x0010, 1)), kStatusBadAttribute);
    EXPECT_EQ(status_of(request(wire::kMadSet, 0x0001, 1)), kStatusBadAttribute);
    EXPECT_EQ(status_of(request(wire::kMadSend, mad::kPortCounters, 1)), kStatusBadMethod);
    MadBytes version = request(wire::kMadGet, mad::kPortCounters, 1);
    version[2] = std::byte{2};
    EXPECT_EQ(status_of(version), kStatusBadVersion);
    MadBytes response = request(wire::kMadGetResponse, mad::kPortCounters, 1);
    EXPECT_FALSE(agent_.handle(MadRef(response), counters_));
    MadBytes info = request(wire::kMadGet, 0x0001, 0);
    EXPECT_EQ(status_of(info), kStatusGood);
}

MadBytes ping() {
    MadBytes bytes{};
    bytes[0] = std::byte{1};
    bytes[1] = std::byte{kOpenIbPingClass};
    bytes[2] = std::byte{1};
    bytes[3] = std::byte{wire::kMadGet};
    bytes[38] = std::byte{0x14};
    bytes[39] = std::byte{0x05};
    return bytes;
}

TEST(Ping, IsAnsweredWithTheName) {
    MadBytes bytes = ping();
    ASSERT_TRUE(answer_ping(MadRef(bytes), "host 1"));
    EXPECT_EQ(MadRef(bytes).method(), wire::kMadGetResponse);
    EXPECT_STREQ(reinterpret_cast<const char*>(&bytes[40]), "host 1");
    bytes = ping();
    ASSERT_TRUE(answer_ping(MadRef(bytes), std::string(1000, 'x')));
    EXPECT_EQ(std::strlen(reinterpret_cast<const char*>(&bytes[40])), 215U);
}

TEST(Ping, OthersAreNot) {
    for (const std::size_t octet : {0U, 2U, 3U, 37U, 38U, 39U}) {
        MadBytes bytes = ping();
        bytes.at(octet) ^= std::byte{0x80};
        const MadBytes before = bytes;
        EXPECT_FALSE(answer_ping(MadRef(bytes), "host")) << octet;
        EXPECT_EQ(bytes, before);
    }
}

}  // namespace
}  // namespace urnic::subnet
