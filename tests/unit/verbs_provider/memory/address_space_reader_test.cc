#include "verbs_provider/memory/address_space_reader.h"

#include <pthread.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "support.h"

namespace urnic::memory {
namespace {

constexpr Range kEverything{0, 1ULL << 47U};

TEST(AddressSpace, BothWaysOfReadingAgree) {
    // Unlike neighbours, so that each is a mapping of its own.
    const Area area(4 * kPageBytes);
    ASSERT_EQ(::mprotect(area.data(), kPageBytes, PROT_READ), 0);
    AddressSpaceReader query;
    AddressSpaceReader text;
    text.set_text_only(true);
    Mappings from_query, from_text;
    const Range range{area.address() - kPageBytes, area.address() + 5 * kPageBytes};
    ASSERT_EQ(query.read_mappings(range, from_query), 0);
    ASSERT_EQ(text.read_mappings(range, from_text), 0);
    ASSERT_EQ(from_query.size(), 4U);
    ASSERT_EQ(from_query.size(), from_text.size());
    for (std::size_t i = 0; i < from_query.size(); ++i) {
        EXPECT_EQ(from_query[i].range, from_text[i].range);
        EXPECT_EQ(from_query[i].protection, from_text[i].protection);
        EXPECT_EQ(from_query[i].shared, from_text[i].shared);
        EXPECT_EQ(from_query[i].inode, from_text[i].inode);
    }
    EXPECT_EQ(from_query[1].protection, PROT_READ);
}

TEST(AddressSpace, KnowsStacksFilesAndTheKernelsOwn) {
    for (const bool text_only : {false, true}) {
        AddressSpaceReader reader;
        reader.set_text_only(text_only);
        Mappings mappings;
        ASSERT_EQ(reader.read_mappings(kEverything, mappings), 0);
        int stacks = 0, specials = 0, files = 0;
        for (const VmArea& mapping : mappings) {
            stacks += static_cast<int>(mapping.is_stack);
            specials += static_cast<int>(mapping.is_special);
            files += static_cast<int>(mapping.inode != 0);
        }
        EXPECT_EQ(stacks, 1) << "text_only " << text_only;
        EXPECT_GE(specials, 1) << "no [vdso]; text_only " << text_only;
        EXPECT_GE(files, 3) << "text_only " << text_only;
    }
}

TEST(AddressSpace, FindsTheControlBlockOfEachThread) {
    std::mutex lock;
    std::condition_variable changed;
    bool done = false;
    std::uint64_t other = 0;
    std::thread thread([&] {
        std::unique_lock guard(lock);
        other = static_cast<std::uint64_t>(pthread_self());
        changed.notify_all();
        changed.wait(guard, [&] { return done; });
    });
    {
        std::unique_lock guard(lock);
        changed.wait(guard, [&] { return other != 0; });
    }
    ThreadBlocks blocks;
    ASSERT_EQ(AddressSpaceReader::read_thread_blocks(blocks), 0);
    const auto main_block = static_cast<std::uint64_t>(pthread_self());
    int found = 0;
    for (const ThreadBlock& block : blocks) {
        const auto contains = [&](std::uint64_t at) {
            return at <= block.inside && block.inside < at + 2304;
        };
        found += static_cast<int>(block.is_main && contains(main_block));
        found += static_cast<int>(!block.is_main && contains(other));
    }
    EXPECT_EQ(found, 2);
    {
        const std::lock_guard guard(lock);
        done = true;
    }
    changed.notify_all();
    thread.join();
}

}  // namespace
}  // namespace urnic::memory
