#include "daemon/cm/port_table.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <vector>

namespace urnic::daemon {
namespace {

constexpr std::uint32_t kFreePorts = PortTable::kLastFree - PortTable::kFirstFree + 1;

// The search begins at any number, and goes on from there.
TEST(PortTable, TheOnlyFreePortIsFoundWhereverTheSearchBegins) {
    for (const std::uint32_t first : {0U, kFreePorts - 1, ~0U, 0U - kFreePorts - 10, 0U - kFreePorts / 2}) {
        PortTable table(first);
        std::vector<PortUser> users(kFreePorts + 2);
        PortUser* of_last_port = nullptr;
        for (std::uint32_t i = 0; i < kFreePorts; ++i) {
            ASSERT_EQ(table.bind(users[i], false), 0) << i << " from " << first;
            of_last_port = users[i].at.port == PortTable::kLastFree ? &users[i] : of_last_port;
        }
        EXPECT_EQ(table.size(), kFreePorts);
        ASSERT_NE(of_last_port, nullptr);
        table.release(*of_last_port);
        PortUser& again = users[kFreePorts];
        EXPECT_EQ(table.bind(again, false), 0) << "from " << first;
        EXPECT_EQ(again.at.port, PortTable::kLastFree);
        EXPECT_EQ(table.bind(users.back(), false), EADDRNOTAVAIL);
    }
}

}  // namespace
}  // namespace urnic::daemon
