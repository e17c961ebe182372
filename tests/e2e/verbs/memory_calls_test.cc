// The program's own system calls on registered memory, by the C library's functions and by syscall(): they do
// what they do to private memory, and the RNIC continues with what the program sees then.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <malloc.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "tests/e2e/verbs/endpoint.h"

namespace urnic::e2e {
namespace {

constexpr int kLocalAndRemote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr std::size_t kPage = 4096, kGuestPages = 256, kGuestBytes = kGuestPages * kPage;

class MemoryCalls : public testing::Test {
  protected:
    void SetUp() override {
        a_ = std::make_unique<Endpoint>("urnic0");
        b_ = std::make_unique<Endpoint>("urnic1");
        connect(*a_, *b_);
        if (HasFailure()) GTEST_FAIL() << "not connected";
        at_ = static_cast<std::uint8_t*>(
            mmap(nullptr, kGuestBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        ASSERT_NE(at_, MAP_FAILED);
        std::memset(at_, 0x55, kGuestBytes);
        mr_ = ibv_reg_mr(b_->pd, at_, kGuestBytes, kLocalAndRemote);
        ASSERT_NE(mr_, nullptr) << std::strerror(errno);
    }
    void TearDown() override {
        EXPECT_TRUE(mr_ == nullptr || ibv_dereg_mr(mr_) == 0);
        munmap(at_ + moved_bytes_, kGuestBytes - moved_bytes_);
    }
    /// A WRITE of a page's beginning into the memory.
    void write_to(std::size_t page, std::uint32_t seed) {
        fill(a_->at(0), 64, seed);
        ibv_sge sge = a_->sge(0, 64);
        ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, seed, &sge, 1);
        wr.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(at_ + page * kPage);
        wr.wr.rdma.rkey = mr_->rkey;
        a_->post(wr);
        a_->expect_success(seed, IBV_WC_RDMA_WRITE);
    }
    [[nodiscard]] bool is_zero(std::size_t page, std::size_t pages) const {
        const std::uint8_t* from = at_ + page * kPage;
        return std::all_of(from, from + pages * kPage, [](std::uint8_t byte) { return byte == 0; });
    }
    void expect_discarded_by(const char* name, const std::function<long(void*, std::size_t)>& call) {
        SCOPED_TRACE(name);
        std::memset(at_, 0x55, kGuestBytes);
        ASSERT_GE(call(at_ + 8 * kPage, 4 * kPage), 0) << std::strerror(errno);
        EXPECT_TRUE(is_zero(8, 4));
        EXPECT_EQ(at_[8 * kPage - 1], 0x55);
        EXPECT_EQ(at_[12 * kPage], 0x55);
        write_to(9, 77);
        EXPECT_EQ(first_difference(at_ + 9 * kPage, 64, 77), -1) << "the RNIC writes to other pages";
    }

    std::unique_ptr<Endpoint> a_, b_;
    std::uint8_t* at_ = nullptr;
    std::size_t moved_bytes_ = 0;  // from at_ on; what is there now may be the provider's
    ibv_mr* mr_ = nullptr;
};

TEST_F(MemoryCalls, DiscardedMemoryIsZeroAndStaysTheRnics) {
    expect_discarded_by("madvise",
                        [](void* at, std::size_t bytes) { return madvise(at, bytes, MADV_DONTNEED); });
    expect_discarded_by("lazily", [](void* at, std::size_t bytes) { return madvise(at, bytes, MADV_FREE); });
    expect_discarded_by("syscall", [](void* at, std::size_t bytes) {
        return syscall(SYS_madvise, at, bytes, MADV_DONTNEED);
    });
    const int self = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
    const iovec probe{at_, kPage};
    // Linux 6.13.
    if (syscall(SYS_process_madvise, self, &probe, 1, MADV_DONTNEED, 0) == kPage) {
        expect_discarded_by("process_madvise by syscall", [&](void* at, std::size_t bytes) {
            const iovec range{at, bytes};
            return syscall(SYS_process_madvise, self, &range, 1, MADV_DONTNEED, 0);
        });
        expect_discarded_by("process_madvise", [&](void* at, std::size_t bytes) {
            const iovec range{at, bytes};
            return static_cast<long>(process_madvise(self, &range, 1, MADV_DONTNEED, 0));
        });
    }
    close(self);
}

TEST_F(MemoryCalls, WhatChildrenGetEmptyWasSaidBeforeRegistration) {
    auto* at = static_cast<std::uint8_t*>(
        mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(at, MAP_FAILED);
    std::memset(at, 0x55, 2 * kPage);
    ASSERT_EQ(madvise(at, kPage, MADV_WIPEONFORK), 0);
    ibv_mr* mr = ibv_reg_mr(b_->pd, at, 2 * kPage, kLocalAndRemote);
    ASSERT_NE(mr, nullptr) << std::strerror(errno);
    const pid_t child = fork();
    if (child == 0) {
        _exit(at[0] == 0 && at[kPage - 1] == 0 && at[kPage] == 0x55 ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "a secret went to the child";
    EXPECT_EQ(at[0], 0x55);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    munmap(at, 2 * kPage);
}

TEST_F(MemoryCalls, ErrorsAreThoseOfTheKernel) {
    EXPECT_EQ(madvise(at_ + 1, kPage, MADV_DONTNEED), -1);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(syscall(SYS_madvise, at_, kPage, 12345), -1);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(madvise(at_, kPage, MADV_REMOVE), -1);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(mremap(at_, 0, kPage, MREMAP_MAYMOVE), MAP_FAILED);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(syscall(SYS_getpid), getpid());
    EXPECT_EQ(syscall(SYS_close, -1), -1);
    EXPECT_EQ(errno, EBADF);
}

TEST_F(MemoryCalls, MemoryThatGrowsTakesTheRegionAlongAndNothingElse) {
    auto* grown = static_cast<std::uint8_t*>(mremap(at_, 16 * kPage, 64 * kPage, MREMAP_MAYMOVE));
    ASSERT_NE(grown, MAP_FAILED);
    moved_bytes_ = 16 * kPage;
    EXPECT_EQ(grown[15 * kPage], 0x55);
    EXPECT_TRUE(
        std::all_of(grown + 16 * kPage, grown + 64 * kPage, [](std::uint8_t byte) { return byte == 0; }));
    std::memset(grown + 16 * kPage, 1, 48 * kPage);
    EXPECT_EQ(at_[16 * kPage], 0x55);
    write_to(3, 5);
    EXPECT_EQ(first_difference(grown + 3 * kPage, 64, 5), -1)
        << "as with a NIC the region is where its pages are";
    EXPECT_EQ(munmap(grown, 64 * kPage), 0);
}

TEST_F(MemoryCalls, ReallocOfRegisteredBlocks) {
    constexpr std::size_t kBytes = 1U << 20U;
    // What was freed before makes glibc put larger blocks on its heap.
    mallopt(M_MMAP_THRESHOLD, 128 * 1024);
    std::vector<std::uint8_t*> blocks;
    std::vector<ibv_mr*> regions;
    for (int i = 0; i < 8; ++i) {
        blocks.push_back(static_cast<std::uint8_t*>(std::malloc(kBytes)));
        std::memset(blocks.back(), 1 + i, kBytes);
    }
    // Now that they lie side by side.
    for (std::uint8_t* block : blocks) {
        regions.push_back(ibv_reg_mr(b_->pd, block, kBytes, kLocalAndRemote));
        ASSERT_NE(regions.back(), nullptr);
    }
    // Every other one down to a page before it goes up.
    for (const std::size_t bytes : {std::size_t{100}, 3 * kBytes}) {
        for (std::size_t i = bytes == 100 ? 1 : 0; i < blocks.size(); i += bytes == 100 ? 2 : 1) {
            blocks[i] = static_cast<std::uint8_t*>(std::realloc(blocks[i], bytes));
            ASSERT_NE(blocks[i], nullptr);
            std::memset(blocks[i] + 100, static_cast<int>(101 + i), bytes - 100);
        }
    }
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        EXPECT_EQ(std::count(blocks[i], blocks[i] + 100, 1 + i), 100) << i;
        EXPECT_EQ(std::count(blocks[i] + 100, blocks[i] + 3 * kBytes, 101 + i), 3 * kBytes - 100) << i;
        EXPECT_EQ(ibv_dereg_mr(regions[i]), 0);
        std::free(blocks[i]);
    }
}

/// Receives a guest's memory late: every page that is missing is asked for, and comes once.
class Postcopy {
  public:
    Postcopy(std::uint8_t* at, std::size_t bytes) : at_(at), bytes_(bytes) {
        fd_ = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
        uffdio_api api{UFFD_API, 0, 0};
        uffdio_register request{
            {reinterpret_cast<std::uint64_t>(at), bytes}, UFFDIO_REGISTER_MODE_MISSING, 0};
        ready_ = fd_ >= 0 && ioctl(fd_, UFFDIO_API, &api) == 0 && ioctl(fd_, UFFDIO_REGISTER, &request) == 0;
        if (ready_) thread_ = std::thread([this] { serve(); });
    }
    ~Postcopy() {
        finish();
        uffdio_range all{reinterpret_cast<std::uint64_t>(at_), bytes_};
        ioctl(fd_, UFFDIO_UNREGISTER, &all);
        close(fd_);
    }
    Postcopy(const Postcopy&) = delete;
    Postcopy& operator=(const Postcopy&) = delete;
    [[nodiscard]] bool ready() const { return ready_; }
    /// Nothing is missing any more.
    void finish() {
        stop_ = true;
        if (thread_.joinable()) thread_.join();
    }
    /// errno of the first UFFDIO_COPY that failed.
    [[nodiscard]] int error() const { return error_; }
    [[nodiscard]] std::size_t served() const { return served_; }
    static std::uint8_t content(std::size_t page) { return static_cast<std::uint8_t>(page % 250 + 3); }

  private:
    void serve() {
        std::vector<std::uint8_t> page(kPage);
        std::vector<bool> has_come(bytes_ / kPage);
        while (!stop_) {
            pollfd readable{fd_, POLLIN, 0};
            uffd_msg message{};
            if (poll(&readable, 1, 20) != 1 || read(fd_, &message, sizeof(message)) != sizeof(message))
                continue;
            const std::uint64_t missing = message.arg.pagefault.address / kPage * kPage;
            const std::size_t number = (missing - reinterpret_cast<std::uint64_t>(at_)) / kPage;
            std::memset(page.data(), content(number), kPage);
            uffdio_copy copy{missing, reinterpret_cast<std::uint64_t>(page.data()), kPage, 0, 0};
            if (ioctl(fd_, UFFDIO_COPY, &copy) == 0) {
                ++served_;
                has_come[number] = true;
            } else if (errno == EEXIST && has_come[number]) {
                // Two processors asked at once.
                uffdio_range range{missing, kPage};
                ioctl(fd_, UFFDIO_WAKE, &range);
            } else if (error_ == 0) {
                error_ = errno;
            }
        }
    }

    std::uint8_t* at_;
    std::size_t bytes_;
    int fd_ = -1;
    bool ready_ = false;
    std::atomic<bool> stop_{false};
    std::atomic<int> error_{0};
    std::atomic<std::size_t> served_{0};
    std::thread thread_;
};

TEST_F(MemoryCalls, AHypervisorReceivesItsGuestLate) {
    for (int migration = 0; migration < 3; ++migration) {
        std::memset(at_, 0x55, kGuestBytes);
        ASSERT_EQ(madvise(at_, kGuestBytes, MADV_DONTNEED), 0);
        Postcopy postcopy(at_, kGuestBytes);
        ASSERT_TRUE(postcopy.ready()) << std::strerror(errno);
        // Several virtual processors, all over the guest's memory.
        std::atomic<std::size_t> wrong{0};
        std::vector<std::thread> processors;
        for (std::size_t processor = 0; processor < 3; ++processor) {
            processors.emplace_back([&, processor] {
                for (std::size_t i = 0; i < kGuestPages; ++i) {
                    const std::size_t page = (i * 37 + processor * 11) % kGuestPages;
                    wrong += at_[page * kPage + 100] == Postcopy::content(page) ? 0 : 1;
                }
            });
        }
        for (std::thread& processor : processors) processor.join();
        postcopy.finish();
        EXPECT_EQ(wrong, 0U) << "pages of before were there";
        EXPECT_EQ(postcopy.error(), 0) << std::strerror(postcopy.error());
        EXPECT_EQ(postcopy.served(), kGuestPages);
        // What has come is the RNIC's, too.
        write_to(5, 99);
        EXPECT_EQ(first_difference(at_ + 5 * kPage, 64, 99), -1);
    }
}

}  // namespace
}  // namespace urnic::e2e
