// Parent domains with allocators: QPs, CQs and SRQs lie where the application's allocators put them.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "tests/unit/verbs_provider/provider_fixture.h"

namespace urnic::test {
namespace {

/// Allocators that note what they are asked, and answer as they are told to.
struct Allocators {
    enum class Answer { kMemory, kDefault, kNothing, kMisaligned };
    struct Block {
        char* memory;
        std::size_t bytes;
        std::uint64_t resource;
    };

    static void* alloc(struct ibv_pd* domain, void* context, std::size_t bytes, std::size_t alignment,
                       std::uint64_t resource) {
        auto& self = *static_cast<Allocators*>(context);
        EXPECT_EQ(domain, self.domain);
        EXPECT_NE(bytes, 0U);
        EXPECT_EQ(alignment & (alignment - 1), 0U);
        ++self.asked;
        if (self.answer == Answer::kDefault) return IBV_ALLOCATOR_USE_DEFAULT;
        if (self.answer == Answer::kNothing) return nullptr;
        // Dirty, and one word more than asked for, so that there is a misaligned place too.
        auto* memory = static_cast<char*>(std::aligned_alloc(64, (bytes + alignment + 127) / 64 * 64));
        std::memset(memory, 0xa5, bytes + alignment);
        memory += self.answer == Answer::kMisaligned ? 1 : 0;
        self.blocks.push_back({memory, bytes, resource});
        return memory;
    }
    static void free(struct ibv_pd* domain, void* context, void* memory, std::uint64_t resource) {
        auto& self = *static_cast<Allocators*>(context);
        EXPECT_EQ(domain, self.domain);
        const auto block = std::find_if(self.blocks.begin(), self.blocks.end(),
                                        [&](const Block& one) { return one.memory == memory; });
        ASSERT_NE(block, self.blocks.end()) << "never allocated, or freed twice";
        EXPECT_EQ(block->resource, resource);
        std::free(block->memory - (self.answer == Answer::kMisaligned ? 1 : 0));
        self.blocks.erase(block);
    }
    /// The kind of the object that lies at this address; 0: none of ours.
    [[nodiscard]] std::uint64_t resource_at(const void* address) const {
        for (const Block& block : blocks) {
            if (address >= block.memory && address < block.memory + block.bytes) return block.resource;
        }
        return 0;
    }

    struct ibv_pd* domain = nullptr;
    Answer answer = Answer::kMemory;
    int asked = 0;
    std::vector<Block> blocks;
};

class ParentDomain : public Provider {
  protected:
    void open_domain(std::uint32_t mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
                                          IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT) {
        open();
        struct ibv_parent_domain_init_attr attr {};
        attr.pd = pd;
        attr.comp_mask = mask;
        attr.alloc = Allocators::alloc;
        attr.free = Allocators::free;
        attr.pd_context = &allocators;
        domain = ibv_alloc_parent_domain(context, &attr);
        ASSERT_NE(domain, nullptr) << std::strerror(errno);
        allocators.domain = domain;
    }
    struct ibv_cq* make_cq() {
        struct ibv_cq_init_attr_ex attr {};
        attr.cqe = 8;
        attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
        attr.parent_domain = domain;
        struct ibv_cq_ex* made = ibv_create_cq_ex(context, &attr);
        return made != nullptr ? ibv_cq_ex_to_cq(made) : nullptr;
    }
    void TearDown() override {
        if (qp != nullptr) {
            EXPECT_EQ(ibv_destroy_qp(qp), 0);
        }
        if (cq != nullptr) {
            EXPECT_EQ(ibv_destroy_cq(cq), 0);
        }
        qp = nullptr;
        cq = nullptr;
        EXPECT_TRUE(allocators.blocks.empty()) << "never freed";
        if (domain != nullptr) {
            EXPECT_EQ(ibv_dealloc_pd(domain), 0);
        }
        Provider::TearDown();
    }

