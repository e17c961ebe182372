// Device memory: what is refused, what a child has of it, and that it goes whole.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "tests/e2e/verbs/endpoint.h"

namespace urnic::e2e {
namespace {

class DeviceMemory : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_NE(context_, nullptr);
        ibv_device_attr_ex device{};
        ASSERT_EQ(ibv_query_device_ex(context_.get(), nullptr, &device), 0);
        most_ = device.max_dm_size;
    }
    ibv_dm* alloc(std::size_t length, std::uint32_t log_align = 0, std::uint32_t comp_mask = 0) const {
        ibv_alloc_dm_attr attr{};
        attr.length = length;
        attr.log_align_req = log_align;
        attr.comp_mask = comp_mask;
        errno = 0;
        return ibv_alloc_dm(context_.get(), &attr);
    }

    Context context_ = open_device("urnic0");
    std::size_t most_ = 0;
};

TEST_F(DeviceMemory, WhatCannotBeAllocated) {
    const auto refused = [&](std::size_t length, std::uint32_t log_align, std::uint32_t comp_mask) {
        EXPECT_EQ(alloc(length, log_align, comp_mask), nullptr);
        EXPECT_EQ(errno, EINVAL);
    };
    refused(0, 0, 0);
    refused(most_ + 1, 0, 0);
    refused(4096, 13, 0);
    refused(4096, 0, 1);
    ibv_dm* dm = alloc(4096, 12);
    ASSERT_NE(dm, nullptr) << "pages are aligned to pages";
    EXPECT_EQ(ibv_free_dm(dm), 0);
}

TEST_F(DeviceMemory, CopiesStayInside) {
    constexpr std::size_t kLength = 100;
    ibv_dm* dm = alloc(kLength);
    ASSERT_NE(dm, nullptr);
    char bytes[128] = "what lies in it";
    struct {
        std::uint64_t offset;
        std::size_t length;
        int expected;
    } const copies[] = {{0, 100, 0},
                        {96, 4, 0},
                        {100, 0, 0},
                        {0, 3, EFAULT},
                        {1, 4, EFAULT},
                        {4, 100, EFAULT},
                        {100, 4, EFAULT},
                        {104, 0, EFAULT},
                        {~0ULL - 3, 4, EFAULT},
                        {0, 104, EFAULT},
                        {1ULL << 40U, 4, EFAULT}};
    for (const auto& copy : copies) {
        SCOPED_TRACE(copy.offset);
        EXPECT_EQ(ibv_memcpy_to_dm(dm, copy.offset, bytes, copy.length), copy.expected);
        EXPECT_EQ(ibv_memcpy_from_dm(bytes, dm, copy.offset, copy.length), copy.expected);
    }
    EXPECT_EQ(ibv_free_dm(dm), 0);
}

TEST_F(DeviceMemory, LeavesNoMappingBehind) {
    const auto mappings = [] {
        std::ifstream maps("/proc/self/maps");
        std::size_t count = 0;
        for (std::string line; std::getline(maps, line);) ++count;
        return count;
    };
    const std::size_t before = mappings();
    for (int i = 0; i < 100; ++i) {
        ibv_dm* dm = alloc(5000);
        ASSERT_NE(dm, nullptr);
        ASSERT_EQ(ibv_free_dm(dm), 0);
    }
    EXPECT_LT(mappings(), before + 20);
}

// With the context it has from its parent; more than there may be contexts.
TEST_F(DeviceMemory, AChildHasItsOwn) {
    const pid_t child = ::fork();
    if (child == 0) {
        for (int i = 0; i < 100; ++i) {
            ibv_dm* dm = alloc(4096);
            int word = i;
            if (dm == nullptr || ibv_memcpy_to_dm(dm, 0, &word, sizeof word) != 0) _exit(1);
            if (ibv_free_dm(dm) != 0) _exit(2);
        }
        _exit(0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace urnic::e2e
