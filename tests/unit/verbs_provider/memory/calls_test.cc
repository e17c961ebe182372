// System calls of the program's own on registered memory: each must do what it does to private anonymous
// memory. Whatever can be is done to two areas, of which one is registered, and compared.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <malloc.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "calls.h"

namespace urnic::memory {
namespace {

constexpr int kDontneedLockedAdvice = 24, kGuardInstallAdvice = 102;

INSTANTIATE_TEST_SUITE_P(Kernels, CallsTest, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "AsDebian12" : "ThisOne"; });

struct Outcome {
    int result = 0;
    int error = 0;
    std::string content;  // a letter for each page: 0 zeros, k kept, ? something else
    bool operator==(const Outcome&) const = default;
};
std::ostream& operator<<(std::ostream& to, const Outcome& outcome) {
    return to << outcome.result << " errno " << outcome.error << " pages " << outcome.content;
}

Outcome outcome_of(const Area& area, std::size_t first, std::size_t bytes, int advice, bool unmapped_hole) {
    area.fill(1);
    const Pattern pattern;
    if (unmapped_hole) {
        ::munmap(area.data() + 4 * kPageBytes, kPageBytes);
    }
    errno = 0;
    Outcome outcome;
    outcome.result = give_advice(area.data() + first, bytes, advice);
    outcome.error = outcome.result == 0 ? 0 : errno;
    for (std::size_t page = 0; page < area.size() / kPageBytes; ++page) {
        const char* at = area.data() + page * kPageBytes;
        if (unmapped_hole && page == 4) {
            outcome.content += '.';
        } else {
            outcome.content += is_zero(at, kPageBytes)                                   ? '0'
                               : std::memcmp(at, pattern.page(1, page), kPageBytes) == 0 ? 'k'
                                                                                         : '?';
        }
    }
    return outcome;
}

struct Request {
    std::size_t first, bytes;
    bool hole;
};
constexpr Request kRequests[] = {
    {0, 8 * kPageBytes, false},
    {2 * kPageBytes, 3 * kPageBytes, false},
    {kPageBytes, 1, false},
    {kPageBytes, kPageBytes + 1, false},
    {100, kPageBytes, false},
    {kPageBytes, 0, false},
    {0, 8 * kPageBytes, true},
    {6 * kPageBytes, 2 * kPageBytes, false},
    {kPageBytes, ~std::size_t{0}, false},
};

void compare(int advice, std::size_t registered_first, std::size_t registered_bytes, bool locked) {
    for (const Request& request : kRequests) {
        SCOPED_TRACE("advice " + std::to_string(advice) + " at " + std::to_string(request.first) + ", " +
                     std::to_string(request.bytes) + (request.hole ? " with a hole" : "") +
                     (locked ? " locked" : ""));
        const LowArea plain(0), registered(1);
        registered.fill(1);
        const Registered registration(registered.data() + registered_first, registered_bytes);
        for (const LowArea* area : {&plain, &registered}) {
            ASSERT_EQ(locked ? ::mlock(area->data() + 3 * kPageBytes, kPageBytes) : 0, 0);
        }
        const Outcome expected = outcome_of(plain, request.first, request.bytes, advice, request.hole);
        EXPECT_EQ(outcome_of(registered, request.first, request.bytes, advice, request.hole), expected);
    }
}

void compare_all(int advice) {
    compare(advice, 0, 8 * kPageBytes, false);
    compare(advice, 2 * kPageBytes, 2 * kPageBytes, false);
    compare(advice, 0, 8 * kPageBytes, true);
}

TEST_P(CallsTest, DontneedGivesZeros) { compare_all(MADV_DONTNEED); }
TEST_P(CallsTest, DontneedGivesZerosOfLockedMemoryIfAsked) { compare_all(kDontneedLockedAdvice); }
TEST_P(CallsTest, RemoveIsForFiles) { compare_all(MADV_REMOVE); }
TEST_P(CallsTest, OtherAdviceKeepsTheContent) {
    for (const int advice :
         {MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_DONTFORK, MADV_DOFORK, MADV_HUGEPAGE,
          MADV_NOHUGEPAGE, MADV_MERGEABLE, MADV_UNMERGEABLE, MADV_DONTDUMP, MADV_DODUMP, MADV_WIPEONFORK,
          MADV_KEEPONFORK, MADV_COLD, MADV_PAGEOUT, MADV_POPULATE_READ, MADV_POPULATE_WRITE, 12345}) {
        compare_all(advice);
    }
}

TEST_P(CallsTest, FreedMemoryReadsAsZerosOrAsItWas) {
    const Area area(8 * kPageBytes);
    const Registered registration(area.data() + 2 * kPageBytes, 4 * kPageBytes);
    area.fill(1);
    ASSERT_EQ(give_advice(area.data(), area.size(), MADV_FREE), 0) << std::strerror(errno);
    const Pattern pattern;
    for (std::size_t page = 0; page < 8; ++page) {
        const char* at = area.data() + page * kPageBytes;
        EXPECT_TRUE(is_zero(at, kPageBytes) || std::memcmp(at, pattern.page(1, page), kPageBytes) == 0);
    }
    area.fill(4);
    EXPECT_TRUE(area.holds(4)) << "what is written afterwards stays";
}

TEST_P(CallsTest, DiscardedPagesAreTheSameForTheDaemonAfterwards) {
    const Area area(4 * kPageBytes);
    area.fill(1);
    const Registered registration(area.data(), area.size());
    const DaemonView view(area.address(), area.size());
    ASSERT_EQ(give_advice(area.data() + kPageBytes, 2 * kPageBytes, MADV_DONTNEED), 0);
    EXPECT_TRUE(is_zero(view.data() + kPageBytes, 2 * kPageBytes));
    view[kPageBytes + 7] = 'd';
    EXPECT_EQ(area[kPageBytes + 7], 'd');
    area[2 * kPageBytes] = 'a';
    EXPECT_EQ(view[2 * kPageBytes], 'a');
    EXPECT_LE(memory_file_bytes(), 4 * kPageBytes);
}

TEST_P(CallsTest, DiscardedPagesStayDiscardedWhenTheyComeHome) {
    const Area area(4 * kPageBytes);
    area.fill(1);
    Registered registration(area.data(), area.size());
    ASSERT_EQ(give_advice(area.data() + kPageBytes, 2 * kPageBytes, MADV_DONTNEED), 0);
    registration.end();
    EXPECT_TRUE(is_zero(area.data() + kPageBytes, 2 * kPageBytes));
    EXPECT_FALSE(is_zero(area.data(), kPageBytes));
}

TEST_P(CallsTest, ReadOnlyPagesAreDiscardedToo) {
    const Area area(4 * kPageBytes);
    area.fill(1);
    const Registered registration(area.data(), area.size());
    ASSERT_EQ(::mprotect(area.data(), area.size(), PROT_READ), 0);
    ASSERT_EQ(give_advice(area.data(), area.size(), MADV_DONTNEED), 0);
    EXPECT_TRUE(is_zero(area.data(), area.size()));
}

TEST_P(CallsTest, DontneedOfTheProgramsOwnSharedMemoryKeepsIt) {
    const Area shared(2 * kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
    const Area area(2 * kPageBytes);
    const Registered registration(area.data(), area.size());
    shared.fill(1);
    ASSERT_EQ(give_advice(shared.data(), shared.size(), MADV_DONTNEED), 0);
    EXPECT_TRUE(shared.holds(1));
}

TEST_P(CallsTest, AfterTheDescriptorIsGonePagesAreDiscardedStill) {
    EXPECT_TRUE(in_child([] {
        const Area area(2 * kPageBytes);
        area.fill(1);
        const Registered registration(area.data(), area.size());
        ::close(memory_file());
        return give_advice(area.data(), area.size(), MADV_DONTNEED) == 0 &&
               is_zero(area.data(), area.size()) && !testing::Test::HasFailure();
    }));
}

/// Another thread registers and deregisters what is discarded.
TEST_P(CallsTest, DiscardedWhilePagesMove) {
    const Area area(16 * kPageBytes);
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> rounds{0};
    std::thread mover([&] {
        while (!stop) {
            const Registration registration = convert(area.address(), area.size(), true);
            release(registration);
            ++rounds;
        }
    });
    int kept = 0;
    for (int i = 0; i < 300 || rounds < 300; ++i) {
        area.fill(static_cast<char>(i));
        ASSERT_EQ(give_advice(area.data(), area.size(), i % 2 == 0 ? MADV_DONTNEED : MADV_FREE), 0);
        kept += i % 2 == 0 && !is_zero(area.data(), area.size()) ? 1 : 0;
    }
    stop = true;
    mover.join();
    EXPECT_EQ(kept, 0);
}

/// The lock of an allocator that was loaded before us: in fork() its handler is the last to prepare, when
/// ours has run.
struct AllocatorsLock {
    AllocatorsLock() { ::pthread_atfork(lock, unlock, unlock); }
    static void lock() {
        if (in_use) {
            mutex.lock();
        }
    }
    static void unlock() {
        if (in_use) {
            mutex.unlock();
        }
    }
    static inline std::mutex mutex;
    static inline bool in_use = false;
} allocators_lock;

/// fork() takes an allocator's locks, which a thread may hold that calls madvise().
TEST_P(CallsTest, AdviceDoesNotWaitForFork) {
    AllocatorsLock::in_use = true;
    const Area area(4 * kPageBytes);
    const Registered registration(area.data(), area.size());
    std::atomic<bool> stop{false};
    std::thread purger([&] {
        while (!stop) {
            const std::lock_guard guard(AllocatorsLock::mutex);
            give_advice(area.data(), area.size(), MADV_DONTNEED);
        }
    });
    for (int i = 0; i < 50; ++i) {
        EXPECT_TRUE(in_child([&] { return give_advice(area.data(), area.size(), MADV_DONTNEED) == 0; }));
    }
    stop = true;
    purger.join();
    AllocatorsLock::in_use = false;
}

TEST_P(CallsTest, AChildDiscardsItsOwn) {
    // More than is copied at once at fork.
    const Area area(40UL << 20U);
    area.fill(1);
    const Registered registration(area.data(), area.size());
    EXPECT_TRUE(in_child([&] {
        const char* middle = area.data() + (20UL << 20U);
        const bool works = give_advice(middle, 3 * kPageBytes, MADV_DONTNEED) == 0 &&
                           is_zero(middle, 3 * kPageBytes) && middle[3 * kPageBytes] != 0 &&
                           give_advice(middle, 4 * kPageBytes, MADV_FREE) == 0;
        return works && in_child([&] {
                   const char* next = area.data() + (30UL << 20U);
                   return give_advice(next, kPageBytes, MADV_DONTNEED) == 0 && is_zero(next, kPageBytes);
               });
    }));
    EXPECT_TRUE(area.holds(1));
}

TEST_P(CallsTest, WipedOnForkWhileRegistered) {
    const Area area(4 * kPageBytes);
    area.fill(1);
    Registered registration(area.data(), area.size());
    ASSERT_EQ(give_advice(area.data() + kPageBytes, 2 * kPageBytes, MADV_WIPEONFORK), 0);
    const auto child_sees = [&](std::size_t page) {
        return in_child([&] { return is_zero(area.data() + page * kPageBytes, kPageBytes); });
    };
    EXPECT_FALSE(child_sees(0));
    EXPECT_TRUE(child_sees(1));
    ASSERT_EQ(give_advice(area.data() + 2 * kPageBytes, kPageBytes, MADV_KEEPONFORK), 0);
    EXPECT_FALSE(child_sees(2));
    EXPECT_TRUE(area.holds(1));
    registration.end();
    EXPECT_TRUE(child_sees(1)) << "and so it stays when the memory is private again";
    EXPECT_FALSE(child_sees(2));
}

TEST_P(CallsTest, ProcessAdviceOnesOwn) {
    const int self = static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0));
    ASSERT_GE(self, 0);
    const auto by_kernel = [](int pidfd, const iovec* ranges, std::size_t count, int advice, unsigned flags) {
        return static_cast<ssize_t>(::syscall(SYS_process_madvise, pidfd, ranges, count, advice, flags));
    };
    const Area plain(8 * kPageBytes), registered(8 * kPageBytes);
    const Registered registration(registered.data() + kPageBytes, 4 * kPageBytes);
    for (const int advice : {MADV_DONTNEED, MADV_COLD, MADV_REMOVE}) {
        ssize_t results[2];
        for (const Area* area : {&plain, &registered}) {
            area->fill(1);
            const iovec ranges[] = {{area->data(), 2 * kPageBytes},
                                    {area->data() + 4 * kPageBytes, 2 * kPageBytes}};
            results[area == &plain ? 0 : 1] = process_advise(self, ranges, 2, advice, 0, by_kernel);
        }
        EXPECT_EQ(results[0], results[1]) << advice;
        EXPECT_EQ(std::memcmp(plain.data(), registered.data(), plain.size()), 0) << advice;
    }
    ::close(self);
}

