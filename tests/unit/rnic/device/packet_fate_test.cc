// What became of a packet, as the counters tell that changed meanwhile.
#include <gtest/gtest.h>

#include <utility>

#include "rnic/device/packet_fate.h"

namespace urnic {
namespace {

using abi::PacketFate;

TEST(PacketFate, APacketThatChangesNothingIsDelivered) {
    Counters counters;
    FateWatch watch;
    for (int i = 0; i < 3; ++i) {
        watch.begin(counters, 1);
        ++counters.rcvd_pkts;
        EXPECT_EQ(watch.end(counters, 1).fate, PacketFate::kDelivered);
    }
}

TEST(PacketFate, EachCounterTellsItsOwn) {
    const std::pair<Counter Counters::*, PacketFate> told[] = {
        {&Counters::duplicate_request, PacketFate::kDuplicate},
        {&Counters::out_of_seq_request, PacketFate::kEarlyDropped},
        {&Counters::send_rnr_err, PacketFate::kNoReceive},
        {&Counters::resp_remote_access_errors, PacketFate::kRefused},
        {&Counters::resp_local_length_error, PacketFate::kRefused},
        {&Counters::resp_cqe_error, PacketFate::kRefused},
        {&Counters::drop_malformed, PacketFate::kDropped},
        {&Counters::rx_icrc_encapsulated, PacketFate::kDropped}};
    Counters counters;
    FateWatch watch;
    for (const auto& [counter, fate] : told) {
        watch.begin(counters, 1);
        ++(counters.*counter);
        EXPECT_EQ(watch.end(counters, 1).fate, fate);
        watch.begin(counters, 1);
        EXPECT_EQ(watch.end(counters, 1).fate, PacketFate::kDelivered);
    }
}

TEST(PacketFate, ADropNamesItsCounter) {
    Counters counters;
    FateWatch watch;
    watch.begin(counters, 1);
    ++counters.drop_pkey;
    const Fate fate = watch.end(counters, 1);
    EXPECT_EQ(fate.fate, PacketFate::kDropped);
    EXPECT_EQ(abi::kPacketDrops[fate.drop], "drop_pkey");
}

TEST(PacketFate, APacketThatIsHeldIsEarly) {
    Counters counters;
    FateWatch watch;
    watch.begin(counters, 1);
    EXPECT_EQ(watch.end(counters, 2).fate, PacketFate::kEarlyKept);
    watch.begin(counters, 1);
    ++counters.out_of_seq_request;
    EXPECT_EQ(watch.end(counters, 2).fate, PacketFate::kEarlyKept);
}

TEST(PacketFate, WhatIsCountedBetweenPacketsIsNotTheNextOnes) {
    Counters counters;
    FateWatch watch;
    watch.begin(counters, 1);
    EXPECT_EQ(watch.end(counters, 1).fate, PacketFate::kDelivered);
    ++counters.resp_cqe_error;
    ++counters.drop_qkey;
    watch.begin(counters, 1);
    EXPECT_EQ(watch.end(counters, 1).fate, PacketFate::kDelivered);
}

TEST(PacketFate, AnotherRnicHasCountersOfItsOwn) {
    Counters one;
    Counters other;
    FateWatch watch;
    ++one.duplicate_request;  // the same sum in both
    ++other.out_of_seq_request;
    for (int i = 0; i < 2; ++i) {
        watch.begin(one, 1);
        EXPECT_EQ(watch.end(one, 1).fate, PacketFate::kDelivered);
        watch.begin(other, 1);
        ++other.duplicate_request;
        EXPECT_EQ(watch.end(other, 1).fate, PacketFate::kDuplicate);
        ++one.duplicate_request;
    }
}

}  // namespace
}  // namespace urnic
