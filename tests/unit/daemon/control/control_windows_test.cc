// Memory windows, device memory, null regions, regions registered again, and what processes share of them.
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>

#include "tests/unit/daemon/control_fixture.h"

namespace urnic::daemon {
namespace {

using abi::Op;

constexpr std::uint32_t kQp = 7;  // of the requests that the test executes itself

class MemoryObjects : public ControlTest {
  protected:
    MemoryObjects() : client_(client()), context_(client_.open()), pd_(client_.pd(context_)) {}

    [[nodiscard]] KeyTable& keys() const { return control.devices[0]->device->keys; }
    [[nodiscard]] std::uint32_t pd_number() const { return keys().find(region(kAccessLocalWrite).lkey)->pd; }
    static abi::RegMrRequest region_request(std::uint32_t pd, std::uint32_t access) {
        abi::RegMrRequest request{};
        request.pd = pd;
        request.access = access;
        request.addr = request.iova = 0x7f00'0000'0000;
        request.length = 8192;
        return request;
    }
    [[nodiscard]] abi::RegMrReply region(std::uint32_t access) const {
        return client_.ask(Op::kRegMr, region_request(pd_, access)).as<abi::RegMrReply>();
    }
    static Answer window_of(const TestClient& client, std::uint32_t pd, std::uint32_t type) {
        abi::AllocMwRequest request{};
        request.pd = pd;
        request.type = type;
        return client.ask(Op::kAllocMw, request);
    }
    /// What a worker does for a bind of that window to the whole region.
    [[nodiscard]] bool bind(std::uint32_t window_key, std::uint32_t region_key) const {
        const MemoryRegion* region = keys().find(region_key);
        return region != nullptr && keys().bind({.new_key = window_key,
                                                 .region_key = region_key,
                                                 .addr = region->iova,
                                                 .length_bytes = region->length_bytes,
                                                 .access = kAccessRemoteRead,
                                                 .pd = region->pd,
                                                 .qp_num = kQp});
    }
    [[nodiscard]] bool reads(std::uint32_t key, std::uint64_t addr = 0x7f00'0000'0000) const {
        MemoryPiece piece;
        // Of any PD: the first few are those of the test.
        for (std::uint32_t pd = 1; pd < 8; ++pd) {
            if (keys().resolve_remote(key, {pd, kQp}, kAccessRemoteRead, addr, 8, piece) ==
                KeyTable::Verdict::kOk) {
                return true;
            }
        }
        return false;
    }

