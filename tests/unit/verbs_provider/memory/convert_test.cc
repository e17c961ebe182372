// Each kind of memory a program can register, and what becomes of it. Runs on this kernel's facilities and
// again as on older kernels.
#include <fcntl.h>
#include <linux/memfd.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>

#include <string>
#include <thread>
#include <vector>

#include "abi/control.h"
#include "support.h"

namespace urnic::memory {
namespace {

struct Kernel {
    const char* name;
    RegistrySettings settings;
};

const Kernel kKernels[] = {
    {"ThisOne", {}},
    {"BeforeProcmapQuery", {.text_maps_only = true}},
    {"AsDebian12", {.text_maps_only = true, .protects_untouched = false}},
};

class Convert : public testing::TestWithParam<Kernel> {
  protected:
    void SetUp() override {
        apply_for_test(GetParam().settings);
        ASSERT_EQ(stretches_for_test(), 0U);
    }
    void TearDown() override {
        EXPECT_EQ(stretches_for_test(), 0U) << "the test left registrations behind";
        EXPECT_EQ(memory_file_bytes(), 0U) << "released pages still take memory";
        apply_for_test(RegistrySettings{});
    }

    /// Converts, checks both views in both directions, releases, checks again.
    static void expect_round_trip(char* at, std::size_t bytes) {
        const std::string before(at, bytes);
        const Registration registration = convert(address_of(at), bytes, true);
        ASSERT_EQ(registration.error, 0);
        ASSERT_TRUE(registration.converted);
        {
            const DaemonView view(address_of(at), bytes);
            EXPECT_EQ(std::string(at, bytes), before);
            EXPECT_EQ(std::string(view.data(), bytes), before);
            view[0] = 'd';
            view[bytes - 1] = 'e';
            EXPECT_EQ(at[0], bytes == 1 ? 'e' : 'd');
            EXPECT_EQ(at[bytes - 1], 'e');
            at[bytes / 2] = 'a';
            EXPECT_EQ(view[bytes / 2], 'a');
        }
        const std::string changed(at, bytes);
        release(registration);
        EXPECT_EQ(std::string(at, bytes), changed);
        for (const VmArea& mapping : mappings_in({address_of(at), address_of(at) + bytes})) {
            EXPECT_FALSE(mapping.shared);
            EXPECT_EQ(mapping.inode, 0U);
        }
        at[bytes / 2] = 'z';
        EXPECT_EQ(at[bytes / 2], 'z');
    }

