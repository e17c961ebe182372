#include "rnic/device/address_handles.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace urnic {
namespace {

TEST(AddressHandles, AHandleIsFoundByItsKeyUntilItIsRemoved) {
    AddressHandles handles;
    const std::uint32_t first = handles.add({.pd = 7});
    const std::uint32_t second = handles.add({.pd = 8, .has_flow_label = true});
    ASSERT_NE(first, 0U);
    ASSERT_NE(second, 0U);
    ASSERT_NE(handles.find(first), nullptr);
    EXPECT_EQ(handles.find(first)->pd, 7U);
    EXPECT_EQ(handles.find(second)->pd, 8U);
    EXPECT_TRUE(handles.find(second)->has_flow_label);
    EXPECT_TRUE(handles.remove(first));
    EXPECT_EQ(handles.find(first), nullptr);
    EXPECT_FALSE(handles.remove(first));
    EXPECT_EQ(handles.size(), 1U);
    EXPECT_EQ(handles.removed(), 1U);
    handles.release_removed();
    EXPECT_EQ(handles.removed(), 0U);
    EXPECT_NE(handles.find(second), nullptr);
}

TEST(AddressHandles, AnyKeyMayBeAskedFor) {
    AddressHandles handles;
    const std::uint32_t key = handles.add({});
    std::uint32_t guess = 0;
    for (int i = 0; i < 100'000; ++i) {
        guess = guess * 1664525U + 1013904223U;
        if (guess != key) {
            EXPECT_EQ(handles.find(guess), nullptr);
            EXPECT_FALSE(handles.remove(guess));
        }
    }
    for (std::uint32_t bit = 0; bit < 32; ++bit) {
        EXPECT_EQ(handles.find(key ^ 1U << bit), nullptr) << bit;
    }
    EXPECT_EQ(handles.find(0), nullptr);
}

TEST(AddressHandles, AllThatAreOfferedCanBeHadAndOneMoreCannot) {
    AddressHandles handles;
    std::set<std::uint32_t> keys;
    for (std::uint32_t i = 0; i < AddressHandles::kSlots; ++i) {
        EXPECT_TRUE(keys.insert(handles.add({.pd = i})).second);
    }
    EXPECT_EQ(keys.count(0), 0U);
    EXPECT_EQ(handles.add({}), 0U);
    // A removed handle keeps its place until no reader can hold it.
    const std::uint32_t old = *keys.begin();
    EXPECT_TRUE(handles.remove(old));
    EXPECT_EQ(handles.add({}), 0U);
    handles.release_removed();
    const std::uint32_t fresh = handles.add({.pd = 99});
    EXPECT_NE(fresh, 0U);
    EXPECT_EQ(keys.count(fresh), 0U);
    EXPECT_EQ(handles.find(old), nullptr);
    EXPECT_EQ(handles.find(fresh)->pd, 99U);
}

TEST(AddressHandles, TheOwnersOfASlotHaveDifferentKeysForLong) {
    AddressHandles handles;
    for (std::uint32_t i = 1; i < AddressHandles::kSlots; ++i) {
        ASSERT_NE(handles.add({}), 0U);
    }
    std::set<std::uint32_t> keys;
    constexpr std::uint32_t kTurns = (1U << (32U - AddressHandles::kSlotBits)) - 1;
    for (std::uint32_t turn = 0; turn < kTurns + 2; ++turn) {
        const std::uint32_t key = handles.add({});
        ASSERT_NE(key, 0U);
        EXPECT_EQ(keys.insert(key).second, turn < kTurns) << turn;
        ASSERT_TRUE(handles.remove(key));
        handles.release_removed();
    }
}

}  // namespace
}  // namespace urnic