    TestClient client_;
    std::uint32_t context_;
    std::uint32_t pd_;
};

constexpr std::uint32_t kBindable = kAccessLocalWrite | kAccessMwBind;

TEST_F(MemoryObjects, ARegionWithAWindowIsBusy) {
    const auto mr = region(kBindable);
    const auto mw = window_of(client_, pd_, 2).as<abi::AllocMwReply>();
    EXPECT_EQ(control.devices[0]->num_mws, 1U);
    EXPECT_FALSE(reads(mw.rkey));
    ASSERT_TRUE(bind(mw.rkey, mr.lkey));
    EXPECT_TRUE(reads(mw.rkey));
    EXPECT_EQ(client_.on_handle(Op::kDeregMr, mr.handle), EBUSY);
    abi::ReregMrRequest again{};
    again.mr = mr.handle;
    again.changes = abi::kReregMrAccess;
    EXPECT_EQ(client_.ask(Op::kReregMr, again).error(), EBUSY);
    EXPECT_TRUE(reads(mw.rkey)) << "a refusal changes nothing";
    EXPECT_EQ(client_.on_handle(Op::kDeallocPd, pd_), EBUSY);
    EXPECT_EQ(client_.on_handle(Op::kDeallocMw, mw.handle), 0);
    EXPECT_FALSE(reads(mw.rkey));
    EXPECT_FALSE(bind(mw.rkey, mr.lkey));
    EXPECT_EQ(client_.on_handle(Op::kDeallocMw, mw.handle), ENOENT);
    EXPECT_EQ(client_.on_handle(Op::kDeregMr, mr.handle), 0);
    EXPECT_EQ(client_.on_handle(Op::kDeallocPd, pd_), 0);
    EXPECT_EQ(keys().size(), 0U);
}

TEST_F(MemoryObjects, WindowsThatAreNone) {
    for (const std::uint32_t type : {0U, 3U, ~0U}) {
        EXPECT_EQ(window_of(client_, pd_, type).error(), EINVAL);
    }
    EXPECT_EQ(window_of(client_, pd_ + 1, 1).error(), ENOENT);
    EXPECT_EQ(window_of(client(), pd_, 1).error(), ENOENT) << "another client's PD";
    EXPECT_EQ(client_.on_handle(Op::kDeallocMw, 1), ENOENT);
}

TEST_F(MemoryObjects, BoundWindowsGoWithTheirContextAndTheirProcess) {
    for (const bool closes : {true, false}) {
        TestClient doomed = client();
        const std::uint32_t context = doomed.open();
        const std::uint32_t pd = doomed.pd(context);
        const auto mr = doomed.ask(Op::kRegMr, region_request(pd, kBindable)).as<abi::RegMrReply>();
        const auto mw = window_of(doomed, pd, 1).as<abi::AllocMwReply>();
        ASSERT_TRUE(bind(mw.rkey, mr.lkey));
        if (closes) {
            EXPECT_EQ(doomed.on_handle(Op::kCloseDevice, context), 0);
        }
        doomed.close();
        wait_for_connections(1);
        EXPECT_FALSE(reads(mw.rkey));
        EXPECT_EQ(keys().size(), 0U);
    }
    client_.close();
    wait_for_connections(0);
    EXPECT_TRUE(nothing_is_left());
}

TEST_F(MemoryObjects, EveryWindowThatTheDeviceReportsCanBeHad) {
    RnicState& device = *control.devices[0];
    device.num_mws = device.device->caps.max_mw - 1;  // as if others had them
    EXPECT_EQ(window_of(client_, pd_, 1).error(), 0);
    EXPECT_EQ(window_of(client_, pd_, 1).error(), ENOMEM);
}

TEST_F(MemoryObjects, RegisteredAgain) {
    const auto mr = region(kAccessLocalWrite | kAccessRemoteRead);
    const std::uint32_t other_pd = client_.pd(context_);
    abi::ReregMrRequest request{};
    request.mr = mr.handle;
    request.changes = abi::kReregMrPd;
    request.pd = other_pd;
    const std::uint32_t before = keys().find(mr.lkey)->pd;
    EXPECT_EQ(client_.ask(Op::kReregMr, request).error(), 0);
    EXPECT_NE(keys().find(mr.lkey)->pd, before);
    EXPECT_EQ(client_.on_handle(Op::kDeallocPd, other_pd), EBUSY);
    EXPECT_EQ(client_.on_handle(Op::kDeallocPd, pd_), 0) << "its region has moved out";
    request.changes = abi::kReregMrAccess;
    request.access = kAccessLocalWrite;
    EXPECT_EQ(client_.ask(Op::kReregMr, request).error(), 0);
    EXPECT_EQ(keys().find(mr.lkey)->access, std::uint32_t{kAccessLocalWrite});
    request.changes = abi::kReregMrTranslation;
    request.addr = 0x10000;
    request.iova = 0x20000;
    request.length = 100;
    EXPECT_EQ(client_.ask(Op::kReregMr, request).error(), 0);
    EXPECT_EQ(keys().find(mr.lkey)->iova, 0x20000U);
    EXPECT_EQ(keys().find(mr.lkey)->va, 0x10000U);
    EXPECT_EQ(keys().find(mr.lkey)->length_bytes, 100U);
    EXPECT_EQ(client_.on_handle(Op::kDeregMr, mr.handle), 0);
    EXPECT_EQ(client_.on_handle(Op::kDeallocPd, other_pd), 0);
}

TEST_F(MemoryObjects, RegisteredAgainWithMemoryOfTheFile) {
    client_.attach_memory();
    abi::RegMrRequest request = region_request(pd_, kAccessLocalWrite);
    request.flags = abi::kRegMrConverted;
    const auto mr = client_.ask(Op::kRegMr, request).as<abi::RegMrReply>();
    const std::byte* const place = keys().find(mr.lkey)->direct;
    ASSERT_NE(place, nullptr);
    abi::ReregMrRequest again{};
    again.mr = mr.handle;
    again.changes = abi::kReregMrTranslation;
    again.addr = again.iova = request.addr + 4096;
    again.length = 4096;
    again.memory_flags = abi::kRegMrConverted;
    EXPECT_EQ(client_.ask(Op::kReregMr, again).error(), 0);
    EXPECT_EQ(keys().find(mr.lkey)->direct, place + 4096);
    again.memory_flags = 0;
    EXPECT_EQ(client_.ask(Op::kReregMr, again).error(), 0);
    EXPECT_EQ(keys().find(mr.lkey)->direct, nullptr);
}

TEST_F(MemoryObjects, RegistrationsThatCannotChangeSo) {
    const auto mr = region(kAccessLocalWrite);
    abi::ReregMrRequest good{};
    good.mr = mr.handle;
    good.changes = abi::kReregMrTranslation | abi::kReregMrAccess | abi::kReregMrPd;
    good.pd = pd_;
    good.access = kAccessLocalWrite;
    good.addr = good.iova = 4096;
    good.length = 4096;
    const auto error_of = [&](auto change) {
        abi::ReregMrRequest bad = good;
        change(bad);
        return client_.ask(Op::kReregMr, bad).error();
    };
    EXPECT_EQ(error_of([](auto& r) { r.mr = 77; }), ENOENT);
    EXPECT_EQ(error_of([](auto& r) { r.changes = 0; }), EINVAL);
    EXPECT_EQ(error_of([](auto& r) { r.changes |= 8; }), EINVAL);
    EXPECT_EQ(error_of([](auto& r) { r.pd = 77; }), ENOENT);
    EXPECT_EQ(error_of([&](auto& r) { r.pd = client_.pd(client_.open("urnic1")); }), EINVAL);
    EXPECT_EQ(error_of([](auto& r) { r.access = kAccessRemoteWrite; }), EINVAL);
    EXPECT_EQ(error_of([](auto& r) { r.memory_flags = 2; }), EINVAL);
    EXPECT_EQ(error_of([](auto& r) { r.addr = ~0ULL; }), EINVAL);
    EXPECT_EQ(error_of([](auto& r) { r.memory_flags = abi::kRegMrConverted; }), EINVAL) << "no memory file";
    EXPECT_EQ(keys().find(mr.lkey)->length_bytes, 8192U) << "as it was";
    abi::HandleRequest null_request{};
    null_request.handle = pd_;
    good.mr = client_.ask(Op::kAllocNullMr, null_request).as<abi::RegMrReply>().handle;
    EXPECT_EQ(error_of([](auto&) {}), EOPNOTSUPP);
}

TEST_F(MemoryObjects, ANullRegionSwallowsAndGivesZeros) {
    abi::HandleRequest request{};
    request.handle = pd_;
    const auto mr = client_.ask(Op::kAllocNullMr, request).as<abi::RegMrReply>();
    const MemoryRegion* region = keys().find(mr.lkey);
    ASSERT_NE(region, nullptr);
    MemoryPiece piece;
    ASSERT_EQ(keys().resolve(mr.lkey, region->pd, kAccessLocalWrite, 0xdead'beef'0000, 64, piece),
              KeyTable::Verdict::kOk);
    std::array<std::byte, 64> bytes{};
    bytes.fill(std::byte{9});
    EXPECT_TRUE(piece.space->write(piece.va, bytes.data(), bytes.size()));
    EXPECT_TRUE(piece.space->read(piece.va, bytes.data(), bytes.size()));
    EXPECT_EQ(bytes[0], std::byte{0});
    EXPECT_EQ(bytes[63], std::byte{0});
    EXPECT_FALSE(reads(mr.rkey)) << "it gives peers nothing";
    EXPECT_EQ(client_.on_handle(Op::kDeregMr, mr.handle), 0);
    request.handle = 77;
    EXPECT_EQ(client_.ask(Op::kAllocNullMr, request).error(), ENOENT);
}

class DeviceMemoryObjects : public MemoryObjects {
  protected:
    [[nodiscard]] Answer alloc(std::uint64_t length) const {
        abi::AllocDmRequest request{};
        request.context = context_;
        request.length = length;
        return client_.ask(Op::kAllocDm, request);
    }
    [[nodiscard]] abi::RegDmMrRequest whole(std::uint32_t dm, std::uint64_t length) const {
        abi::RegDmMrRequest request{};
        request.pd = pd_;
        request.dm = dm;
        request.access = kAccessZeroBased | kAccessLocalWrite | kAccessRemoteRead;
        request.length = length;
        return request;
    }
};

TEST_F(DeviceMemoryObjects, IsSharedWithTheApplication) {
    const Answer answer = alloc(5000);
    const auto dm = answer.as<abi::DmReply>();
    ASSERT_EQ(answer.fds.size(), 1U);
    struct stat status {};
    ASSERT_EQ(fstat(answer.fds[0].get(), &status), 0);
    EXPECT_EQ(status.st_size, 8192);
    EXPECT_EQ(ftruncate(answer.fds[0].get(), 0), -1) << "it could take the daemon's pages away";
    auto* mapped = static_cast<std::byte*>(
        mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, answer.fds[0].get(), 0));
    ASSERT_NE(mapped, MAP_FAILED);
    abi::RegDmMrRequest request = whole(dm.handle, 1000);
    request.offset = 4000;
    const auto mr = client_.ask(Op::kRegDmMr, request).as<abi::RegMrReply>();
    EXPECT_EQ(client_.on_handle(Op::kFreeDm, dm.handle), EBUSY);
    MemoryPiece piece;
    ASSERT_EQ(keys().resolve(mr.lkey, keys().find(mr.lkey)->pd, kAccessLocalWrite, 999, 1, piece),
              KeyTable::Verdict::kOk);
    *piece.direct = std::byte{7};
    EXPECT_EQ(mapped[4999], std::byte{7});
    EXPECT_EQ(keys().resolve(mr.lkey, keys().find(mr.lkey)->pd, 0, 999, 2, piece),
              KeyTable::Verdict::kBadRange);
    munmap(mapped, 8192);
    EXPECT_EQ(client_.on_handle(Op::kDeregMr, mr.handle), 0);
    EXPECT_EQ(client_.on_handle(Op::kFreeDm, dm.handle), 0);
    EXPECT_EQ(control.devices[0]->num_dms, 0U);
}

TEST_F(DeviceMemoryObjects, WhatIsRefused) {
    EXPECT_EQ(alloc(0).error(), EINVAL);
    EXPECT_EQ(alloc(control.devices[0]->device->caps.max_dm_bytes).error(), 0);
    EXPECT_EQ(alloc(control.devices[0]->device->caps.max_dm_bytes + 1).error(), ENOMEM);
    const std::uint32_t dm = alloc(100).as<abi::DmReply>().handle;
    const auto error_of = [&](auto change) {
        abi::RegDmMrRequest bad = whole(dm, 100);
        change(bad);
        return client_.ask(Op::kRegDmMr, bad).error();
    };
    EXPECT_EQ(error_of([](auto& r) { r.pd = 77; }), ENOENT);
    EXPECT_EQ(error_of([](auto& r) { r.dm = 77; }), ENOENT);
    EXPECT_EQ(error_of([](auto& r) { r.length = 101; }), EINVAL);
    EXPECT_EQ(error_of([](auto& r) { r.offset = 1; }), EINVAL);
    EXPECT_EQ(error_of([](auto& r) { r.offset = ~0ULL; }), EINVAL);
    EXPECT_EQ(error_of([](auto& r) { r.access = kAccessLocalWrite; }), EINVAL) << "not zero-based";
    EXPECT_EQ(error_of([](auto& r) { r.access |= kAccessMwBind; }), EINVAL);
    EXPECT_EQ(error_of([&](auto& r) { r.pd = client_.pd(client_.open("urnic1")); }), EINVAL);
    EXPECT_EQ(error_of([](auto&) {}), 0);
}

// --- Sharing ----------------------------------------------------------------------------------------------

class Sharing : public DeviceMemoryObjects {
  protected:
    [[nodiscard]] Answer import_device(const TestClient& into, int token) const {
        return into.ask(Op::kImportDevice, abi::ImportDeviceRequest{}, {token});
    }
    static Answer import(const TestClient& client, Op op, std::uint32_t into, std::uint32_t handle) {
        abi::ImportRequest request{};
        request.into = into;
        request.handle = handle;
        return client.ask(op, request);
    }
    TestClient other_ = client();
};

TEST_F(Sharing, APdItsRegionsAndDeviceMemory) {
    const auto mr = region(kAccessLocalWrite | kAccessRemoteRead);
    const Answer opened = import_device(other_, client_.tokens[0].get());
    const auto device = opened.as<abi::ImportDeviceReply>();
    EXPECT_STREQ(device.name, "urnic0");
    EXPECT_EQ(opened.fds.size(), 1U);
    const auto pd = import(other_, Op::kImportPd, device.context, pd_).as<abi::HandleReply>();
    const auto theirs = import(other_, Op::kImportMr, pd.handle, mr.handle).as<abi::ImportMrReply>();
    EXPECT_EQ(theirs.lkey, mr.lkey);
    EXPECT_EQ(theirs.length, 8192U);
    // A QP of theirs is in the same PD as the region.
    std::uint32_t number = 0;
    const std::function<void(const QpConfig&)> note = [&](const QpConfig& config) { number = config.pd; };
    make_qp_hook = &note;
    (void)other_.qp(pd.handle, other_.cq(device.context));
    make_qp_hook = nullptr;
    EXPECT_EQ(number, keys().find(mr.lkey)->pd);
    // Device memory outlives who made it.
    const std::uint32_t dm = alloc(100).as<abi::DmReply>().handle;
    const Answer imported = import(other_, Op::kImportDm, device.context, dm);
    EXPECT_EQ(imported.as<abi::DmReply>().length, 100U);
    EXPECT_EQ(client_.on_handle(Op::kFreeDm, dm), 0);
    abi::RegDmMrRequest request{};
    request.pd = pd.handle;
    request.dm = imported.as<abi::DmReply>().handle;
    request.access = kAccessZeroBased;
    request.length = 100;
    EXPECT_EQ(other_.ask(Op::kRegDmMr, request).error(), 0);
    client_.close();
    wait_for_connections(1);
    EXPECT_EQ(keys().find(mr.lkey), nullptr) << "a region ends with its owner";
    EXPECT_EQ(import(other_, Op::kImportPd, device.context, pd_).error(), EINVAL) << "nobody to import from";
    other_.close();
    wait_for_connections(0);
    EXPECT_TRUE(nothing_is_left());
}

TEST_F(Sharing, AnotherClientsWindowDoesNotKeepARegion) {
    const auto mr = region(kBindable);
    const auto kept = region(kBindable);
    const auto device = import_device(other_, client_.tokens[0].get()).as<abi::ImportDeviceReply>();
    const auto pd = import(other_, Op::kImportPd, device.context, pd_).as<abi::HandleReply>();
    const auto mw = window_of(other_, pd.handle, 2).as<abi::AllocMwReply>();
    ASSERT_TRUE(bind(mw.rkey, mr.lkey));
    EXPECT_EQ(client_.on_handle(Op::kDeregMr, mr.handle), EBUSY);
    EXPECT_EQ(client_.on_handle(Op::kDeregMr, kept.handle), 0);
    client_.close();
    wait_for_connections(1);
    EXPECT_FALSE(reads(mw.rkey)) << "the region's memory is gone";
    EXPECT_EQ(keys().size(), 1U);
    EXPECT_EQ(other_.on_handle(Op::kDeallocMw, mw.handle), 0);
    EXPECT_EQ(keys().size(), 0U);
}

TEST_F(Sharing, DescriptorsThatAreNone) {
    const UniqueFd fake(::memfd_create(abi::kContextTokenName, MFD_CLOEXEC));
    EXPECT_EQ(import_device(other_, fake.get()).error(), EBADF);
    EXPECT_EQ(import_device(other_, 0).error(), EBADF);
    EXPECT_EQ(import_device(other_, other_.socket()).error(), EBADF);
    EXPECT_EQ(client_.on_handle(Op::kCloseDevice, context_), 0);
    EXPECT_EQ(import_device(other_, client_.tokens[0].get()).error(), EBADF) << "it was closed";
}

TEST_F(Sharing, HandlesThatAreNotOfTheContext) {
    const std::uint32_t second = client_.open("urnic1");
    const std::uint32_t second_pd = client_.pd(second);
    const auto mr = region(kAccessLocalWrite);
    const std::uint32_t dm = alloc(100).as<abi::DmReply>().handle;
    const auto device = import_device(other_, client_.tokens[1].get()).as<abi::ImportDeviceReply>();
    EXPECT_STREQ(device.name, "urnic1");
    EXPECT_EQ(import(other_, Op::kImportPd, device.context, pd_).error(), EINVAL) << "of the other context";
    EXPECT_EQ(import(other_, Op::kImportDm, device.context, dm).error(), EINVAL);
    EXPECT_EQ(import(other_, Op::kImportPd, device.context, 77).error(), ENOENT);
    EXPECT_EQ(import(other_, Op::kImportPd, 77, second_pd).error(), ENOENT);
    const auto pd = import(other_, Op::kImportPd, device.context, second_pd).as<abi::HandleReply>();
    EXPECT_EQ(import(other_, Op::kImportMr, pd.handle, mr.handle).error(), EINVAL) << "of another PD";
    EXPECT_EQ(import(other_, Op::kImportMr, 77, mr.handle).error(), ENOENT);
    const std::uint32_t own = other_.open();
    EXPECT_EQ(import(other_, Op::kImportPd, own, pd_).error(), EINVAL) << "not an imported context";
    EXPECT_EQ(import(other_, Op::kImportMr, other_.pd(own), mr.handle).error(), EINVAL);
}

TEST_F(Sharing, FromItsOwnContextNobodyImports) {
    EXPECT_EQ(import(client_, Op::kImportPd, context_, pd_).error(), EINVAL);
    EXPECT_EQ(import(client_, Op::kImportMr, pd_, region(kAccessLocalWrite).handle).error(), EINVAL);
    EXPECT_EQ(import(client_, Op::kImportDm, context_, alloc(100).as<abi::DmReply>().handle).error(), EINVAL);
}

// The kernel may give a new file the number of one that has gone.
TEST_F(Sharing, AContextThatHasTheNumberOfOneBeforeIsAnother) {
    const auto device = import_device(other_, client_.tokens[0].get()).as<abi::ImportDeviceReply>();
    EXPECT_EQ(import(other_, Op::kImportPd, device.context, pd_).error(), 0);
    on_control_thread([&] {
        for (auto& [token, owner] : control.contexts) {
            owner.serial = control.next_context_serial++;
        }
    });
    EXPECT_EQ(import(other_, Op::kImportPd, device.context, pd_).error(), EINVAL);
    const auto again = import_device(other_, client_.tokens[0].get()).as<abi::ImportDeviceReply>();
    EXPECT_EQ(import(other_, Op::kImportPd, again.context, pd_).error(), 0);
}

TEST_F(Sharing, TheTokenIsEmptyAndStaysSo) {
    const int token = client_.tokens[0].get();
    EXPECT_EQ(write(token, "x", 1), -1);
    EXPECT_EQ(ftruncate(token, 10), -1);
}

}  // namespace
}  // namespace urnic::daemon
