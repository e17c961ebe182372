// Registered memory as the application sees it.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "tests/e2e/verbs/endpoint.h"

namespace urnic::e2e {
namespace {

constexpr int kAll =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

class Memory : public testing::Test {
  protected:
    void SetUp() override {
        a_ = std::make_unique<Endpoint>("urnic0");
        b_ = std::make_unique<Endpoint>("urnic1");
        connect(*a_, *b_);
        if (HasFailure()) GTEST_FAIL() << "not connected";
    }
    /// WRITE of `length` bytes of a's pattern to that address and key.
    void write_to(void* address, std::uint32_t rkey, std::size_t length, std::uint32_t seed) {
        fill(a_->at(0), length, seed);
        ibv_sge sge = a_->sge(0, length);
        ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, seed, &sge, 1);
        wr.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(address);
        wr.wr.rdma.rkey = rkey;
        a_->post(wr);
        a_->expect_success(seed, IBV_WC_RDMA_WRITE);
    }
    /// READ from that address and key into a's buffer.
    void read_from(const void* address, std::uint32_t rkey, std::size_t length, std::uint64_t wr_id) {
        ibv_sge sge = a_->sge(0, length);
        ibv_send_wr wr = request(IBV_WR_RDMA_READ, wr_id, &sge, 1);
        wr.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(address);
        wr.wr.rdma.rkey = rkey;
        a_->post(wr);
        a_->expect_success(wr_id, IBV_WC_RDMA_READ);
    }
    /// Registers the range, writes to it and reads it back over the wire, deregisters it; its content stays.
    void use(std::uint8_t* data, std::size_t length, std::uint32_t seed) {
        fill(data, length, seed);
        ibv_mr* mr = ibv_reg_mr(b_->pd, data, length, kAll);
        ASSERT_NE(mr, nullptr) << std::strerror(errno);
        EXPECT_EQ(first_difference(data, length, seed), -1) << "registration changed the content";
        read_from(data, mr->rkey, length, seed);
        EXPECT_EQ(first_difference(a_->at(0), length, seed), -1) << "read over the wire";
        data[length / 2] ^= 0xffU;  // the application writes after registration
        read_from(data, mr->rkey, length, seed);
        EXPECT_EQ(a_->at(0)[length / 2], data[length / 2]);
        write_to(data, mr->rkey, length, seed + 1);
        EXPECT_EQ(first_difference(data, length, seed + 1), -1) << "written over the wire";
        ASSERT_EQ(ibv_dereg_mr(mr), 0);
        EXPECT_EQ(first_difference(data, length, seed + 1), -1) << "deregistration changed the content";
        fill(data, length, seed + 2);
        EXPECT_EQ(first_difference(data, length, seed + 2), -1);
    }

