// Children: what they see of registered memory, what they can do to their parent, and that they can register
// memory of their own. Other users: registering without privileges.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <atomic>
#include <string>
#include <thread>

#include "support.h"
#include "verbs_provider/memory/userfault.h"

namespace urnic::memory {
namespace {

constexpr std::uint64_t kLarge = 40ULL << 20U;  // more than is copied at fork

/// Memory that parent and child share on purpose, to tell each other how far they are.
struct Steps {
    std::atomic<int> parent{0}, child{0};
};

class Fork : public testing::TestWithParam<std::uint64_t> {
  protected:
    void SetUp() override { area_.fill(1); }
    Area area_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Sizes, Fork, testing::Values(4 * kPageBytes, kLarge),
                         [](const auto& info) { return info.param == kLarge ? "Large" : "Small"; });

void wait_for(const std::atomic<int>& step) {
    while (step == 0) {
        ::usleep(1000);
    }
}

TEST_P(Fork, WhatTheChildWritesDoesNotReachTheParent) {
    const Registration registration = convert(area_.address(), area_.size(), true);
    ASSERT_TRUE(registration.converted);
    EXPECT_TRUE(in_child([&] {
        const bool as_before = area_.holds(1);
        std::memset(area_.data(), 'c', area_.size());
        return as_before;
    }));
    EXPECT_TRUE(area_.holds(1));
    release(registration);
    EXPECT_TRUE(area_.holds(1));
}

TEST_P(Fork, WhatTheParentWritesLaterDoesNotReachTheChild) {
    const Area shared(kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
    auto* steps = new (shared.data()) Steps;
    const Registration registration = convert(area_.address(), area_.size(), true);
    ASSERT_TRUE(registration.converted);
    const pid_t child = ::fork();
    if (child == 0) {
        wait_for(steps->parent);
        // The first and the last page may hold other things than the buffer, so they are the child's own in
        // any case.
        const bool own = area_[100] == static_cast<char>(1 + 100) && area_[area_.size() - 1] != 'p';
        ::_exit(own ? 0 : 1);
    }
    area_[100] = 'p';
    area_[area_.size() - 1] = 'p';
    steps->parent = 1;
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(area_[100], 'p');
    release(registration);
}

TEST_P(Fork, TheChildRegistersMemoryInAFileOfItsOwn) {
    const Registration of_parent = convert(area_.address(), area_.size(), true);
    ASSERT_TRUE(of_parent.converted);
    struct stat parents {};
    ASSERT_EQ(::fstat(memory_file(), &parents), 0);
    EXPECT_TRUE(in_child([&] {
        release(of_parent);  // a dereg_mr of what the parent has registered
        struct stat mine {};
        const Area fresh(3 * kPageBytes);
        fresh.fill(2);
        const Registration registration = convert(fresh.address(), fresh.size(), true);
        const Registration inherited = convert(area_.address(), area_.size(), true);
        // Too large to be copied at fork: the daemon copies.
        const bool inherited_converts = area_.size() != kLarge;
        bool good = registration.converted && inherited.error == 0 &&
                    inherited.converted == inherited_converts && ::fstat(memory_file(), &mine) == 0 &&
                    mine.st_ino != parents.st_ino;
        {
            const DaemonView view(fresh.address(), fresh.size());
            view[5] = 'v';
            good = good && fresh[5] == 'v';
        }
        release(registration);
        release(inherited);
        return good && fresh[5] == 'v' && area_.holds(1);
    }));
    const DaemonView view(area_.address(), area_.size());
    view[7] = 'w';
    EXPECT_EQ(area_[7], 'w') << "the parent's registration must have survived the fork";
    area_[7] = static_cast<char>(1 + 7);
    release(of_parent);
    EXPECT_TRUE(area_.holds(1));
}

TEST_P(Fork, GrandchildrenToo) {
    const Registration registration = convert(area_.address(), area_.size(), true);
    ASSERT_TRUE(registration.converted);
    EXPECT_TRUE(in_child([&] {
        const Registration mine = convert(area_.address(), kPageBytes, true);
        const bool good = in_child([&] {
            const bool as_before = area_.holds(1);
            std::memset(area_.data(), 'g', area_.size());
            return as_before;
        });
        release(mine);
        return good && area_.holds(1);
    }));
    EXPECT_TRUE(area_.holds(1));
    release(registration);
}

TEST_P(Fork, WithForkInitMemoryIsKeptFromTheChildAndComesBackWhole) {
    // What libibverbs does around registrations once ibv_fork_init() was called.
    ASSERT_EQ(::madvise(area_.data(), 2 * kPageBytes, MADV_DONTFORK), 0);
    const Registration registration = convert(area_.address(), 2 * kPageBytes, true);
    ASSERT_TRUE(registration.converted);
    EXPECT_TRUE(in_child([] { return true; }));
    release(registration);
    ASSERT_EQ(::madvise(area_.data(), 2 * kPageBytes, MADV_DOFORK), 0);
    EXPECT_TRUE(area_.holds(1));
    EXPECT_TRUE(in_child([&] { return area_.holds(1); }));
    EXPECT_EQ(mappings_in(area_.range()).size(), 1U) << "the pieces must merge again";
}

TEST(ForkOfABusyProcess, GoesOnWhileOthersRegister) {
    const Area area(64 * kPageBytes);
    area.fill(3);
    std::atomic<bool> stop{false};
    std::atomic<int> rounds{0};
    std::thread registering([&] {
        while (!stop) {
            const Registration registration = convert(area.address(), area.size(), true);
            release(registration);
            ++rounds;
        }
    });
    for (int i = 0; i < 20; ++i) {
        const int before = rounds;
        EXPECT_TRUE(in_child([&] { return area.holds(3); }));
        while (rounds == before) {
            ::usleep(100);
        }
    }
    stop = true;
    registering.join();
    EXPECT_TRUE(area.holds(3));
}

/// In a child that has given up root.
bool as_nobody(const std::function<bool()>& body) {
    return in_child([&] {
        if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) {
            std::perror("setuid");
            return false;
        }
        apply_for_test(RegistrySettings{});  // ask again what this user may do
        return body();
    });
}

TEST(OrdinaryUser, RegistersMemory) {
    EXPECT_TRUE(as_nobody([] {
        const Area area(100 * kPageBytes);
        area.fill(6);
        const Registration registration = convert(area.address() + 10, area.size() - 20, true);
        if (!registration.converted) {
            std::fprintf(stderr, "not converted, error %d\n", registration.error);
            return false;
        }
        bool good = area.holds(6);
        {
            const DaemonView view(area.address(), area.size());
            view[11] = 'v';
            good = good && area[11] == 'v';
        }
        release(registration);
        return good && area[11] == 'v' && !mappings_in(area.range())[0].shared && memory_file_bytes() == 0;
    }));
}

TEST(OrdinaryUser, StoppedWritersGoOn) {
    EXPECT_TRUE(as_nobody([] {
        const Area area(64 * kPageBytes);
        auto* word = reinterpret_cast<volatile std::uint64_t*>(area.data() + 33 * kPageBytes);
        std::atomic<bool> stop{false};
        std::atomic<bool> has_begun{false};
        std::uint64_t written = 0;
        std::thread writer([&] {
            while (!stop) {
                *word = *word + 1;
                ++written;
                has_begun = true;
            }
        });
        while (!has_begun) {
            ::usleep(100);
        }
        for (int i = 0; i < 200; ++i) {
            release(convert(area.address(), area.size(), true));
        }
        stop = true;
        writer.join();
        return *word == written && written > 0;
    }));
}

TEST(Limits, FileSizeLimitMakesMemoryCopied) {
    EXPECT_TRUE(in_child([] {
        rlimit limit{1 << 20, 1 << 20};
        if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) {
            return false;
        }
        const Area area(2 * kPageBytes);
        const Registration registration = convert(area.address(), area.size(), true);
        return registration.error == 0 && !registration.converted && memory_file() == -EFBIG;
    }));
}

TEST(Limits, FileSizeLimitSetLaterMakesMemoryCopied) {
    EXPECT_TRUE(in_child([] {
        const Area area(4 * kPageBytes);
        area.fill(1);
        const Registration before = convert(area.address(), kPageBytes, true);
        rlimit limit{1 << 20, 1 << 20};
        if (!before.converted || ::setrlimit(RLIMIT_FSIZE, &limit) != 0) {
            return false;
        }
        const Registration after = convert(area.address() + kPageBytes, kPageBytes, true);
        release(before);
        return after.error == 0 && !after.converted && area.holds(1);
    }));
}

TEST(Limits, NoDescriptorsLeftMakesMemoryCopied) {
    EXPECT_TRUE(in_child([] {
        rlimit limit{3, 3};
        if (memory_file() < 0 || ::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
            return false;
        }
        const Area area(2 * kPageBytes);
        area.fill(1);
        const Registration registration = convert(area.address(), area.size(), true);
        return registration.error == 0 && !registration.converted && area.holds(1);
    }));
}

TEST(Limits, LittleAddressSpaceMakesMemoryCopied) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the sanitizers' shadow alone exceeds any such limit";
#endif
    EXPECT_TRUE(in_child([] {
        const Area area(2 * kPageBytes);
        area.fill(1);
        rlimit limit{512 << 20, 512 << 20};
        if (::setrlimit(RLIMIT_AS, &limit) != 0) {
            return false;
        }
        const Registration registration = convert(area.address(), area.size(), true);
        return registration.error == 0 && !registration.converted && area.holds(1);
    }));
}

