// Limits are honest: of every kind of object as many as the device reports can be made, one more is refused
// with ENOMEM or EINVAL, and all of it can be ended and made again.
#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "tests/e2e/verbs/endpoint.h"

namespace urnic::e2e {
namespace {

constexpr int kLocal = IBV_ACCESS_LOCAL_WRITE;

ibv_device_attr attributes_of(const Context& context) {
    ibv_device_attr attr{};
    EXPECT_EQ(ibv_query_device(context.get(), &attr), 0);
    return attr;
}

/// One kind of object: a row for each that has a limit in ibv_device_attr.
struct Kind {
    std::string name;
    int most;                                // as reported
    std::function<void*(std::size_t)> make;  // the n-th, from 0; nullptr and errno when it is refused
    std::function<int(void*)> end;
};

class DeviceLimits : public testing::Test {
  protected:
    void SetUp() override {
        context_ = open_device("urnic0");
        ASSERT_NE(context_, nullptr);
        attr_ = attributes_of(context_);
    }
    void TearDown() override {
        if (cq_ != nullptr) {
            EXPECT_EQ(ibv_destroy_cq(cq_), 0);
        }
        if (pd_ != nullptr) {
            EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
        }
    }
    // What an object of another kind needs: made when it is needed, so that it is not counted among those of
    // its own kind.
    ibv_pd* pd() {
        pd_ = pd_ != nullptr ? pd_ : ibv_alloc_pd(context_.get());
        return pd_;
    }
    ibv_cq* cq() {
        cq_ = cq_ != nullptr ? cq_ : ibv_create_cq(context_.get(), 16, nullptr, nullptr, 0);
        return cq_;
    }
    ibv_qp_init_attr qp_attr(std::uint32_t wr = 4, std::uint32_t sge = 1, std::uint32_t inline_bytes = 0) {
        ibv_qp_init_attr init{};
        init.send_cq = init.recv_cq = cq();
        init.cap = {wr, wr, sge, sge, inline_bytes};
        init.qp_type = IBV_QPT_RC;
        return init;
    }
    int error_of_qp(ibv_qp_init_attr init) {
        errno = 0;
        ibv_qp* qp = ibv_create_qp(pd(), &init);
        if (qp == nullptr) return errno;
        EXPECT_EQ(ibv_destroy_qp(qp), 0);
        return 0;
    }
    ibv_xrcd* open_domain_without_file() const {
        ibv_xrcd_init_attr init{};
        init.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
        init.fd = -1;
        init.oflags = O_CREAT;
        return ibv_open_xrcd(context_.get(), &init);
    }
    static void check(const Kind& kind) {
        SCOPED_TRACE(kind.name);
        const auto begin = std::chrono::steady_clock::now();
        std::vector<void*> made;
        made.reserve(static_cast<std::size_t>(kind.most));
        for (std::size_t i = 0; i < static_cast<std::size_t>(kind.most); ++i) {
            void* object = kind.make(i);
            EXPECT_NE(object, nullptr)
                << "number " << i << " of " << kind.most << ": " << std::strerror(errno);
            if (object == nullptr) break;
            made.push_back(object);
        }
        errno = 0;
        void* beyond = kind.make(made.size());
        EXPECT_EQ(beyond, nullptr) << "one more than reported";
        EXPECT_TRUE(errno == ENOMEM || errno == EINVAL) << std::strerror(errno);
        if (beyond != nullptr) {
            EXPECT_EQ(kind.end(beyond), 0);
        }
        for (void* object : made) ASSERT_EQ(kind.end(object), 0);
        void* again = kind.make(0);
        ASSERT_NE(again, nullptr) << std::strerror(errno);
        EXPECT_EQ(kind.end(again), 0);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        std::printf("%d %s in %.1f s\n", kind.most, kind.name.c_str(), took.count());
    }

