// What the program has asked of its memory holds while it is registered and afterwards, whenever it was
// asked.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <memory>
#include <string>

#include "calls.h"
#include "verbs_provider/memory/advised_memory.h"
#include "verbs_provider/memory/mapping_traits.h"

namespace urnic::memory {
namespace {

class TraitsTest : public CallsTest {
  protected:
    void SetUp() override {
        CallsTest::SetUp();
        use_advised_memory(&advised_);
    }
    void TearDown() override {
        use_advised_memory(nullptr);
        CallsTest::TearDown();
    }
    /// As the preloaded library does it, which is not there.
    void give_noted_advice(const void* at, std::size_t bytes, int advice) {
        advised_.note(address_of(at), bytes);
        ASSERT_EQ(give_advice(at, bytes, advice), 0);
    }
    AdvisedMemory advised_;
};

INSTANTIATE_TEST_SUITE_P(Kernels, TraitsTest, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "AsDebian12" : "ThisOne"; });

/// The sanitizers' mlock() and munlock() do nothing.
int lock(const void* at, std::size_t bytes) { return static_cast<int>(::syscall(SYS_mlock, at, bytes)); }
int unlock(const void* at, std::size_t bytes) { return static_cast<int>(::syscall(SYS_munlock, at, bytes)); }

/// "rd wr mr mw me lo ", of the mapping that the page lies in.
std::string flags_of(const void* at) {
    std::ifstream smaps("/proc/self/smaps");
    std::string line;
    bool is_there = false;
    while (std::getline(smaps, line)) {
        if (line.empty() || line.front() < 'A' || line.front() > 'Z') {
            const std::uint64_t start = std::stoull(line, nullptr, 16);
            const std::uint64_t end = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
            is_there = contains({start, end}, address_of(at));
        } else if (is_there && line.starts_with("VmFlags:")) {
            return line.substr(sizeof("VmFlags:") - 1);
        }
    }
    return "no such mapping";
}
bool has_flag(const Area& area, std::size_t page, const std::string& name) {
    return flags_of(area.data() + page * kPageBytes).find(" " + name) != std::string::npos;
}
/// Which of four pages have it: "-ll-".
std::string pages_with(const Area& area, const std::string& name) {
    std::string pages;
    for (std::size_t page = 0; page < 4; ++page) {
        pages += has_flag(area, page, name) ? name.front() : '-';
    }
    return pages;
}

/// kB that the kernel counts as locked.
std::uint64_t locked_kb() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("VmLck:")) {
            return std::stoull(line.substr(sizeof("VmLck:") - 1));
        }
    }
    return ~0ULL;
}

TEST_P(TraitsTest, LockedMemoryStaysLocked) {
    const Area area(4 * kPageBytes);
    area.fill(1);
    const std::uint64_t others_kb = locked_kb();
    ASSERT_EQ(lock(area.data() + kPageBytes, 2 * kPageBytes), 0);
    {
        const Registered registration(area.data(), area.size());
        EXPECT_EQ(pages_with(area, "lo"), "-ll-");
        EXPECT_EQ(locked_kb() - others_kb, 8U) << "what is parked must not count";
        EXPECT_TRUE(area.holds(1));
    }
    EXPECT_EQ(pages_with(area, "lo"), "-ll-");
    EXPECT_EQ(locked_kb() - others_kb, 8U);
    EXPECT_TRUE(area.holds(1));
    ASSERT_EQ(unlock(area.data(), area.size()), 0);
}

TEST_P(TraitsTest, ALockOfWhileItIsRegisteredStaysToo) {
    const Area area(4 * kPageBytes);
    area.fill(1);
    ASSERT_EQ(lock(area.data(), kPageBytes), 0);
    {
        const Registered registration(area.data(), area.size());
        ASSERT_EQ(unlock(area.data(), kPageBytes), 0);
        ASSERT_EQ(lock(area.data() + 2 * kPageBytes, 2 * kPageBytes), 0);
    }
    EXPECT_EQ(pages_with(area, "lo"), "--ll");
    EXPECT_TRUE(area.holds(1));
    ASSERT_EQ(unlock(area.data(), area.size()), 0);
}

long mbind_to_first_node(const Area& area, std::size_t page, std::size_t pages, int mode) {
    const unsigned long nodes = 1;
    return ::syscall(SYS_mbind, area.data() + page * kPageBytes, pages * kPageBytes, mode,
                     mode == MPOL_DEFAULT ? nullptr : &nodes, mode == MPOL_DEFAULT ? 0 : 64, 0);
}
/// Of four pages, in numbers: "0110".
std::string policies_of(const Area& area) {
    std::string modes;
    for (std::size_t page = 0; page < 4; ++page) {
        std::array<unsigned long, 16> nodes{};
        int mode = -1;
        EXPECT_EQ(::syscall(SYS_get_mempolicy, &mode, nodes.data(), 1024, area.data() + page * kPageBytes,
                            MPOL_F_ADDR),
                  0);
        EXPECT_EQ(nodes[0], mode == MPOL_DEFAULT ? 0U : 1U);
        modes += std::to_string(mode);
    }
    return modes;
}

