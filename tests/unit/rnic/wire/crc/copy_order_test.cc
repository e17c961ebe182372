// copy_payload() writes the last bytes last. The destination ends a few bytes into a page that may not be
// written: the store that gets there stops in a signal handler, which looks at what has been written so far.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <vector>

#include "rnic/wire/crc/crc32_variants.h"
#include "tests/support/random_bytes.h"

namespace urnic::wire {
namespace {

struct Watch {
    std::byte* page = nullptr;  // the guarded one
    std::size_t page_bytes = 0;
    const std::byte* to = nullptr;
    const std::byte* from = nullptr;
    std::size_t before = 0;  // bytes in front of the guarded page
    volatile std::sig_atomic_t stops = 0;
    volatile std::sig_atomic_t complete = 0;
};
Watch watch;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): the handler's only way in

void on_fault(int, siginfo_t* info, void*) {
    auto* address = static_cast<std::byte*>(info->si_addr);
    if (address < watch.page || address >= watch.page + watch.page_bytes) {
        std::abort();
    }
    watch.stops = watch.stops + 1;
    watch.complete = 1;
    for (std::size_t i = 0; i < watch.before; ++i) {
        if (watch.to[i] != watch.from[i]) {
            watch.complete = 0;
        }
    }
    mprotect(watch.page, watch.page_bytes, PROT_READ | PROT_WRITE);
}

class CopyOrder : public testing::Test {
  protected:
    void SetUp() override {
        watch.page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        memory_ = static_cast<std::byte*>(
            mmap(nullptr, 3 * watch.page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        ASSERT_NE(memory_, MAP_FAILED);
        watch.page = memory_ + 2 * watch.page_bytes;
        struct sigaction action = {};
        action.sa_sigaction = on_fault;
        action.sa_flags = SA_SIGINFO;
        ASSERT_EQ(sigaction(SIGSEGV, &action, &earlier_), 0);
    }
    void TearDown() override {
        sigaction(SIGSEGV, &earlier_, nullptr);
        munmap(memory_, 3 * watch.page_bytes);
    }

    std::byte* memory_ = nullptr;
    struct sigaction earlier_ = {};
};

TEST_F(CopyOrder, EverythingElseIsThereBeforeTheLastBytes) {
    test::Random random;
    for (const Crc32Variant* variant : crc32_variants()) {
        if (!variant->supported()) {
            continue;
        }
        for (const std::size_t last : {1U, 2U, 4U, 8U}) {
            for (std::size_t length = last; length <= 4200; length += length < 300 ? 1 : 61) {
                const std::vector<std::byte> from = random.bytes(length);
                watch.from = from.data();
                watch.before = length - last;
                std::byte* to = watch.page + last - length;
                watch.to = to;
                for (std::size_t i = 0; i < length; ++i) {
                    to[i] = ~from[i];
                }
                watch.stops = 0;
                ASSERT_EQ(mprotect(watch.page, watch.page_bytes, PROT_READ), 0);
                variant->copy_payload(to, from.data(), length);
                ASSERT_EQ(watch.stops, 1) << variant->name << ", " << length << " bytes";
                ASSERT_EQ(watch.complete, 1) << variant->name << ", " << length << " bytes, last " << last;
                ASSERT_EQ(std::memcmp(to, from.data(), length), 0) << variant->name << ", " << length;
            }
        }
    }
}

}  // namespace
}  // namespace urnic::wire