TEST_P(CallsTest, GuardsAreInstalledWhereThePageWas) {
    const Area plain(2 * kPageBytes), registered(2 * kPageBytes);
    const Registered registration(registered.data(), registered.size());
    constexpr int kGuardRemoveAdvice = 103;
    for (const Area* area : {&plain, &registered}) {
        area->fill(1);
        if (give_advice(area->data(), kPageBytes, kGuardInstallAdvice) != 0) {
            EXPECT_EQ(errno, EINVAL) << "before Linux 6.13; for files before 6.15";
            continue;
        }
        EXPECT_FALSE(in_child([&] { return area->data()[0] == 1; })) << "a guard is there";
        EXPECT_EQ(give_advice(area->data(), kPageBytes, kGuardRemoveAdvice), 0);
        EXPECT_TRUE(is_zero(area->data(), kPageBytes));
    }
}

// A userfaultfd of the program's own, as a hypervisor has that receives its guest's memory late.

struct UserfaultMessages {
    int fd;
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> served{0};
    int refused = 0;
};

void serve_missing_pages(UserfaultMessages& messages, Range range) {
    std::vector<char> page(2 * kPageBytes);
    char* content = page.data() + (kPageBytes - address_of(page.data()) % kPageBytes);
    while (!messages.stop) {
        pollfd readable{messages.fd, POLLIN, 0};
        uffd_msg message{};
        if (::poll(&readable, 1, 20) != 1 ||
            ::read(messages.fd, &message, sizeof(message)) != sizeof(message)) {
            continue;
        }
        const std::uint64_t at = page_floor(message.arg.pagefault.address);
        std::memset(content, 'p', kPageBytes);
        uffdio_copy copy{at, address_of(content), kPageBytes, 0, 0};
        if (::ioctl(messages.fd, UFFDIO_COPY, &copy) != 0) {
            messages.refused = errno;
            uffdio_range all{range.start, range.end - range.start};
            ::ioctl(messages.fd, UFFDIO_UNREGISTER, &all);
            return;
        }
        ++messages.served;
    }
}