    Context context_;
    ibv_device_attr attr_{};
    ibv_pd* pd_ = nullptr;
    ibv_cq* cq_ = nullptr;
};

TEST_F(DeviceLimits, ProtectionDomains) {
    check({"protection domains", attr_.max_pd, [&](std::size_t) { return ibv_alloc_pd(context_.get()); },
           [](void* pd) { return ibv_dealloc_pd(static_cast<ibv_pd*>(pd)); }});
}

TEST_F(DeviceLimits, CompletionQueues) {
    check({"completion queues", attr_.max_cq,
           [&](std::size_t) { return ibv_create_cq(context_.get(), 1, nullptr, nullptr, 0); },
           [](void* cq) { return ibv_destroy_cq(static_cast<ibv_cq*>(cq)); }});
}

TEST_F(DeviceLimits, QueuePairs) {
    check({"queue pairs", attr_.max_qp,
           [&](std::size_t) {
               ibv_qp_init_attr init = qp_attr();
               return ibv_create_qp(pd(), &init);
           },
           [](void* qp) { return ibv_destroy_qp(static_cast<ibv_qp*>(qp)); }});
}

TEST_F(DeviceLimits, QueuePairsOfOtherTypes) {
    ibv_xrcd* xrcd = open_domain_without_file();
    ASSERT_NE(xrcd, nullptr) << std::strerror(errno);
    constexpr std::pair<ibv_qp_type, const char*> kOthers[] = {{IBV_QPT_UC, "UC queue pairs"},
                                                               {IBV_QPT_UD, "UD queue pairs"},
                                                               {IBV_QPT_XRC_SEND, "XRC initiators"},
                                                               {IBV_QPT_XRC_RECV, "XRC targets"}};
    for (const auto& [type, name] : kOthers) {
        const bool is_target = type == IBV_QPT_XRC_RECV;
        ibv_qp_init_attr_ex init{};
        init.qp_type = type;
        init.comp_mask = is_target ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD;
        init.xrcd = xrcd;
        init.pd = pd();
        init.send_cq = cq();
        init.recv_cq = type == IBV_QPT_XRC_SEND ? nullptr : cq();
        init.cap = {4, type == IBV_QPT_XRC_SEND ? 0U : 4U, 1, type == IBV_QPT_XRC_SEND ? 0U : 1U, 0};
        check({name, attr_.max_qp,
               [&](std::size_t) {
                   ibv_qp_init_attr_ex wish = init;
                   return ibv_create_qp_ex(context_.get(), &wish);
               },
               [](void* qp) { return ibv_destroy_qp(static_cast<ibv_qp*>(qp)); }});
    }
    EXPECT_EQ(ibv_close_xrcd(xrcd), 0);
}

TEST_F(DeviceLimits, AddressHandles) {
    ibv_ah_attr address = address_of(context_.get());
    check({"address handles", attr_.max_ah, [&](std::size_t) { return ibv_create_ah(pd(), &address); },
           [](void* ah) { return ibv_destroy_ah(static_cast<ibv_ah*>(ah)); }});
}

TEST_F(DeviceLimits, MemoryRegionsSideBySide) {
    const Buffer buffer(64U << 20U);
    check({"memory regions", attr_.max_mr,
           [&](std::size_t i) { return ibv_reg_mr(pd(), buffer.data() + i % 65'536 * 1024, 1024, kLocal); },
           [](void* mr) { return ibv_dereg_mr(static_cast<ibv_mr*>(mr)); }});
}

TEST_F(DeviceLimits, MemoryWindows) {
    check({"memory windows", attr_.max_mw, [&](std::size_t) { return ibv_alloc_mw(pd(), IBV_MW_TYPE_2); },
           [](void* mw) { return ibv_dealloc_mw(static_cast<ibv_mw*>(mw)); }});
}

TEST_F(DeviceLimits, SharedReceiveQueues) {
    ibv_srq_init_attr init{};
    init.attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0};
    check({"shared receive queues", attr_.max_srq, [&](std::size_t) { return ibv_create_srq(pd(), &init); },
           [](void* srq) { return ibv_destroy_srq(static_cast<ibv_srq*>(srq)); }});
}

// No attribute tells their number: it is the default of max_xrcds.
TEST_F(DeviceLimits, XrcDomains) {
    check({"XRC domains", 1024, [&](std::size_t) { return open_domain_without_file(); },
           [](void* xrcd) { return ibv_close_xrcd(static_cast<ibv_xrcd*>(xrcd)); }});
}

// What is reported is the largest piece. How many, and how much in all: the defaults of max_dms and
// max_device_memory_bytes.
TEST_F(DeviceLimits, DeviceMemory) {
    constexpr int kMostPieces = 1024;
    constexpr std::size_t kMostBytes = std::size_t{64} << 20U;
    ibv_device_attr_ex device{};
    ASSERT_EQ(ibv_query_device_ex(context_.get(), nullptr, &device), 0);
    ibv_alloc_dm_attr piece{};
    const auto make = [&](std::size_t) { return ibv_alloc_dm(context_.get(), &piece); };
    const auto end = [](void* dm) { return ibv_free_dm(static_cast<ibv_dm*>(dm)); };
    piece.length = device.max_dm_size;
    check({"largest pieces of device memory", static_cast<int>(kMostBytes / piece.length), make, end});
    piece.length = kMostBytes / kMostPieces;
    check({"equal pieces of all device memory", kMostPieces, make, end});
    piece.length = 1;  // takes a page
    check({"pieces of device memory", kMostPieces, make, end});
}

ibv_gid group_number(std::size_t n) {
    return {{0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xab, static_cast<std::uint8_t>(n >> 16U),
             static_cast<std::uint8_t>(n >> 8U), static_cast<std::uint8_t>(n)}};
}

class MulticastNumbers : public DeviceLimits {
  protected:
    void make_qps(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            ibv_qp_init_attr init = qp_attr();
            init.qp_type = IBV_QPT_UD;
            ibv_qp* qp = ibv_create_qp(pd(), &init);
            ASSERT_NE(qp, nullptr) << std::strerror(errno);
            qps_.push_back(qp);
        }
    }
    /// Membership `n` is that of QP n % qps in group n / qps.
    void* attach(std::size_t n) {
        const ibv_gid group = group_number(n / qps_.size());
        errno = ibv_attach_mcast(qps_[n % qps_.size()], &group, 0);
        return errno == 0 ? &memberships_.emplace_back(n) : nullptr;
    }
    int detach(const void* membership) {
        const std::size_t n = *static_cast<const std::size_t*>(membership);
        const ibv_gid group = group_number(n / qps_.size());
        return ibv_detach_mcast(qps_[n % qps_.size()], &group, 0);
    }
    void check_memberships(const char* name, int most) {
        check({name, most, [&](std::size_t n) { return attach(n); }, [&](void* n) { return detach(n); }});
    }
    void TearDown() override {
        for (ibv_qp* qp : qps_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
        DeviceLimits::TearDown();
    }

    std::vector<ibv_qp*> qps_;
    std::deque<std::size_t> memberships_;
};

TEST_F(MulticastNumbers, Groups) {
    make_qps(1);
    check_memberships("multicast groups", attr_.max_mcast_grp);
}

TEST_F(MulticastNumbers, MembersOfAGroup) {
    make_qps(static_cast<std::size_t>(attr_.max_mcast_qp_attach) + 1);
    check_memberships("members of a group", attr_.max_mcast_qp_attach);
}

// As many in each group as it takes, so that groups are left when there is no membership left.
TEST_F(MulticastNumbers, Memberships) {
    make_qps(static_cast<std::size_t>(attr_.max_mcast_qp_attach));
    ASSERT_LT(attr_.max_total_mcast_qp_attach / attr_.max_mcast_qp_attach, attr_.max_mcast_grp);
    check_memberships("memberships", attr_.max_total_mcast_qp_attach);
}

// Addresses with no memory behind them, which no machine has too few of.
TEST_F(DeviceLimits, LengthOfARegion) {
    const std::size_t most = attr_.max_mr_size;
    const std::size_t page = 4096;
    void* memory = mmap(nullptr, most + page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(memory, MAP_FAILED) << std::strerror(errno);
    ibv_mr* mr = ibv_reg_mr(pd(), memory, most, kLocal);
    EXPECT_NE(mr, nullptr) << std::strerror(errno);
    errno = 0;
    if (mr != nullptr) {
        EXPECT_EQ(ibv_reg_mr(pd(), static_cast<char*>(memory) + most, 1, kLocal), nullptr);
        EXPECT_EQ(errno, ENOMEM) << "one region has all that a program may register";
        EXPECT_EQ(ibv_dereg_mr(mr), 0);
    }
    EXPECT_EQ(ibv_reg_mr(pd(), memory, most + 1, kLocal), nullptr);
    EXPECT_TRUE(errno == ENOMEM || errno == EINVAL) << std::strerror(errno);
    EXPECT_EQ(munmap(memory, most + page), 0);
}

// A region on every other page: each would take mappings of its own, and a process has 65,530 of them.
TEST_F(DeviceLimits, MemoryRegionsApart) {
    const std::size_t page = 4096;
    const Buffer buffer(2 * page * static_cast<std::size_t>(attr_.max_mr + 1));
    check({"memory regions on pages apart", attr_.max_mr,
           [&](std::size_t i) { return ibv_reg_mr(pd(), buffer.data() + 2 * page * i, page, kLocal); },
           [](void* mr) { return ibv_dereg_mr(static_cast<ibv_mr*>(mr)); }});
}

TEST_F(DeviceLimits, SizesOfQueues) {
    const auto most_wr = static_cast<std::uint32_t>(attr_.max_qp_wr);
    const auto most_sge = static_cast<std::uint32_t>(attr_.max_sge);
    EXPECT_EQ(error_of_qp(qp_attr(most_wr, most_sge)), 0);
    EXPECT_EQ(error_of_qp(qp_attr(most_wr + 1, 1)), EINVAL);
    EXPECT_EQ(error_of_qp(qp_attr(1, most_sge + 1)), EINVAL);
    EXPECT_EQ(error_of_qp(qp_attr(~0U, 1)), EINVAL);
    // No attribute tells how much fits inline: it is found by asking, as programs do.
    std::uint32_t inline_bytes = 0;
    while (error_of_qp(qp_attr(1, 1, inline_bytes + 1)) == 0) ++inline_bytes;
    EXPECT_EQ(inline_bytes, 1024U);
    EXPECT_EQ(error_of_qp(qp_attr(most_wr, most_sge, inline_bytes)), 0) << "all of it at once";
    ibv_srq_init_attr srq{};
    srq.attr = {.max_wr = static_cast<std::uint32_t>(attr_.max_srq_wr),
                .max_sge = static_cast<std::uint32_t>(attr_.max_srq_sge),
                .srq_limit = 0};
    ibv_srq* longest = ibv_create_srq(pd(), &srq);
    ASSERT_NE(longest, nullptr) << std::strerror(errno);
    EXPECT_EQ(ibv_destroy_srq(longest), 0);
    for (const bool longer : {true, false}) {
        ibv_srq_init_attr beyond = srq;
        beyond.attr.max_wr = longer ? static_cast<std::uint32_t>(attr_.max_srq_wr) + 1 : 1;
        beyond.attr.max_sge = static_cast<std::uint32_t>(attr_.max_srq_sge) + (longer ? 0 : 1);
        errno = 0;
        EXPECT_EQ(ibv_create_srq(pd(), &beyond), nullptr) << (longer ? "entries" : "SGEs");
        EXPECT_EQ(errno, EINVAL);
    }
    ibv_cq* largest = ibv_create_cq(context_.get(), attr_.max_cqe, nullptr, nullptr, 0);
    ASSERT_NE(largest, nullptr) << std::strerror(errno);
    EXPECT_GE(largest->cqe, attr_.max_cqe);
    EXPECT_EQ(ibv_destroy_cq(largest), 0);
    errno = 0;
    EXPECT_EQ(ibv_create_cq(context_.get(), attr_.max_cqe + 1, nullptr, nullptr, 0), nullptr);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(DeviceLimits, OutstandingReadsAndAtomics) {
    EXPECT_EQ(attr_.max_qp_init_rd_atom, attr_.max_qp_rd_atom);
    EXPECT_EQ(attr_.max_res_rd_atom, attr_.max_qp * attr_.max_qp_rd_atom);
    const auto most = static_cast<std::uint8_t>(attr_.max_qp_rd_atom);
    for (const int more : {0, 1}) {
        const Endpoint a("urnic0");
        const Endpoint b("urnic1");
        PathOptions path;
        path.max_rd_atomic = static_cast<std::uint8_t>(most + more);
        ASSERT_EQ(to_init(a, path), 0);
        EXPECT_EQ(to_rtr(a, b, 0, path), more == 0 ? 0 : EINVAL) << "as responder";
        path.max_rd_atomic = most;
        if (more != 0) {
            ASSERT_EQ(to_rtr(a, b, 0, path), 0);
        }
        path.max_rd_atomic = static_cast<std::uint8_t>(most + more);
        EXPECT_EQ(to_rts(a, 0, path), more == 0 ? 0 : EINVAL) << "as requester";
    }
}

// The port's max_msg_sz, gathered from and scattered to one buffer again and again.
TEST_F(DeviceLimits, TheLongestMessage) {
    ibv_port_attr port{};
    ASSERT_EQ(ibv_query_port(context_.get(), 1, &port), 0);
    constexpr std::uint32_t kPieces = 16;
    const std::uint32_t piece = port.max_msg_sz / kPieces;
    EndpointOptions options;
    options.buffer_bytes = piece + 4096;
    const Endpoint a("urnic0", options);
    const Endpoint b("urnic1", options);
    connect(a, b);
    fill(a.at(0), piece, 5);
    b.post_recv(1, std::vector<ibv_sge>(kPieces, b.sge(0, piece)));
    std::vector<ibv_sge> sges(kPieces, a.sge(0, piece));
    ibv_send_wr wr = request(IBV_WR_SEND, 2, sges.data(), kPieces);
    a.post(wr);
    a.expect_success(2, IBV_WC_SEND);
    const ibv_wc received = b.poll_one();
    EXPECT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.byte_len, port.max_msg_sz);
    EXPECT_EQ(first_difference(b.at(0), piece, 5), -1);
    ++sges.back().length;
    a.post(wr);
    EXPECT_EQ(a.poll_one().status, IBV_WC_LOC_LEN_ERR);
}

TEST_F(DeviceLimits, GatheredAndScattered) {
    EXPECT_EQ(attr_.max_sge_rd, attr_.max_sge);
    EndpointOptions options;
    options.max_sge = static_cast<std::uint32_t>(attr_.max_sge);
    const Endpoint a("urnic0", options);
    const Endpoint b("urnic1", options);
    connect(a, b);
    constexpr std::uint32_t kPiece = 100;
    std::vector<ibv_sge> sges;
    for (int i = 0; i <= attr_.max_sge_rd; ++i) {
        sges.push_back(a.sge(static_cast<std::size_t>(i) * kPiece, kPiece));
    }
    const auto bytes = static_cast<std::size_t>(attr_.max_sge_rd) * kPiece;
    fill(b.at(0), bytes, 6);
    ibv_send_wr wr = request(IBV_WR_RDMA_READ, 1, sges.data(), attr_.max_sge_rd);
    wr.wr.rdma.remote_addr = b.address(0);
    wr.wr.rdma.rkey = b.mr->rkey;
    a.post(wr);
    a.expect_success(1, IBV_WC_RDMA_READ);
    EXPECT_EQ(first_difference(a.at(0), bytes, 6), -1);
    ++wr.num_sge;
    ibv_send_wr* bad = nullptr;
    EXPECT_NE(ibv_post_send(a.qp, &wr, &bad), 0);
    EXPECT_EQ(bad, &wr);
}

// What is reported as 0 is not there, and the ports, P_Keys and GIDs that are counted are there.
TEST_F(DeviceLimits, WhatIsCountedAndWhatIsNone) {
    for (const int none :
         {attr_.max_ee, attr_.max_rdd, attr_.max_ee_rd_atom, attr_.max_ee_init_rd_atom, attr_.max_raw_ipv6_qp,
          attr_.max_raw_ethy_qp, attr_.max_fmr, attr_.max_map_per_fmr}) {
        EXPECT_EQ(none, 0);
    }
    ibv_qp_init_attr raw = qp_attr();
    raw.qp_type = IBV_QPT_RAW_PACKET;
    EXPECT_EQ(error_of_qp(raw), EOPNOTSUPP);
    ibv_port_attr port{};
    for (std::uint8_t number = 0; number <= attr_.phys_port_cnt + 1; ++number) {
        const bool is_one = number != 0 && number <= attr_.phys_port_cnt;
        EXPECT_EQ(ibv_query_port(context_.get(), number, &port) == 0, is_one) << int{number};
    }
    ASSERT_EQ(ibv_query_port(context_.get(), 1, &port), 0);
    EXPECT_EQ(port.pkey_tbl_len, attr_.max_pkeys);
    std::uint16_t pkey = 0;
    EXPECT_EQ(ibv_query_pkey(context_.get(), 1, attr_.max_pkeys - 1, &pkey), 0);
    EXPECT_NE(ibv_query_pkey(context_.get(), 1, attr_.max_pkeys, &pkey), 0);
    ibv_gid gid{};
    EXPECT_EQ(ibv_query_gid(context_.get(), 1, port.gid_tbl_len - 1, &gid), 0);
    EXPECT_NE(ibv_query_gid(context_.get(), 1, port.gid_tbl_len, &gid), 0);
}

// Everything at once: mappings and descriptors are shared by all kinds.
TEST_F(DeviceLimits, QueuePairsAndCompletionQueuesTogether) {
    std::vector<ibv_cq*> cqs;
    std::vector<ibv_qp*> qps;
    for (int i = 0; i < attr_.max_cq; ++i) {
        ibv_cq* made = ibv_create_cq(context_.get(), 1, nullptr, nullptr, 0);
        ASSERT_NE(made, nullptr) << "CQ " << i << ": " << std::strerror(errno);
        cqs.push_back(made);
    }
    cq_ = cqs.back();
    for (int i = 0; i < attr_.max_qp; ++i) {
        ibv_qp_init_attr init = qp_attr();
        init.send_cq = cqs[static_cast<std::size_t>(i) % cqs.size()];
        ibv_qp* made = ibv_create_qp(pd(), &init);
        ASSERT_NE(made, nullptr) << "QP " << i << ": " << std::strerror(errno);
        qps.push_back(made);
    }
    for (ibv_qp* qp : qps) ASSERT_EQ(ibv_destroy_qp(qp), 0);
    cq_ = nullptr;
    for (ibv_cq* made : cqs) ASSERT_EQ(ibv_destroy_cq(made), 0);
}

}  // namespace
}  // namespace urnic::e2e
