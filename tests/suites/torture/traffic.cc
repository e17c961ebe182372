// Threads that transfer: batches of random operations over links that come and go, every byte verified.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "tests/suites/torture/link.h"
#include "tests/suites/torture/shared.h"

namespace urnic::torture {
namespace {

enum class What : std::uint8_t { kSend, kSendImm, kWrite, kWriteImm, kRead, kFetchAdd, kCompareSwap };

constexpr std::array<const char*, 7> kNames{
    "SEND", "SEND with immediate", "WRITE",           "WRITE with immediate",
    "READ", "fetch and add",       "compare and swap"};
constexpr std::array kOpcodes{
    IBV_WR_SEND,      IBV_WR_SEND_WITH_IMM,        IBV_WR_RDMA_WRITE,        IBV_WR_RDMA_WRITE_WITH_IMM,
    IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP};
constexpr std::uint8_t kPoison = 0xa5;

struct Operation {
    What what = What::kSend;
    std::uint32_t length = 0;
    std::uint32_t pattern = 0;
    std::uint64_t word = 0;  // what an atomic finds
    std::uint64_t operand = 0;

    [[nodiscard]] bool takes_receive() const { return what <= What::kSendImm || what == What::kWriteImm; }
    [[nodiscard]] bool with_immediate() const { return what == What::kSendImm || what == What::kWriteImm; }
    [[nodiscard]] bool atomic() const { return what >= What::kFetchAdd; }
};

std::uint8_t byte_of(std::uint32_t pattern, std::size_t position) {
    const auto mixed = (static_cast<std::uint32_t>(position) + pattern) * 2654435761U;
    return static_cast<std::uint8_t>(mixed >> 24U);
}

void fill(std::uint8_t* to, std::size_t length, std::uint32_t pattern) {
    for (std::size_t i = 0; i < length; ++i) to[i] = byte_of(pattern, i);
}

/// One batch in one direction, from side `from` to the other.
class Batch {
  public:
    Batch(Link& link, unsigned from) : link_(link), from_(from) { draw(); }

    void prepare();
    void post();
    /// All completions are there and good, and the data is where it belongs.
    void expect_done();
    /// One side or both fail at once: every request completes, well or flushed.
    void abandon();

  private:
    void draw();
    void post_one(std::size_t index);
    void fill_request(ibv_send_wr& request, const Operation& operation, std::size_t index);
    void verify(std::size_t index);
    void verify_receive(const ibv_wc& completion, const Operation& operation);
    [[nodiscard]] std::uint32_t grh() const { return link_.plan().type == IBV_QPT_UD ? kGrhBytes : 0; }
    [[nodiscard]] std::uint8_t* source(std::size_t i) {
        return link_.side(from_).slot(static_cast<unsigned>(i));
    }
    [[nodiscard]] std::uint8_t* target(std::size_t i) {
        return link_.side(1 - from_).slot(static_cast<unsigned>(i)) + grh();
    }

