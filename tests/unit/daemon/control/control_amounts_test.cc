// What is counted in bytes and in keys: given back when it ends or changes, to the last one.
#include <sys/mman.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/unit/daemon/control_fixture.h"

namespace urnic::daemon {
namespace {

using abi::Op;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;
constexpr std::uint64_t kMostRegistered = 10'000;

class Amounts : public ControlTest {
  protected:
    explicit Amounts(ClientLimits limits = {.max_registered_bytes = kMostRegistered,
                                            .max_device_memory_bytes = 3 * 4096})
        : ControlTest({}, limits), client_(client()), context_(client_.open()), pd_(client_.pd(context_)) {}

    [[nodiscard]] Answer reg(std::uint64_t length, std::uint64_t addr = 1ULL << 40U,
                             std::uint32_t flags = 0) const {
        abi::RegMrRequest request{};
        request.pd = pd_;
        request.addr = request.iova = addr;
        request.length = length;
        request.flags = flags;
        return client_.ask(Op::kRegMr, request);
    }
    [[nodiscard]] std::uint32_t region(std::uint64_t length, std::uint64_t addr = 1ULL << 40U,
                                       std::uint32_t flags = 0) const {
        return reg(length, addr, flags).as<abi::RegMrReply>().handle;
    }
    [[nodiscard]] int rereg(std::uint32_t mr, std::uint64_t length, std::uint64_t addr = 1ULL << 40U,
                            std::uint32_t flags = 0) const {
        abi::ReregMrRequest request{};
        request.mr = mr;
        request.changes = abi::kReregMrTranslation;
        request.addr = request.iova = addr;
        request.length = length;
        request.memory_flags = flags;
        return client_.ask(Op::kReregMr, request).error();
    }
    [[nodiscard]] Answer alloc_dm(std::uint64_t length) const {
        abi::AllocDmRequest request{};
        request.context = context_;
        request.length = length;
        return client_.ask(Op::kAllocDm, request);
    }
    /// Whether that many are left when the disposer is done.
    [[nodiscard]] bool has_mappings(std::size_t count) const {
        const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (mappings() != count && std::chrono::steady_clock::now() < give_up) {
            std::this_thread::yield();
        }
        return mappings() == count;
    }
    /// How often the server, which is in this process, has mapped the client's memory file.
    [[nodiscard]] std::size_t mappings() const {
        struct stat file {};
        EXPECT_EQ(fstat(client_.memory_file(), &file), 0);
        std::ifstream maps("/proc/self/maps");
        std::size_t count = 0;
        for (std::string line; std::getline(maps, line);) {
            std::istringstream fields(line);
            std::string range;
            std::string rights;
            std::string offset;
            std::string device;
            std::uint64_t inode = 0;
            fields >> range >> rights >> offset >> device >> inode;
            count += inode == file.st_ino && line.find("memfd") != std::string::npos ? 1 : 0;
        }
        return count;
    }