TEST_P(TraitsTest, NumaPolicyStays) {
    const Area area(4 * kPageBytes);
    area.fill(1);
    if (mbind_to_first_node(area, 1, 2, MPOL_PREFERRED) != 0) {
        GTEST_SKIP() << "mbind() is not permitted here";
    }
    {
        const Registered registration(area.data(), area.size());
        EXPECT_EQ(policies_of(area), "0110");
    }
    EXPECT_EQ(policies_of(area), "0110");
    {
        const Registered registration(area.data(), area.size());
        ASSERT_EQ(mbind_to_first_node(area, 2, 2, MPOL_BIND), 0);
        EXPECT_EQ(policies_of(area), "0122");
        ASSERT_EQ(mbind_to_first_node(area, 1, 1, MPOL_DEFAULT), 0);
    }
    EXPECT_EQ(policies_of(area), "0022") << "set while it was registered";
    ASSERT_EQ(mbind_to_first_node(area, 0, 4, MPOL_DEFAULT), 0);
    const Registered registration(area.data(), area.size());
    EXPECT_EQ(policies_of(area), "0000") << "the memory file has forgotten it";
    EXPECT_TRUE(area.holds(1));
}

TEST_P(TraitsTest, UndumpedMemoryStaysOutOfCoreDumps) {
    const Area area(4 * kPageBytes);
    area.fill(1);
    give_noted_advice(area.data() + kPageBytes, 2 * kPageBytes, MADV_DONTDUMP);
    {
        const Registered registration(area.data(), area.size());
        EXPECT_EQ(pages_with(area, "dd"), "-dd-");
    }
    EXPECT_EQ(pages_with(area, "dd"), "-dd-");
    const Registered registration(area.data(), area.size());
    ASSERT_EQ(give_advice(area.data() + kPageBytes, kPageBytes, MADV_DODUMP), 0);
    EXPECT_EQ(pages_with(area, "dd"), "--d-");
}

TEST_P(TraitsTest, MemoryThatChildrenGetEmptyStaysSo) {
    const Area area(4 * kPageBytes);
    area.fill(1);
    give_noted_advice(area.data() + kPageBytes, 2 * kPageBytes, MADV_WIPEONFORK);
    const auto child_sees = [&](std::size_t page) {
        return in_child([&] { return is_zero(area.data() + page * kPageBytes, kPageBytes); });
    };
    Registered registration(area.data(), area.size());
    EXPECT_FALSE(child_sees(0));
    EXPECT_TRUE(child_sees(1));
    EXPECT_TRUE(child_sees(2));
    EXPECT_TRUE(area.holds(1));
    ASSERT_EQ(give_advice(area.data() + 2 * kPageBytes, kPageBytes, MADV_KEEPONFORK), 0);
    EXPECT_FALSE(child_sees(2));
    registration.end();
    EXPECT_TRUE(child_sees(1));
    EXPECT_FALSE(child_sees(2));
    EXPECT_TRUE(area.holds(1));
}

TEST_P(TraitsTest, AdviceOnWhatWasThereBeforeIsForgotten) {
    const Area area(4 * kPageBytes);
    give_noted_advice(area.data(), area.size(), MADV_WIPEONFORK);
    give_noted_advice(area.data(), area.size(), MADV_DONTDUMP);
    ASSERT_NE(::mmap(area.data(), area.size(), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
              MAP_FAILED);
    area.fill(1);
    const Registered registration(area.data(), area.size());
    EXPECT_EQ(pages_with(area, "dd"), "----");
    EXPECT_TRUE(in_child([&] { return area.holds(1); }));
}

TEST(AdvisedMemory, NotesWhatMayBeThere) {
    const auto advised = std::make_unique<AdvisedMemory>();
    constexpr std::uint64_t kMiB = 1ULL << 20U;
    EXPECT_FALSE(advised->may_be_in(0, ~0ULL));
    advised->note(100 * kMiB, 4 * kMiB);
    EXPECT_TRUE(advised->may_be_in(100 * kMiB, 100 * kMiB + kPageBytes));
    EXPECT_TRUE(advised->may_be_in(103 * kMiB, 103 * kMiB + kPageBytes));
    EXPECT_TRUE(advised->may_be_in(0, 200 * kMiB));
    EXPECT_FALSE(advised->may_be_in(200 * kMiB, 300 * kMiB));
    advised->note(0, 1ULL << 46U);
    EXPECT_TRUE(advised->may_be_in(200 * kMiB, 300 * kMiB));
}

}  // namespace
}  // namespace urnic::memory