    Link& link_;
    unsigned from_;
    std::vector<Operation> operations_;
};

void Batch::draw() {
    Random& random = link_.random();
    const ibv_qp_type type = link_.plan().type;
    const std::uint32_t kinds = type == IBV_QPT_UD ? 2 : type == IBV_QPT_UC ? 4 : 7;
    operations_.resize(random.between(1, kSlots));
    for (Operation& operation : operations_) {
        operation.what = static_cast<What>(random.below(kinds));
        const std::uint32_t most =
            type == IBV_QPT_UD ? 4096 : static_cast<std::uint32_t>(link_.side(0).slot_bytes);
        operation.length =
            random.one_in(2) ? random.between(1, most) : random.between(1, std::min(most, 100U));
        if (operation.atomic()) operation.length = 8;
        operation.pattern = random.below(1U << 30U);
        operation.word = random.next();
        operation.operand = random.next();
    }
    // A UC sender completes before its data is written; a receive behind everything says that it is.
    if (type == IBV_QPT_UC) operations_.back().what = What::kSend;
}

void Batch::prepare() {
    for (std::size_t i = 0; i < operations_.size(); ++i) {
        const Operation& operation = operations_[i];
        if (operation.atomic()) {
            std::memcpy(target(i), &operation.word, sizeof(operation.word));
            std::memset(source(i), kPoison, sizeof(operation.word));
        } else if (operation.what == What::kRead) {
            fill(target(i), operation.length, operation.pattern);
            std::memset(source(i), kPoison, operation.length);
        } else {
            fill(source(i), operation.length, operation.pattern);
            std::memset(target(i), kPoison, operation.length);
        }
        if (operation.takes_receive()) {
            const std::uint32_t room = operation.what == What::kWriteImm ? 1 : operation.length + grh();
            link_.post_receive(1 - from_, i, target(i) - grh(), room);
        }
    }
}

void Batch::fill_request(ibv_send_wr& request, const Operation& operation, std::size_t index) {
    const Side& peer = link_.side(1 - from_);
    const auto remote = reinterpret_cast<std::uint64_t>(target(index));
    request.wr_id = 1000 + index;
    request.opcode = kOpcodes[static_cast<std::size_t>(operation.what)];
    request.send_flags = IBV_SEND_SIGNALED;
    if (operation.with_immediate()) request.imm_data = operation.pattern;
    if (operation.atomic()) {
        request.wr.atomic = {remote,
                             operation.what == What::kCompareSwap ? operation.word : operation.operand,
                             operation.operand, peer.rkey};
    } else if (operation.what >= What::kWrite) {
        request.wr.rdma = {remote, peer.rkey};
    }
    if (link_.plan().type == IBV_QPT_UD)
        request.wr.ud = {link_.side(from_).ah, peer.qp->qp_num, kTrafficQkey};
    if (link_.xrc()) request.qp_type.xrc.remote_srqn = peer.srq_number;
    const bool may_inline = operation.what <= What::kWriteImm && operation.length <= kMaxInline;
    if (may_inline && link_.random().one_in(2)) request.send_flags |= IBV_SEND_INLINE;
    if (link_.plan().type != IBV_QPT_UC && link_.plan().type != IBV_QPT_UD && link_.random().one_in(8)) {
        request.send_flags |= IBV_SEND_FENCE;
    }
}

void Batch::post_one(std::size_t index) {
    const Operation& operation = operations_[index];
    const Side& side = link_.side(from_);
    // In up to three pieces that together are the whole.
    std::array<ibv_sge, 3> elements{};
    const std::uint32_t pieces =
        operation.length >= 3 && !operation.atomic() ? link_.random().between(1, 3) : 1;
    std::uint32_t offset = 0;
    for (std::uint32_t piece = 0; piece < pieces; ++piece) {
        const std::uint32_t length =
            piece + 1 == pieces ? operation.length - offset : operation.length / pieces;
        elements[piece] = {reinterpret_cast<std::uint64_t>(source(index) + offset), length, side.mr->lkey};
        offset += length;
    }
    ibv_send_wr request{};
    fill_request(request, operation, index);
    request.sg_list = elements.data();
    request.num_sge = static_cast<int>(pieces);
    ibv_send_wr* bad = nullptr;
    const int result = ibv_post_send(side.qp, &request, &bad);
    if (result == 0) return;
    errno = result;
    fail("post_send of %s", kNames[static_cast<std::size_t>(operation.what)]);
}

void Batch::post() {
    for (std::size_t i = 0; i < operations_.size(); ++i) post_one(i);
}

void Batch::verify_receive(const ibv_wc& completion, const Operation& operation) {
    const char* name = kNames[static_cast<std::size_t>(operation.what)];
    if (completion.status != IBV_WC_SUCCESS)
        fail("receive of %s: %s", name, ibv_wc_status_str(completion.status));
    if (completion.byte_len != operation.length + grh()) {
        fail("receive of %s: %u bytes instead of %u", name, completion.byte_len, operation.length + grh());
    }
    const bool immediate = (completion.wc_flags & IBV_WC_WITH_IMM) != 0;
    if (immediate != operation.with_immediate() || (immediate && completion.imm_data != operation.pattern)) {
        fail("receive of %s: wrong immediate", name);
    }
}

void Batch::verify(std::size_t index) {
    const Operation& operation = operations_[index];
    const char* name = kNames[static_cast<std::size_t>(operation.what)];
    if (operation.atomic()) {
        std::uint64_t found = 0;
        std::uint64_t left = 0;
        std::memcpy(&found, source(index), sizeof(found));
        std::memcpy(&left, target(index), sizeof(left));
        const std::uint64_t expected =
            operation.what == What::kFetchAdd ? operation.word + operation.operand : operation.operand;
        if (found != operation.word || left != expected) fail("%s: wrong value", name);
        return;
    }
    const std::uint8_t* data = operation.what == What::kRead ? source(index) : target(index);
    for (std::uint32_t i = 0; i < operation.length; ++i) {
        if (data[i] == byte_of(operation.pattern, i)) continue;
        fail("%s of %u bytes, %s link: byte %u is %02x instead of %02x", name, operation.length,
             name_of(link_.plan().type), i, data[i], byte_of(operation.pattern, i));
    }
}

void Batch::expect_done() {
    for (std::size_t i = 0; i < operations_.size(); ++i) {
        const ibv_wc completion = link_.wait(from_);
        const char* name = kNames[static_cast<std::size_t>(operations_[i].what)];
        if (completion.status != IBV_WC_SUCCESS) {
            fail("%s of %u bytes, %s link: %s", name, operations_[i].length, name_of(link_.plan().type),
                 ibv_wc_status_str(completion.status));
        }
        if (completion.wr_id != 1000 + i) fail("%s: completion out of order", name);
    }
    for (std::size_t i = 0; i < operations_.size(); ++i) {
        if (!operations_[i].takes_receive()) continue;
        const ibv_wc completion = link_.wait(1 - from_);
        if (completion.wr_id != i) fail("receive out of order");
        verify_receive(completion, operations_[i]);
    }
    for (std::size_t i = 0; i < operations_.size(); ++i) verify(i);
    for (const Operation& operation : operations_) {
        link_.shared().count(std::string(name_of(link_.plan().type)) + " " +
                             kNames[static_cast<std::size_t>(operation.what)]);
    }
}

void Batch::abandon() {
    const std::uint32_t how = link_.random().below(3);
    if (how != 0) link_.to_error(1 - from_);
    if (how != 1) link_.to_error(from_);
    // Alone at the peer the error reaches a reliable requester as retries that nobody answers; no need to
    // wait for those.
    if (how == 1) link_.to_error(from_);
    for (std::size_t i = 0; i < operations_.size(); ++i) (void)link_.wait(from_);
    link_.shared().count("batch given up");
}

LinkPlan draw_plan(Random& random) {
    constexpr std::array kTypes{IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND};
    LinkPlan plan;
    plan.type = kTypes[random.below(kTypes.size())];
    plan.devices = {random.below(2), random.below(2)};
    plan.own_contexts = random.one_in(4);
    plan.channels = random.one_in(3);
    plan.receives = plan.type != IBV_QPT_UC && random.one_in(3) ? Receives::kSrq : Receives::kQp;
    plan.window = plan.type == IBV_QPT_RC && random.one_in(4) ? static_cast<int>(random.between(1, 2)) : 0;
    plan.mtu = static_cast<ibv_mtu>(random.between(IBV_MTU_256, IBV_MTU_4096));
    plan.psn = random.below(1U << 24U);
    return plan;
}

}  // namespace

void transfer(Shared& shared, unsigned thread, std::size_t part_bytes) {
    Random random(shared.seed() * 1000 + thread);
    Link link(shared, random, shared.arena() + thread * part_bytes, part_bytes);
    while (!shared.over()) {
        if (!link.open(draw_plan(random))) continue;
        shared.count(std::string(name_of(link.plan().type)) + " link");
        for (std::uint32_t batches = random.between(1, 60); batches > 0 && !shared.over(); --batches) {
            Batch batch(link, link.xrc() ? 0 : random.below(2));
            batch.prepare();
            batch.post();
            if (random.one_in(20)) {
                batch.abandon();
                break;
            }
            batch.expect_done();
        }
        link.close();
    }
}

}  // namespace urnic::torture