    TestClient client_;
    std::uint32_t context_;
    std::uint32_t pd_;
};

TEST_F(Amounts, DeviceMemoryThatIsFreedCanBeHadAgain) {
    for (int round = 0; round < 3; ++round) {
        const auto two_pages = alloc_dm(4097).as<abi::DmReply>().handle;
        const auto one_page = alloc_dm(1).as<abi::DmReply>().handle;
        EXPECT_EQ(alloc_dm(1).error(), ENOMEM) << "three pages are three pages";
        EXPECT_EQ(client_.on_handle(Op::kFreeDm, one_page), 0);
        EXPECT_EQ(alloc_dm(4097).error(), ENOMEM) << "one page came back, not two";
        EXPECT_EQ(client_.on_handle(Op::kFreeDm, two_pages), 0);
    }
    const std::uint32_t doomed = client_.open();
    abi::AllocDmRequest request{};
    request.context = doomed;
    request.length = 3 * 4096;
    EXPECT_EQ(client_.ask(Op::kAllocDm, request).error(), 0);
    EXPECT_EQ(alloc_dm(1).error(), ENOMEM);
    EXPECT_EQ(client_.on_handle(Op::kCloseDevice, doomed), 0);
    EXPECT_EQ(alloc_dm(3 * 4096).error(), 0) << "what the context had";
}

TEST_F(Amounts, ARegionRegisteredAgainCountsWithItsNewLength) {
    const std::uint32_t mr = region(4000);
    EXPECT_EQ(rereg(mr, kMostRegistered + 1), ENOMEM);
    EXPECT_EQ(rereg(mr, kMostRegistered), 0) << "its own old length does not stand in its way";
    EXPECT_EQ(reg(1).error(), ENOMEM);
    EXPECT_EQ(rereg(mr, 1000), 0);
    EXPECT_EQ(reg(kMostRegistered - 999).error(), ENOMEM);
    const std::uint32_t rest = region(kMostRegistered - 1000);
    EXPECT_EQ(rereg(mr, 1001), ENOMEM) << "the other has the rest";
    EXPECT_EQ(rereg(mr, 999), 0);
    EXPECT_EQ(client_.on_handle(Op::kDeregMr, mr), 0);
    EXPECT_EQ(reg(1001).error(), ENOMEM);
    EXPECT_EQ(reg(1000).error(), 0) << "what it had in the end came back, and no more";
    EXPECT_EQ(client_.on_handle(Op::kDeregMr, rest), 0);
}

class ManyBytes : public Amounts {
  protected:
    ManyBytes() : Amounts(ClientLimits{.max_registered_bytes = 2 * abi::kMemoryFileBytes}) {}
};

TEST_F(ManyBytes, ARegionRegisteredElsewhereLetsGoOfItsOldMapping) {
    client_.attach_memory();
    const std::uint32_t mr = region(4096, 1ULL << 40U, abi::kRegMrConverted);
    EXPECT_TRUE(has_mappings(1U));
    EXPECT_EQ(rereg(mr, 4096, 1ULL << 41U, abi::kRegMrConverted), 0);
    EXPECT_TRUE(has_mappings(1U)) << "the old one is held";
    EXPECT_EQ(rereg(mr, 8192, (1ULL << 41U) + kGiB - 4096, abi::kRegMrConverted), 0);
    EXPECT_TRUE(has_mappings(1U));
    EXPECT_EQ(rereg(mr, 4096), 0) << "not of the file";
    EXPECT_TRUE(has_mappings(0U));
    EXPECT_EQ(rereg(mr, 4096, 1ULL << 40U, abi::kRegMrConverted), 0);
    EXPECT_TRUE(has_mappings(1U));
    EXPECT_EQ(client_.on_handle(Op::kDeregMr, mr), 0);
    EXPECT_TRUE(has_mappings(0U));
}

TEST_F(ManyBytes, NoRegionIsLongerThanTheDeviceReports) {
    EXPECT_EQ(reg(abi::kMemoryFileBytes + 1, 0).error(), EINVAL);
    EXPECT_EQ(reg(abi::kMemoryFileBytes, 0).error(), 0);
}

// All keys are in use by others. What is refused then leaves nothing behind.
TEST_F(ManyBytes, NoKeyIsLeft) {
    KeyTable& keys = control.devices[0]->device->keys;
    std::vector<std::uint32_t> others;
    while (const std::uint32_t key = keys.add({}, static_cast<std::uint32_t>(others.size()) << 8U)) {
        others.push_back(key);
    }
    ASSERT_EQ(others.size(), KeyTable::kMaxKeys);
    abi::AllocMwRequest mw{};
    mw.pd = pd_;
    mw.type = 2;
    EXPECT_EQ(client_.ask(Op::kAllocMw, mw).error(), ENOMEM);
    EXPECT_EQ(reg(1).error(), ENOMEM);
    EXPECT_EQ(control.devices[0]->num_mws, 0U);
    EXPECT_EQ(control.devices[0]->num_mrs, 0U);
    let_server_change();
    for (const std::uint32_t key : others) {
        ASSERT_TRUE(keys.remove(key));
        keys.release(key);
    }
    for (const Op op : {Op::kDeallocMw, Op::kDeregMr}) {
        EXPECT_EQ(client_.on_handle(op, 1), ENOENT) << "what was refused is not there";
    }
    EXPECT_EQ(client_.ask(Op::kAllocMw, mw).error(), 0);
    EXPECT_EQ(reg(1).error(), 0);
    client_.close();
    wait_for_connections(0);
    EXPECT_TRUE(nothing_is_left());
}

}  // namespace
}  // namespace urnic::daemon
