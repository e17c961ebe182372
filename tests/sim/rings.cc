#include "tests/sim/rings.h"

#include <algorithm>

#include "base/check.h"

namespace urnic::sim {

namespace {

abi::WrOperands operands_of(const SendRequest& request, QpType type) {
    if (type == QpType::kUd) {
        return {.ud = {.remote_qp_num = request.remote_qp_num,
                       .remote_qkey = request.remote_qkey,
                       .address_handle = request.address_handle}};
    }
    if (request.opcode == WrOpcode::kBindMw) {
        return {.mw = {.addr = request.remote_addr,
                       .new_key = request.rkey,
                       .region_lkey = request.region_key,
                       .length = request.compare_add,
                       .access = request.window_access}};
    }
    if (request.opcode == WrOpcode::kFlush) {
        return {.flush = {.remote_addr = request.remote_addr,
                          .rkey = request.rkey,
                          .feth = static_cast<std::uint32_t>(request.swap),
                          .length = request.compare_add}};
    }
    return {.atomic = {.remote_addr = request.remote_addr,  // the first two are those of WRITE and READ, too
                       .rkey = request.rkey,
                       .reserved = 0,
                       .compare_add = request.compare_add,
                       .swap = request.swap}};
}

}  // namespace

SendRing::SendRing(std::uint32_t entries, std::uint32_t max_sge, std::uint32_t max_inline)
    : entries_(entries),
      stride_(abi::send_stride(max_sge, max_inline)),
      max_sge_(max_sge),
      max_inline_(max_inline),
      memory_(zeroed_memory(std::size_t{entries} * stride_)) {}

SendQueue SendRing::queue() const {
    return SendQueue(memory_.get(), entries_, stride_, max_sge_, max_inline_);
}

void SendRing::post(const SendRequest& request, QpType type) {
    abi::SendWqe fields{};
    fields.opcode = static_cast<std::uint8_t>(request.opcode);
    fields.flags = request.flags;
    fields.wr_id = request.wr_id;
    fields.imm_or_rkey = request.imm_or_rkey;
    fields.wr = operands_of(request, type);
    fields.xrc_srq_number = request.srq_number;
    post(fields, request.sge, request.inline_data);
}

void SendRing::post(const abi::SendWqe& fields, std::span<const abi::Sge> sge,
                    std::span<const std::byte> inline_data) {
    const bool is_inline = (fields.flags & kSendInline) != 0;
    URNIC_CHECK(is_inline ? inline_data.size() <= max_inline_ : sge.size() <= max_sge_);
    abi::SendWqe& wqe = slot(next_);
    wqe.opcode = fields.opcode;
    wqe.flags = fields.flags;
    wqe.wr_id = fields.wr_id;
    wqe.imm_or_rkey = fields.imm_or_rkey;
    wqe.wr = fields.wr;
    wqe.xrc_srq_number = fields.xrc_srq_number;
    wqe.num_sge = is_inline ? 0 : static_cast<std::uint8_t>(sge.size());
    wqe.inline_length = is_inline ? static_cast<std::uint32_t>(inline_data.size()) : 0;
    const std::span<const std::byte> body = is_inline ? inline_data : std::as_bytes(sge);
    std::copy(body.begin(), body.end(), reinterpret_cast<std::byte*>(&wqe + 1));
    publish();
}

RecvRing::RecvRing(std::uint32_t entries, std::uint32_t max_sge)
    : entries_(entries),
      stride_(abi::recv_stride(max_sge)),
      max_sge_(max_sge),
      memory_(zeroed_memory(std::size_t{entries} * stride_)) {}

RecvQueue RecvRing::queue() const { return RecvQueue(memory_.get(), entries_, stride_, max_sge_); }

void RecvRing::post(std::uint64_t wr_id, std::span<const abi::Sge> sge) {
    URNIC_CHECK(sge.size() <= max_sge_);
    abi::RecvWqe& wqe = slot(next_);
    wqe.wr_id = wr_id;
    wqe.num_sge = static_cast<std::uint32_t>(sge.size());
    const std::span<const std::byte> body = std::as_bytes(sge);
    std::copy(body.begin(), body.end(), reinterpret_cast<std::byte*>(&wqe + 1));
    publish();
}

CompletionRing::CompletionRing(std::uint32_t entries)
    : entries_(entries), memory_(zeroed_memory(abi::cq_bytes(1, entries))), queue_(memory_.get(), entries) {}

}  // namespace urnic::sim