TEST_P(CallsTest, PagesForAUserfaultfdAreMissing) {
    const Area area(64 * kPageBytes);
    area.fill(1);
    Registered registration(area.data() + 8 * kPageBytes, 40 * kPageBytes);
    UserfaultMessages messages{
        static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY))};
    ASSERT_GE(messages.fd, 0);
    uffdio_api api{UFFD_API, 0, 0};
    ASSERT_EQ(::ioctl(messages.fd, UFFDIO_API, &api), 0);
    ASSERT_EQ(give_advice(area.data(), area.size(), MADV_DONTNEED), 0);
    uffdio_register request{{area.address(), area.size()}, UFFDIO_REGISTER_MODE_MISSING, 0};
    ASSERT_EQ(::ioctl(messages.fd, UFFDIO_REGISTER, &request), 0) << std::strerror(errno);
    EXPECT_NE(request.ioctls & (1ULL << _UFFDIO_COPY), 0U);
    std::thread server([&] { serve_missing_pages(messages, area.range()); });
    std::size_t wrong = 0;
    for (std::size_t page = 0; page < 64 && messages.refused == 0; ++page) {
        wrong += area[page * kPageBytes + 5] == 'p' ? 0 : 1;
    }
    messages.stop = true;
    server.join();
    EXPECT_EQ(wrong, 0U) << "pages were there already";
    EXPECT_EQ(messages.refused, 0) << std::strerror(messages.refused);
    EXPECT_EQ(messages.served, 64U);
    // Deregistering under its eyes leaves the pages where they are, whole.
    registration.end();
    EXPECT_EQ(area[20 * kPageBytes], 'p');
    ASSERT_EQ(give_advice(area.data(), area.size(), MADV_DONTNEED), 0);
    ::close(messages.fd);
    EXPECT_TRUE(is_zero(area.data(), area.size()));
    // Its pages go home with the next registration.
    Registered(area.data(), area.size()).end();
}

}  // namespace
}  // namespace urnic::memory
