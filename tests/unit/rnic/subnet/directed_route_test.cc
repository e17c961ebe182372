// Directed routes: the way there and back, hop by hop, and every hop pointer that cannot be.
#include <gtest/gtest.h>

#include "rnic/subnet/directed_route.h"
#include "tests/unit/rnic/subnet/smp_builder.h"

namespace urnic::subnet {
namespace {

using test::directed;
using Kind = RouteStep::Kind;

constexpr std::uint8_t kPorts = 8;

RouteStep at_adapter(MadBytes& mad, std::uint8_t ingress) {
    return step_directed(MadRef(mad), false, 1, ingress);
}
RouteStep at_switch(MadBytes& mad, std::uint8_t ingress) {
    return step_directed(MadRef(mad), true, kPorts, ingress);
}

// An adapter, two switches, an adapter (IBA 14.2.2, figure 176).
TEST(DirectedRoute, ThereAndBack) {
    MadBytes mad = directed(wire::kMadGet, wire::mad::kNodeInfo, 0, {1, 5, 7});
    RouteStep step = at_adapter(mad, kOwnPort);
    EXPECT_EQ(step.kind, Kind::kForward);
    EXPECT_EQ(step.port, 1);
    step = at_switch(mad, 3);
    EXPECT_EQ(step.kind, Kind::kForward);
    EXPECT_EQ(step.port, 5);
    step = at_switch(mad, 2);
    EXPECT_EQ(step.kind, Kind::kForward);
    EXPECT_EQ(step.port, 7);
    EXPECT_EQ(at_adapter(mad, 1).kind, Kind::kDeliver);
    MadRef smp(mad);
    EXPECT_EQ(smp.hop_pointer(), 4);
    EXPECT_EQ(smp.return_path(1), 3);
    EXPECT_EQ(smp.return_path(2), 2);
    EXPECT_EQ(smp.return_path(3), 1);

    make_response(smp, kStatusGood);
    EXPECT_TRUE(smp.is_returning());
    step = at_adapter(mad, kOwnPort);
    EXPECT_EQ(step.kind, Kind::kForward);
    EXPECT_EQ(step.port, 1);
    step = at_switch(mad, 7);
    EXPECT_EQ(step.port, 2);
    step = at_switch(mad, 5);
    EXPECT_EQ(step.port, 3);
    EXPECT_EQ(at_adapter(mad, 1).kind, Kind::kDeliver);
    EXPECT_EQ(smp.hop_pointer(), 0);
}

TEST(DirectedRoute, ToItself) {
    MadBytes mad = directed(wire::kMadGet, wire::mad::kNodeInfo, 0, {});
    EXPECT_EQ(at_adapter(mad, kOwnPort).kind, Kind::kDeliver);
    MadRef smp(mad);
    EXPECT_EQ(smp.hop_pointer(), 1);
    make_response(smp, kStatusGood);
    EXPECT_EQ(at_adapter(mad, kOwnPort).kind, Kind::kDeliver);
    EXPECT_EQ(smp.hop_pointer(), 0);
}

/// Whatever count, pointer and direction: what may pass is what the specification lets pass, and no octet
/// outside of the paths is touched.
TEST(DirectedRoute, EveryCountAndPointer) {
    for (unsigned count = 0; count < 256; ++count) {
        for (unsigned pointer = 0; pointer < 256; ++pointer) {
            for (const bool returning : {false, true}) {
                for (const std::uint8_t ingress : {std::uint8_t{0}, std::uint8_t{4}}) {
                    MadBytes mad = directed(wire::kMadGet, wire::mad::kNodeInfo, 0, {});
                    for (std::size_t i = 128; i < mad.size(); ++i) {
                        mad[i] = std::byte{2};
                    }
                    mad[6] = static_cast<std::byte>(pointer);
                    mad[7] = static_cast<std::byte>(count);
                    mad[4] = returning ? std::byte{0x80} : std::byte{0};
                    const RouteStep step = at_switch(mad, ingress);
                    const bool is_own = ingress == kOwnPort;
                    const bool passes =
                        count <= 63 &&
                        (returning ? pointer >= 1 && pointer <= count + 1 && is_own == (pointer == count + 1)
                                   : pointer <= count && is_own == (pointer == 0));
                    const bool arrives = returning ? pointer == 1 : pointer == count;
                    ASSERT_EQ(step.kind, !passes   ? Kind::kDiscard
                                         : arrives ? Kind::kDeliver
                                                   : Kind::kForward)
                        << count << ' ' << pointer << ' ' << returning << ' ' << unsigned{ingress};
                }
            }
        }
    }
}

TEST(DirectedRoute, WhatANodeDoesNotHave) {
    MadBytes beyond = directed(wire::kMadGet, wire::mad::kNodeInfo, 0, {1, kPorts + 1, 1});
    (void)at_adapter(beyond, kOwnPort);
    EXPECT_EQ(at_switch(beyond, 1).kind, Kind::kDiscard);
    MadBytes zero = directed(wire::kMadGet, wire::mad::kNodeInfo, 0, {1, 0, 1});
    (void)at_adapter(zero, kOwnPort);
    EXPECT_EQ(at_switch(zero, 1).kind, Kind::kDiscard);
    MadBytes second = directed(wire::kMadGet, wire::mad::kNodeInfo, 0, {2});
    EXPECT_EQ(at_adapter(second, kOwnPort).kind, Kind::kDiscard);
    // An adapter is no place to pass through.
    MadBytes through = directed(wire::kMadGet, wire::mad::kNodeInfo, 0, {1, 1, 1});
    (void)at_adapter(through, kOwnPort);
    EXPECT_EQ(at_adapter(through, 1).kind, Kind::kDiscard);
    // A route that goes on by LID.
    MadBytes by_lid = directed(wire::kMadGet, wire::mad::kNodeInfo, 0, {1});
    store_be16(&by_lid[34], 7);
    (void)at_adapter(by_lid, kOwnPort);
    EXPECT_EQ(at_switch(by_lid, 1).kind, Kind::kDiscard);
}

}  // namespace
}  // namespace urnic::subnet
