// Doorbell memory that a client fills as it likes.
#include "dataplane/worker/client_doorbells.h"

#include <gtest/gtest.h>

#include <memory>

namespace urnic::dataplane {
namespace {

TEST(ClientDoorbellsTest, ARoundLooksAtAFewWordsAndTheNextGoesOnThere) {
    const auto bell = std::make_unique<abi::WorkerDoorbell>();
    for (std::atomic<std::uint64_t>& word : bell->words) {
        word.store(~0ULL);
    }
    for (std::atomic<std::uint64_t>& word : bell->summary) {
        word.store(~0ULL);
    }
    UserShare user;
    ClientDoorbells client(bell.get(), -1, user);
    QpSlot slot;
    auto spare = std::make_unique<SlotTable::Page>();
    client.set(abi::kDoorbellSlots - 1, slot, spare);
    std::uint32_t rounds = 0;
    std::uint32_t rung = 0;
    // All the other bits are of no QP.
    while (client.scan([&](const QpSlot& of) { rung += &of == &slot ? 1 : 0; })) {
        ++rounds;
    }
    EXPECT_EQ(rung, 1U);
    EXPECT_EQ(rounds, abi::kDoorbellSlots / 64 / ClientDoorbells::kWordsPerRound);
}

}  // namespace
}  // namespace urnic::dataplane
