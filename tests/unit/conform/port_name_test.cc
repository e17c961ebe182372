// --port: what the tester takes, and what it says to type in place of a PCI address.
#include "conform/port/port_name.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "os/setup_error.h"

namespace urnic::conform {
namespace {
namespace fs = std::filesystem;

class PortName : public testing::Test {
  protected:
    PortName() { fs::create_directories(devices_); }
    ~PortName() override { fs::remove_all(sysfs_); }

    /// What it says of a port that is none.
    std::string refusal(const std::string& port) {
        try {
            (void)interface_of(port, sysfs_);
        } catch (const SetupError& error) {
            return error.what();
        }
        return "taken";
    }

    fs::path sysfs_ = fs::path(testing::TempDir()) / ("urnic-sysfs-" + std::to_string(::getpid()));
    fs::path devices_ = sysfs_ / "bus/pci/devices";
};

TEST_F(PortName, OfAnInterface) {
    EXPECT_EQ(interface_of("af_packet:eth1", sysfs_), "eth1");
    EXPECT_EQ(interface_of("af_packet:", sysfs_), "");
    EXPECT_NE(refusal("dpdk:eth1").find("is not known; it is af_packet:INTERFACE"), std::string::npos);
}

TEST_F(PortName, APciAddressWithAnInterfaceSaysWhatToType) {
    fs::create_directories(devices_ / "0000:01:00.0/net/enp1s0");
    for (const std::string address : {"0000:01:00.0", "01:00.0"}) {
        EXPECT_NE(refusal("pci:" + address).find("not by DPDK; type --port af_packet:enp1s0"),
                  std::string::npos)
            << refusal("pci:" + address);
    }
    fs::create_directories(devices_ / "0000:00:04.0/virtio1/net/ens4");
    EXPECT_NE(refusal("pci:0000:00:04.0").find("type --port af_packet:ens4"), std::string::npos);
}

TEST_F(PortName, APciAddressWithoutOneSaysWhoHasIt) {
    fs::create_directories(devices_ / "0000:02:00.0");
    EXPECT_NE(refusal("pci:0000:02:00.0").find("it has no driver"), std::string::npos);
    fs::create_symlink("../../drivers/vfio-pci", devices_ / "0000:02:00.0/driver");
    EXPECT_NE(refusal("pci:0000:02:00.0").find("its driver is vfio-pci"), std::string::npos);
    EXPECT_NE(refusal("pci:02:00.0").find("`driverctl unset-override 0000:02:00.0`"), std::string::npos);
    EXPECT_NE(refusal("pci:0000:03:00.0").find("there is no PCI device 0000:03:00.0"), std::string::npos);
}

TEST_F(PortName, WhatIsNoPciAddressIsNotLookedUp) {
    fs::create_directories(sysfs_ / "bus/pci/net/stray");
    for (const std::string address : {"", "..", "../x", "eth1", "0000:01:00.0/net"}) {
        EXPECT_NE(refusal("pci:" + address).find("name the NIC's interface"), std::string::npos) << address;
        EXPECT_EQ(refusal("pci:" + address).find("stray"), std::string::npos) << address;
    }
}

}  // namespace
}  // namespace urnic::conform