    /// Registers without converting: the memory stays as it is.
    static void expect_copied(const void* at, std::size_t bytes, bool writable = true) {
        const Registration registration = convert(address_of(at), bytes, writable);
        EXPECT_EQ(registration.error, 0);
        EXPECT_FALSE(registration.converted);
        release(registration);
    }
    static void expect_error(std::uint64_t addr, std::uint64_t bytes, bool writable, int error) {
        const Registration registration = convert(addr, bytes, writable);
        EXPECT_EQ(registration.error, error);
        EXPECT_FALSE(registration.converted);
    }
};
INSTANTIATE_TEST_SUITE_P(Kernels, Convert, testing::ValuesIn(kKernels),
                         [](const auto& info) { return info.param.name; });

TEST_P(Convert, AnonymousMemory) {
    const Area area(16 * kPageBytes);
    area.fill(3);
    expect_round_trip(area.data(), area.size());
    expect_round_trip(area.data() + 5 * kPageBytes + 100, 3000);
    expect_round_trip(area.data() + kPageBytes - 1, 2);
    expect_round_trip(area.data() + 7, 1);
}

TEST_P(Convert, MemoryNeverTouched) {
    const Area area(64 * kPageBytes);
    const Registration registration = convert(area.address(), area.size(), true);
    ASSERT_TRUE(registration.converted);
    EXPECT_LE(memory_file_bytes(), kPageBytes) << "untouched pages must not take memory";
    const DaemonView view(area.address(), area.size());
    view[40 * kPageBytes + 5] = 'x';
    EXPECT_EQ(area[40 * kPageBytes + 5], 'x');
    EXPECT_EQ(area[41 * kPageBytes], 0);
    release(registration);
    EXPECT_EQ(area[40 * kPageBytes + 5], 'x');
    EXPECT_EQ(area[60 * kPageBytes + 5], 0);
}

TEST_P(Convert, SeveralStepsOfALargeRange) {
    const Area area(3 * PageMover::kStepBytes + 5 * kPageBytes);
    area.fill(9);
    expect_round_trip(area.data(), area.size());
}

TEST_P(Convert, TransparentHugePages) {
    const Area area(8ULL << 20U);
    ASSERT_EQ(::madvise(area.data(), area.size(), MADV_HUGEPAGE), 0);
    area.fill(1);
    expect_round_trip(area.data() + 12345, 4U << 20U);
}

TEST_P(Convert, HeapOfMalloc) {
    std::vector<char*> neighbours;
    for (int i = 0; i < 32; ++i) {
        neighbours.push_back(static_cast<char*>(std::malloc(1000)));
        std::memset(neighbours.back(), i, 1000);
    }
    expect_round_trip(neighbours[11], 1000);
    for (int i = 0; i < 32; ++i) {
        if (i != 11) {
            EXPECT_EQ(neighbours[i][0], i);
            EXPECT_EQ(neighbours[i][999], i);
        }
        std::free(neighbours[i]);
    }
}

TEST_P(Convert, HeapOfBrk) {
    char* at = static_cast<char*>(::sbrk(16 * kPageBytes));
    ASSERT_NE(at, reinterpret_cast<char*>(-1));  // NOLINT(performance-no-int-to-ptr)
    std::memset(at, 'h', 16 * kPageBytes);
    expect_round_trip(at + kPageBytes, 8 * kPageBytes);
}

char in_bss[64 * kPageBytes];

TEST_P(Convert, Bss) {
    std::memset(in_bss, 'b', sizeof(in_bss));
    expect_round_trip(in_bss + 10 * kPageBytes, 20 * kPageBytes);
}

TEST_P(Convert, ReadOnlyAnonymousMemoryKeepsItsProtection) {
    const Area area(4 * kPageBytes);
    area.fill(5);
    ASSERT_EQ(::mprotect(area.data(), area.size(), PROT_READ), 0);
    const Registration registration = convert(area.address(), area.size(), false);
    ASSERT_TRUE(registration.converted);
    EXPECT_EQ(mappings_in(area.range())[0].protection, PROT_READ);
    EXPECT_TRUE(area.holds(5));
    release(registration);
    EXPECT_EQ(mappings_in(area.range())[0].protection, PROT_READ);
    EXPECT_TRUE(area.holds(5));
}

TEST_P(Convert, WritableRegistrationOfReadOnlyMemoryIsRefused) {
    const Area area(4 * kPageBytes);
    ASSERT_EQ(::mprotect(area.data() + kPageBytes, kPageBytes, PROT_READ), 0);
    expect_error(area.address(), area.size(), true, EFAULT);
    const Registration read_only = convert(area.address(), area.size(), false);
    EXPECT_TRUE(read_only.converted);
    // Now that it is converted the answer is the same.
    expect_error(area.address(), area.size(), true, EFAULT);
    EXPECT_EQ(mappings_in({area.address() + kPageBytes, area.address() + 2 * kPageBytes})[0].protection,
              PROT_READ);
    release(read_only);
}

TEST_P(Convert, InaccessibleMemoryAndHolesAreRefused) {
    const Area area(4 * kPageBytes);
    ASSERT_EQ(::mprotect(area.data() + kPageBytes, kPageBytes, PROT_NONE), 0);
    expect_error(area.address(), area.size(), false, EFAULT);
    ASSERT_EQ(::munmap(area.data() + kPageBytes, kPageBytes), 0);
    expect_error(area.address(), area.size(), false, EFAULT);
    expect_error(area.address() + kPageBytes, 10, false, EFAULT);
    // Nothing was changed.
    EXPECT_FALSE(mappings_in({area.address(), area.address() + kPageBytes})[0].shared);
}

TEST_P(Convert, NonsenseIsRefused) {
    expect_error(0x1000, 0, false, EINVAL);
    expect_error(~0ULL - 10, 100, false, EINVAL);
    expect_error(1ULL << 60U, 4096, false, EINVAL);
    expect_error((1ULL << 47U) - 4096, 4096, false, EFAULT);
    expect_error(0, 10, false, EFAULT);
}

int initialised_data[4096] = {1, 2, 3};

TEST_P(Convert, FilesAreCopied) {
    expect_copied(initialised_data, sizeof(initialised_data));
    expect_copied("a literal", 5, false);
    char path[] = "/tmp/urnic_memory_test_XXXXXX";
    const int fd = ::mkstemp(path);
    ASSERT_GE(fd, 0);
    ::unlink(path);
    ASSERT_EQ(::ftruncate(fd, 2 * kPageBytes), 0);
    const Area privately(2 * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd);
    const Area shared(2 * kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    expect_copied(privately.data(), privately.size());
    expect_copied(shared.data(), shared.size());
    ::close(fd);
}

TEST_P(Convert, TheApplicationsSharedMemoryStaysShared) {
    const Area anonymous(2 * kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
    expect_copied(anonymous.data(), anonymous.size());
    EXPECT_TRUE(in_child([&] {
        anonymous[100] = 'c';
        return true;
    }));
    EXPECT_EQ(anonymous[100], 'c');
    const int fd = ::memfd_create("of the test", MFD_CLOEXEC);
    ASSERT_EQ(::ftruncate(fd, 2 * kPageBytes), 0);
    const Area memfd(2 * kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    expect_copied(memfd.data(), memfd.size());
    ::close(fd);
}

TEST_P(Convert, OnePartThatCannotConvertKeepsTheWholeAsItIs) {
    const Area area(6 * kPageBytes);
    area.fill(7);
    ASSERT_NE(::mmap(area.data() + 3 * kPageBytes, kPageBytes, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
              MAP_FAILED);
    expect_copied(area.data(), area.size());
    for (const VmArea& mapping : mappings_in({area.address(), area.address() + 3 * kPageBytes})) {
        EXPECT_FALSE(mapping.shared);
    }
}

TEST_P(Convert, SeveralMappingsInOneRange) {
    const Area area(6 * kPageBytes);
    area.fill(7);
    ASSERT_EQ(::mprotect(area.data() + 2 * kPageBytes, kPageBytes, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
    const Registration registration = convert(area.address(), area.size(), true);
    ASSERT_TRUE(registration.converted);
    EXPECT_TRUE(area.holds(7));
    EXPECT_EQ(mappings_in(area.range()).size(), 3U);
    EXPECT_EQ(mappings_in(area.range())[1].protection, PROT_READ | PROT_WRITE | PROT_EXEC);
    release(registration);
    EXPECT_TRUE(area.holds(7));
    EXPECT_EQ(mappings_in(area.range())[1].protection, PROT_READ | PROT_WRITE | PROT_EXEC);
}

TEST_P(Convert, StacksAreCopied) {
    char on_main_stack[3 * kPageBytes] = {};
    expect_copied(on_main_stack, sizeof(on_main_stack));
    std::thread([] {
        char on_thread_stack[3 * kPageBytes] = {};
        expect_copied(on_thread_stack, sizeof(on_thread_stack));
        // Another thread's, too.
        const char* others = on_thread_stack;
        std::thread([others] { expect_copied(others, 3 * kPageBytes); }).join();
    }).join();
}

TEST_P(Convert, MemoryAboveAStackIsNotTheStack) {
    // One mapping: a stack, and a buffer right above it, as threads and large blocks of malloc come to lie.
    constexpr std::size_t kStackPages = 512;  // sanitizers need a large one
    const Area area((kStackPages + 16) * kPageBytes);
    char* buffer = area.data() + kStackPages * kPageBytes;
    struct Arguments {
        char* buffer;
        char* stack;
    } arguments{buffer, area.data()};
    pthread_attr_t attributes;
    ASSERT_EQ(pthread_attr_init(&attributes), 0);
    ASSERT_EQ(pthread_attr_setstack(&attributes, area.data(), kStackPages * kPageBytes), 0);
    const auto body = [](void* of) -> void* {
        const auto* given = static_cast<Arguments*>(of);
        std::memset(given->buffer, 'b', 16 * kPageBytes);
        expect_round_trip(given->buffer, 16 * kPageBytes);
        expect_copied(given->stack + (kStackPages - 1) * kPageBytes, 2 * kPageBytes);
        expect_copied(given->stack, kPageBytes);
        return nullptr;
    };
    pthread_t thread = 0;
    ASSERT_EQ(pthread_create(&thread, &attributes, body, &arguments), 0);
    ASSERT_EQ(pthread_join(thread, nullptr), 0);
    pthread_attr_destroy(&attributes);
}

thread_local char in_thread_local[100];

TEST_P(Convert, ThreadLocalMemoryCanBeRegistered) {
    std::memset(in_thread_local, 't', sizeof(in_thread_local));
    const Registration registration = convert(address_of(in_thread_local), sizeof(in_thread_local), true);
    EXPECT_EQ(registration.error, 0);
    EXPECT_EQ(in_thread_local[99], 't');
    release(registration);
    EXPECT_EQ(in_thread_local[99], 't');
}

TEST_P(Convert, OverlappingRegistrationsShareTheirPages) {
    const Area area(12 * kPageBytes);
    area.fill(1);
    const Registration low = convert(area.address(), 6 * kPageBytes, true);
    const Registration high = convert(area.address() + 4 * kPageBytes, 6 * kPageBytes, true);
    const Registration inside = convert(area.address() + 5 * kPageBytes, 100, true);
    ASSERT_TRUE(low.converted && high.converted && inside.converted);
    EXPECT_EQ(stretches_for_test(), 1U);
    EXPECT_EQ(mappings_in(area.range()).size(), 2U);
    EXPECT_TRUE(area.holds(1));
    const DaemonView view(area.address(), 12 * kPageBytes);
    release(low);
    EXPECT_TRUE(area.holds(1));
    EXPECT_FALSE(mappings_in(area.range())[0].shared);
    // Still converted where the others lie.
    view[4 * kPageBytes] = 'q';
    EXPECT_EQ(area[4 * kPageBytes], 'q');
    release(high);
    view[5 * kPageBytes + 1] = 'r';
    EXPECT_EQ(area[5 * kPageBytes + 1], 'r');
    release(inside);
    EXPECT_EQ(area[5 * kPageBytes + 1], 'r');
    EXPECT_EQ(mappings_in(area.range()).size(), 1U) << "the pieces must merge again";
}

TEST_P(Convert, PagesThatTheDaemonCopiesDoNotMove) {
    // A write of the daemon's that is under way would go to the page that was there before.
    const Area area(6 * kPageBytes);
    ASSERT_NE(::mmap(area.data() + 5 * kPageBytes, kPageBytes, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
              MAP_FAILED);
    area.fill(7);
    const Registration copied = convert(area.address(), area.size(), true);
    ASSERT_TRUE(copied.error == 0 && !copied.converted);
    expect_copied(area.data() + kPageBytes, 2 * kPageBytes);
    release(copied);
    // Now the other way round: converted first.
    const Registration converted = convert(area.address() + kPageBytes, 2 * kPageBytes, true);
    ASSERT_TRUE(converted.converted);
    const Registration copied_later = convert(area.address() + 2 * kPageBytes, 4 * kPageBytes, true);
    ASSERT_TRUE(copied_later.error == 0 && !copied_later.converted);
    release(converted);
    const auto is_shared = [&](std::size_t page) {
        return mappings_in({area.address() + page * kPageBytes, area.address() + (page + 1) * kPageBytes})[0]
            .shared;
    };
    EXPECT_FALSE(is_shared(1));
    EXPECT_TRUE(is_shared(2));
    release(copied_later);
    EXPECT_FALSE(is_shared(2));
    EXPECT_TRUE(area.holds(7));
}

TEST_P(Convert, ReleasingTwiceIsHarmless) {
    const Area area(2 * kPageBytes);
    const Registration registration = convert(area.address(), area.size(), true);
    release(registration);
    release(registration);
    release({area.address(), area.size(), 0, true, registration.generation + 1});
    EXPECT_FALSE(mappings_in(area.range())[0].shared);
}

TEST_P(Convert, MoreThanTheMachineHasIsCopied) {
    struct sysinfo machine {};
    ASSERT_EQ(sysinfo(&machine), 0);
    const std::uint64_t all = (std::uint64_t{machine.totalram} + machine.totalswap) * machine.mem_unit;
    const std::uint64_t bytes = page_ceiling(all) + kPageBytes;
    void* reserved =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(reserved, MAP_FAILED);
    expect_copied(reserved, bytes);
    EXPECT_EQ(munmap(reserved, bytes), 0);
}

TEST_P(Convert, WithoutUserfaultfdMemoryIsCopied) {
    RegistrySettings settings = GetParam().settings;
    settings.userfault_available = false;
    apply_for_test(settings);
    const Area area(2 * kPageBytes);
    expect_copied(area.data(), area.size());
    expect_error(area.address(), area.size() + 10 * kPageBytes, true, EFAULT);
}

TEST_P(Convert, ARangeThatAnotherUserfaultfdWatchesIsCopied) {
    const Area area(4 * kPageBytes);
    area.fill(2);
    Userfault other;
    ASSERT_TRUE(other.open(probe_userfault()));
    ASSERT_EQ(other.watch_writes({area.address() + kPageBytes, area.address() + 2 * kPageBytes}), 0);
    expect_copied(area.data(), area.size());
    EXPECT_TRUE(area.holds(2));
    EXPECT_EQ(memory_file_bytes(), 0U);
    ASSERT_EQ(other.forget(area.range()), 0);
}

}  // namespace
}  // namespace urnic::memory