    Allocators allocators;
    struct ibv_pd* domain = nullptr;
};

TEST_F(ParentDomain, ObjectsLieWhereItsAllocatorsPutThem) {
    open_domain();
    cq = make_cq();
    ASSERT_NE(cq, nullptr);
    qp = ibv_create_qp(domain, &init_attr(4));
    ASSERT_NE(qp, nullptr) << std::strerror(errno);
    EXPECT_NE(allocators.resource_at(qp), 0U);
    EXPECT_NE(allocators.resource_at(cq), 0U);
    struct ibv_srq_init_attr srq_attr {};
    srq_attr.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
    struct ibv_srq* srq = ibv_create_srq(domain, &srq_attr);
    ASSERT_NE(srq, nullptr) << std::strerror(errno);
    EXPECT_NE(allocators.resource_at(srq), 0U);
    EXPECT_NE(allocators.resource_at(cq), allocators.resource_at(qp)) << "each kind has a number of its own";
    EXPECT_NE(allocators.resource_at(srq), allocators.resource_at(qp));
    EXPECT_NE(allocators.resource_at(srq), allocators.resource_at(cq));
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
    to_state(IBV_QPS_RTS);
    EXPECT_EQ(post_one(qp, send_request(1, &sge)), 0);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    qp = nullptr;
    EXPECT_EQ(allocators.blocks.size(), 1U) << "the CQ's";
    // What belongs to the plain domain has nothing to do with them.
    const int asked = allocators.asked;
    qp = ibv_create_qp(pd, &init_attr(4));
    ASSERT_NE(qp, nullptr);
    EXPECT_EQ(allocators.asked, asked);
}

TEST_F(ParentDomain, TheHeapWhereTheAllocatorsSaySo) {
    open_domain();
    allocators.answer = Allocators::Answer::kDefault;
    cq = make_cq();
    ASSERT_NE(cq, nullptr);
    qp = ibv_create_qp(domain, &init_attr(4));
    ASSERT_NE(qp, nullptr);
    EXPECT_EQ(allocators.asked, 2);
}

TEST_F(ParentDomain, AllocatorsWithoutMemory) {
    open_domain();
    cq = make_cq();
    ASSERT_NE(cq, nullptr);
    const std::size_t before = daemon.object_count();
    allocators.answer = Allocators::Answer::kNothing;
    errno = 0;
    EXPECT_EQ(ibv_create_qp(domain, &init_attr(4)), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    errno = 0;
    EXPECT_EQ(make_cq(), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_EQ(daemon.object_count(), before);
    allocators.answer = Allocators::Answer::kMemory;
}

TEST_F(ParentDomain, MemoryThatIsNotAlignedIsGivenBack) {
    open_domain();
    allocators.answer = Allocators::Answer::kMisaligned;
    errno = 0;
    EXPECT_EQ(make_cq(), nullptr);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_TRUE(allocators.blocks.empty());
}

TEST_F(ParentDomain, WhatTheDaemonRefusesIsGivenBack) {
    open_domain();
    cq = make_cq();
    ASSERT_NE(cq, nullptr);
    daemon.next_error = EMFILE;
    EXPECT_EQ(ibv_create_qp(domain, &init_attr(4)), nullptr);
    EXPECT_EQ(errno, EMFILE);
    EXPECT_EQ(allocators.asked, 2);
    EXPECT_EQ(allocators.blocks.size(), 1U) << "the CQ's";
}

TEST_F(ParentDomain, AttributesThatDoNotHoldTogether) {
    open();
    struct ibv_parent_domain_init_attr attr {};
    attr.pd = pd;
    attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
    attr.alloc = Allocators::alloc;
    errno = 0;
    EXPECT_EQ(ibv_alloc_parent_domain(context, &attr), nullptr) << "nothing to free with";
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(ParentDomain, AllocatorsWithoutTheirFlagMeanNothing) {
    open_domain(0);
    cq = make_cq();
    EXPECT_NE(cq, nullptr);
    EXPECT_EQ(allocators.asked, 0);
}

}  // namespace
}  // namespace urnic::test
