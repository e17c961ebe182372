#include "daemon/state/equal_guids.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/config/config.h"

namespace urnic::daemon {
namespace {

TEST(EqualGuids, TheLaterOneIsNamedWithTheEarlier) {
    dataplane::Device first;
    dataplane::Device second;
    dataplane::Device third;
    first.name = "eth0.10";
    second.name = "eth1";
    third.name = "eth0.20";
    first.mac = third.mac = {2, 0, 0, 0, 0, 1};
    second.mac = {2, 0, 0, 0, 0, 2};
    const std::vector<dataplane::Device*> devices = {&first, &second, &third};
    for (dataplane::Device* device : devices) {
        device->node_guid = node_guid(device->mac);
    }
    const std::vector<std::string> said = equal_guids(devices);
    ASSERT_EQ(said.size(), 1U);
    EXPECT_EQ(
        said[0],
        "eth0.20 has the GUID of eth0.10 (0000:00ff:fe00:0001), for both have the MAC 02:00:00:00:00:01: "
        "librdmacm and others that look for a device by GUID may take the wrong one. Give one of the two "
        "another 'mac'");
    third.mac[5] = 3;
    third.node_guid = node_guid(third.mac);
    EXPECT_TRUE(equal_guids(devices).empty());
}

}  // namespace
}  // namespace urnic::daemon
