// Protection domains, memory in all its forms, address handles, XRC domains.
#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "tests/suites/torture/churn.h"

namespace urnic::torture {
namespace {

constexpr std::size_t kMostOfEach = 24;

int draw_access(Random& random) {
    constexpr std::array kChoices{0, int{IBV_ACCESS_LOCAL_WRITE},
                                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
                                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
                                  int{IBV_ACCESS_REMOTE_READ}};
    return kChoices[random.below(kChoices.size())];
}

}  // namespace

bool Pool::pd_in_use(const ibv_pd* pd) const {
    const auto made_from = [pd](const auto* object) { return object->pd == pd; };
    return std::any_of(mrs_.begin(), mrs_.end(),
                       [&](const Region& region) { return made_from(region.mr); }) ||
           std::any_of(qps_.begin(), qps_.end(), [&](const Queue& queue) { return made_from(queue.qp); }) ||
           std::any_of(mws_.begin(), mws_.end(),
                       [&](const Window& window) { return made_from(window.mw); }) ||
           std::any_of(srqs_.begin(), srqs_.end(), made_from) ||
           std::any_of(ahs_.begin(), ahs_.end(), made_from);
}

void Pool::create_pd() {
    if (pds_.size() >= 6) return;
    ibv_pd* pd = ibv_alloc_pd(context_);
    if (pd == nullptr) fail("alloc_pd");
    pds_.push_back(pd);
    shared_.count("alloc_pd");
}

void Pool::destroy_pd() {
    if (pds_.empty()) return;
    ibv_pd*& pd = any(pds_);
    const bool in_use = pd_in_use(pd);
    expect(ibv_dealloc_pd(pd), in_use, "dealloc_pd");
    if (!in_use) forget(pds_, pd);
}

/// Memory of every kind; never written by whoever reaches it through the key, so that others may verify what
/// is there.
Region Pool::draw_memory() {
    Region region;
    region.bytes = random_.one_in(10) ? random_.between(1, 4U << 20U) : random_.between(1, 100'000);
    switch (random_.below(4)) {
        case 0:
            region.memory = std::malloc(region.bytes);
            region.heap = true;
            break;
        case 1:
            region.memory =
                mmap(nullptr, region.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            break;
        case 2:
            region.memory =
                mmap(nullptr, region.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
            break;
        default:
            // A piece of what others transfer in.
            region.bytes = std::min(region.bytes, shared_.arena_bytes());
    }
    if (region.memory == MAP_FAILED) fail("no memory");
    return region;
}

void Pool::create_mr() {
    if (pds_.empty() || mrs_.size() >= kMostOfEach) return;
    Region region = draw_memory();
    void* start = region.memory != nullptr
                      ? region.memory
                      : shared_.arena() + random_.below(shared_.arena_bytes() - region.bytes + 1);
    if (region.memory != nullptr) std::memset(start, 0x11, region.bytes);
    region.mr = ibv_reg_mr(any(pds_), start, region.bytes, draw_access(random_));
    if (region.mr == nullptr) fail("reg_mr of %zu bytes", region.bytes);
    mrs_.push_back(region);
    shared_.count("reg_mr");
}

void Pool::create_dm() {
    if (pds_.empty() || mrs_.size() >= kMostOfEach) return;
    ibv_alloc_dm_attr attr{};
    attr.length = random_.between(1, 512) * 8;
    Region region;
    region.dm = ibv_alloc_dm(context_, &attr);
    if (region.dm == nullptr) {
        if (shared_.not_offered("device memory")) return;
        fail("alloc_dm of %zu bytes", attr.length);
    }
    std::array<std::uint64_t, 2> words{random_.next(), 0};
    if (ibv_memcpy_to_dm(region.dm, attr.length - 8, &words[0], 8) != 0 ||
        ibv_memcpy_from_dm(&words[1], region.dm, attr.length - 8, 8) != 0 || words[0] != words[1]) {
        fail("copies to and from device memory");
    }
    region.mr =
        ibv_reg_dm_mr(any(pds_), region.dm, 0, attr.length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED);
    if (region.mr == nullptr) fail("reg_dm_mr");
    mrs_.push_back(region);
    shared_.count("alloc_dm");
}

void Pool::rereg_mr() {
    if (mrs_.empty()) return;
    Region& region = any(mrs_);
    if (region.dm != nullptr) return;
    const bool rights = random_.one_in(2);
    const int flags = rights ? IBV_REREG_MR_CHANGE_ACCESS : IBV_REREG_MR_CHANGE_PD;
    const int result =
        ibv_rereg_mr(region.mr, flags, any(pds_), nullptr, 0, rights ? draw_access(random_) : 0);
    if (result == 0) return shared_.count("rereg_mr");
    if (!shared_.not_offered("rereg_mr")) fail("rereg_mr returned %d", result);
}

void Pool::release(Region& region) {
    expect(ibv_dereg_mr(region.mr), false, "dereg_mr");
    if (region.dm != nullptr) expect(ibv_free_dm(region.dm), false, "free_dm");
    if (region.heap)
        std::free(region.memory);
    else if (region.memory != nullptr)
        munmap(region.memory, region.bytes);
}

void Pool::destroy_mr() {
    if (mrs_.empty()) return;
    Region& region = any(mrs_);
    release(region);
    forget(mrs_, region);
}

void Pool::create_ah() {
    if (pds_.empty() || ahs_.size() >= kMostOfEach) return;
    ibv_ah_attr attr{};
    attr.is_global = 1;
    attr.port_num = kPort;
    attr.grh.dgid = peer_;
    attr.grh.sgid_index = kGid;
    attr.grh.hop_limit = static_cast<std::uint8_t>(random_.between(1, 255));
    ibv_ah* ah = ibv_create_ah(any(pds_), &attr);
    if (ah == nullptr) fail("create_ah");
    ahs_.push_back(ah);
    shared_.count("create_ah");
}

void Pool::destroy_ah() {
    if (ahs_.empty()) return;
    ibv_ah*& ah = any(ahs_);
    expect(ibv_destroy_ah(ah), false, "destroy_ah");
    forget(ahs_, ah);
}

void Pool::create_mw() {
    if (pds_.empty() || mws_.size() >= kMostOfEach) return;
    Window window;
    window.type = random_.one_in(2) ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2;
    window.mw = ibv_alloc_mw(any(pds_), window.type);
    if (window.mw == nullptr) {
        if (shared_.not_offered("memory window")) return;
        fail("alloc_mw");
    }
    mws_.push_back(window);
    shared_.count("alloc_mw");
}

void Pool::destroy_mw() {
    if (mws_.empty()) return;
    Window& window = any(mws_);
    expect(ibv_dealloc_mw(window.mw), false, "dealloc_mw");
    forget(mws_, window);
}

void Pool::create_xrcd() {
    if (xrcds_.size() >= 3) return;
    ibv_xrcd_init_attr attr{};
    attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    attr.fd = -1;
    attr.oflags = O_CREAT;
    ibv_xrcd* xrcd = ibv_open_xrcd(context_, &attr);
    if (xrcd == nullptr) {
        if (shared_.not_offered("XRC domain")) return;
        fail("open_xrcd");
    }
    xrcds_.push_back(xrcd);
    shared_.count("open_xrcd");
}

void Pool::destroy_xrcd() {
    if (xrcds_.empty()) return;
    ibv_xrcd*& xrcd = any(xrcds_);
    // What hangs on it is not kept here; it answers EBUSY then.
    const int result = ibv_close_xrcd(xrcd);
    if (result == EBUSY) return;
    expect(result, false, "close_xrcd");
    forget(xrcds_, xrcd);
}

}  // namespace urnic::torture