    std::unique_ptr<Endpoint> a_, b_;
};

// Large enough to span pages of their own.
std::uint8_t in_data_section[20'000] = {1};
std::uint8_t in_bss[20'000];

TEST_F(Memory, EveryKindOfMemory) {
    const std::unique_ptr<std::uint8_t[]> heap(new std::uint8_t[100'000]);
    use(heap.get() + 13, 90'001, 10);
    use(in_data_section + 1, 15'000, 20);
    use(in_bss + 100, 15'000, 30);
    std::uint8_t on_stack[12'000];
    use(on_stack, sizeof(on_stack), 40);
    auto* shared = static_cast<std::uint8_t*>(
        mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    use(shared, 65536, 50);
    munmap(shared, 65536);
    std::FILE* file = std::tmpfile();
    ASSERT_EQ(ftruncate(fileno(file), 65536), 0);
    auto* of_file =
        static_cast<std::uint8_t*>(mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0));
    use(of_file + 5, 60'000, 60);
    munmap(of_file, 65536);
    std::fclose(file);
    // Two neighbours of different kinds in one region.
    auto* mixed = static_cast<std::uint8_t*>(
        mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_EQ(
        mmap(mixed + 32768, 16384, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
        mixed + 32768);
    use(mixed + 100, 65000, 70);
    munmap(mixed, 65536);
}

TEST_F(Memory, HugePages) {
    constexpr std::size_t kPageBytes = 2U << 20U;
    void* mapped =
        mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    if (mapped == MAP_FAILED) {
        GTEST_SKIP() << "no huge page is free";
    }
    auto* page = static_cast<std::uint8_t*>(mapped);
    use(page, kPageBytes, 10);
    use(page + 5001, 100'000, 20);  // a part
    ibv_mr* mr = ibv_reg_mr(b_->pd, page, kPageBytes, kAll | IBV_ACCESS_HUGETLB);
    ASSERT_NE(mr, nullptr) << std::strerror(errno);
    write_to(page + kPageBytes - 100, mr->rkey, 100, 30);
    EXPECT_EQ(first_difference(page + kPageBytes - 100, 100, 30), -1);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    EXPECT_EQ(munmap(page, kPageBytes), 0);
}

TEST_F(Memory, SharedMappingsStayShared) {
    auto* shared = static_cast<std::uint8_t*>(
        mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    ibv_mr* mr = ibv_reg_mr(b_->pd, shared, 8192, kAll);
    ASSERT_NE(mr, nullptr);
    const pid_t child = fork();
    if (child == 0) {
        shared[5] = 77;
        _exit(0);
    }
    waitpid(child, nullptr, 0);
    EXPECT_EQ(shared[5], 77);
    read_from(shared, mr->rkey, 16, 1);
    EXPECT_EQ(a_->at(0)[5], 77);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    munmap(shared, 8192);
}

TEST_F(Memory, OverlappingRegionsAndSmallOnesInOnePage) {
    const Buffer memory(65536);
    ibv_mr* whole = ibv_reg_mr(b_->pd, memory.data(), 65536, kAll);
    ibv_mr* part = ibv_reg_mr(b_->pd, memory.data() + 1000, 10'000, kAll);
    ibv_mr* small = ibv_reg_mr(b_->pd, memory.data() + 2000, 8, kAll);
    ASSERT_TRUE(whole != nullptr && part != nullptr && small != nullptr);
    write_to(memory.data() + 1000, part->rkey, 10'000, 1);
    read_from(memory.data(), whole->rkey, 65536, 2);
    EXPECT_EQ(first_difference(a_->at(1000), 10'000, 1), -1);
    ASSERT_EQ(ibv_dereg_mr(whole), 0);
    EXPECT_EQ(first_difference(memory.data() + 1000, 10'000, 1), -1);
    write_to(memory.data() + 1000, part->rkey, 10'000, 3);
    EXPECT_EQ(first_difference(memory.data() + 1000, 10'000, 3), -1);
    ASSERT_EQ(ibv_dereg_mr(part), 0);
    write_to(memory.data() + 2000, small->rkey, 8, 4);
    EXPECT_EQ(first_difference(memory.data() + 2000, 8, 4), -1);
    ASSERT_EQ(ibv_dereg_mr(small), 0);
    EXPECT_EQ(first_difference(memory.data() + 2000, 8, 4), -1);
}

TEST_F(Memory, AddressesThatAreNotThere) {
    auto* hole = static_cast<std::uint8_t*>(
        mmap(nullptr, 12288, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    munmap(hole + 4096, 4096);
    EXPECT_EQ(ibv_reg_mr(b_->pd, hole, 12288, kAll), nullptr);
    EXPECT_NE(errno, 0);
    hole[0] = 1;  // what is there is as before
    hole[8192] = 1;
    // Not in one: between them there may be something of the provider's by now.
    munmap(hole, 4096);
    munmap(hole + 8192, 4096);
    EXPECT_EQ(ibv_reg_mr(b_->pd, reinterpret_cast<void*>(0x1000), 4096, kAll), nullptr);
    // Remote writing without local writing makes no sense (IBA 10.6.3.1).
    EXPECT_EQ(ibv_reg_mr(b_->pd, b_->at(0), 4096, IBV_ACCESS_REMOTE_WRITE), nullptr);
}

TEST_F(Memory, AChildKeepsItsOwnCopy) {
    fill(b_->at(0), 8192, 1);
    int ready[2];
    int go[2];
    ASSERT_EQ(pipe(ready), 0);
    ASSERT_EQ(pipe(go), 0);
    const pid_t child = fork();
    if (child == 0) {
        // The child's write stays its own; the parent's later one is not seen.
        const std::uint8_t before = b_->at(0)[100];
        b_->at(0)[100] = static_cast<std::uint8_t>(~before);
        char byte = 1;
        if (write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1) _exit(2);
        b_->at(0)[100] = before;
        _exit(first_difference(b_->at(0), 8192, 1) == -1 ? 0 : 1);
    }
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    EXPECT_EQ(first_difference(b_->at(0), 8192, 1), -1) << "the child's write reached the parent";
    write_to(b_->at(0), b_->mr->rkey, 8192, 2);
    EXPECT_EQ(first_difference(b_->at(0), 8192, 2), -1);
    ASSERT_EQ(write(go[1], &byte, 1), 1);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << "a later write reached the child: " << status;
    for (const int fd : {ready[0], ready[1], go[0], go[1]}) close(fd);
}

/// First and last address of the heap.
std::pair<std::uintptr_t, std::uintptr_t> heap_range() {
    std::ifstream maps("/proc/self/maps");
    std::pair<std::uintptr_t, std::uintptr_t> range{0, 0};
    for (std::string line; std::getline(maps, line);) {
        if (line.find("[heap]") == std::string::npos) continue;
        (void)std::sscanf(line.c_str(), "%lx-%lx", &range.first, &range.second);
    }
    return range;
}

// The provider's own objects lie there too, and its fork handlers write to them in the child.
TEST_F(Memory, AChildDoesNotWriteToTheParentsHeap) {
    const auto [start, end] = heap_range();
    ASSERT_LT(start, end);
    ibv_mr* mr = ibv_reg_mr(b_->pd, reinterpret_cast<void*>(start), end - start, kAll);
    ASSERT_NE(mr, nullptr);
    const pid_t child = fork();
    if (child == 0) _exit(0);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
    ibv_pd* pd = ibv_alloc_pd(b_->context.get());
    ASSERT_NE(pd, nullptr) << std::strerror(errno) << ": the parent takes itself for the child";
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    write_to(b_->at(0), b_->mr->rkey, 8192, 3);
    EXPECT_EQ(first_difference(b_->at(0), 8192, 3), -1);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Memory, ForkWhileAnotherThreadRegisters) {
    std::atomic<bool> stop{false};
    const Buffer memory(1U << 20U);
    std::thread registering([&] {
        std::uint32_t seed = 0;
        while (!stop.load()) {
            fill(memory.data(), memory.size(), ++seed);
            ibv_mr* mr = ibv_reg_mr(b_->pd, memory.data(), memory.size(), kAll);
            if (mr == nullptr || first_difference(memory.data(), memory.size(), seed) != -1) {
                ADD_FAILURE() << "registration beside fork";
                return;
            }
            ASSERT_EQ(ibv_dereg_mr(mr), 0);
            ASSERT_EQ(first_difference(memory.data(), memory.size(), seed), -1);
        }
    });
    for (int i = 0; i < 50; ++i) {
        const pid_t child = fork();
        if (child == 0) _exit(0);
        int status = 0;
        waitpid(child, &status, 0);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "child " << i << " status " << status;
    }
    stop.store(true);
    registering.join();
    write_to(b_->at(0), b_->mr->rkey, 8192, 2);
    EXPECT_EQ(first_difference(b_->at(0), 8192, 2), -1);
}

TEST_F(Memory, TheApplicationsAtomicsAndTheRnicsShareOneCounter) {
    constexpr int kRounds = 2000;
    auto* counter = reinterpret_cast<std::atomic<std::uint64_t>*>(b_->at(64));
    std::thread adding([&] {
        for (int i = 0; i < kRounds * 50; ++i) counter->fetch_add(1);
    });
    ibv_sge sge = a_->sge(0, 8);
    for (int i = 0; i < kRounds; ++i) {
        ibv_send_wr wr = atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, &sge, *b_, 64, 1);
        a_->post(wr);
        a_->expect_success(1, IBV_WC_FETCH_ADD);
    }
    adding.join();
    EXPECT_EQ(counter->load(), static_cast<std::uint64_t>(kRounds) * 51);
}

}  // namespace
}  // namespace urnic::e2e