TEST(Descriptors, ClosedByTheApplicationAreNotMistaken) {
    EXPECT_TRUE(in_child([] {
        const Area area(4 * kPageBytes);
        area.fill(1);
        const Registration before = convert(area.address(), kPageBytes, true);
        const int fd = memory_file();
        char path[] = "/tmp/urnic_memory_test_XXXXXX";
        const int other = ::mkstemp(path);
        ::unlink(path);
        if (!before.converted || other < 0 || ::dup2(other, fd) != fd) {
            return false;
        }
        const Registration after = convert(area.address() + kPageBytes, kPageBytes, true);
        release(before);
        struct stat status {};
        return after.error == 0 && !after.converted && area.holds(1) && ::fstat(other, &status) == 0 &&
               status.st_size == 0 && memory_file() == -EBADF;
    }));
}

TEST(Descriptors, AllClosedByTheApplicationAreNotMissed) {
    // What watches the pages is made again; only the memory file, which the daemon holds, cannot be.
    EXPECT_TRUE(in_child([] {
        const Area area(4 * kPageBytes);
        area.fill(1);
        const Registration before = convert(area.address(), area.size(), true);
        const int file = memory_file();
        if (!before.converted || file < 3) {
            return false;
        }
        for (int fd = 3; fd < 100; ++fd) {
            if (fd != file) {
                ::close(fd);
            }
        }
        const UserfaultSupport support = probe_userfault();
        Userfault applications;  // gets the number that ours had
        if (!applications.open(support)) {
            return false;
        }
        release(before);
        return area.holds(1) && !mappings_in(area.range())[0].shared && memory_file_bytes() == 0 &&
               applications.watch_writes(area.range()) == 0 && applications.forget(area.range()) == 0;
    }));
}

TEST(Descriptors, TheMemoryFileIsSealed) {
    const int seals = ::fcntl(memory_file(), F_GET_SEALS);
    EXPECT_EQ(seals & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    EXPECT_NE(::fcntl(memory_file(), F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_NE(::ftruncate(memory_file(), 4096), 0);
}

}  // namespace
}  // namespace urnic::memory
