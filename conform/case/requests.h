// What a case asks of the device under test: how a QP is made and connected, work requests, completions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "abi/queues.h"
#include "abi/verbs_values.h"

namespace urnic::conform {

inline constexpr std::uint32_t kAllAccess =
    kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;
/// Of the datagram QPs, where a test does not say otherwise.
inline constexpr std::uint32_t kQkey = 0x1111'1111;

/// How a QP is connected; the defaults are generous.
struct ConnectOptions {
    std::uint32_t mtu = 1024;
    std::uint32_t psn_a = 1000;  // first PSN that the QP under test sends
    std::uint32_t psn_b = 2000;
    std::uint8_t timeout = 18;  // 1.07 s: long behind what a busy machine takes
    std::uint8_t retry_cnt = 7;
    std::uint8_t rnr_retry = 7;
    std::uint8_t min_rnr_timer = 12;  // 0.64 ms
    std::uint8_t max_rd_atomic = 16;
    std::uint8_t max_dest_rd_atomic = 16;
    std::uint32_t access = kAllAccess;
    std::uint32_t qkey = kQkey;
    std::uint8_t traffic_class = 0;  // of what the QP under test sends
    std::uint8_t sl = 0;             // the same
};

/// A send work request, as ibv_post_send has it.
struct SendRequest {
    WrOpcode opcode = WrOpcode::kSend;
    std::uint64_t wr_id = 0;
    std::uint16_t flags = kSendSignaled;
    std::vector<abi::Sge> sge = {};
    std::vector<std::byte> inline_data = {};  // with kSendInline
    std::uint64_t remote_addr = 0;
    std::uint32_t rkey = 0;
    std::uint32_t imm_or_rkey = 0;
    std::uint64_t compare_add = 0;
    std::uint64_t swap = 0;
    // UD
    std::uint32_t address_handle = 0;
    std::uint32_t remote_qp_num = 0;
    std::uint32_t remote_qkey = 0;
    // BIND_MW: `rkey` is the new key, from `remote_addr` of the region, `compare_add` bytes.
    std::uint32_t region_key = 0;
    std::uint32_t window_access = 0;
    std::uint32_t srq_number = 0;  // XRC
};

/// A completion as a case expects it; what is not given is not looked at.
struct Wc {
    std::uint64_t wr_id = 0;
    WcStatus status = WcStatus::kSuccess;
    std::optional<std::uint32_t> byte_len = {};
    std::optional<WcOpcode> opcode = {};
    std::optional<std::uint32_t> imm = {};          // as it lies on the wire; implies that there is one
    std::optional<std::uint32_t> invalidated = {};  // likewise
    std::optional<std::uint32_t> wqe_index = {};

    Wc& bytes(std::uint32_t value) {
        byte_len = value;
        return *this;
    }
    Wc& op(WcOpcode value) {
        opcode = value;
        return *this;
    }
    Wc& with_imm(std::uint32_t value) {
        imm = value;
        return *this;
    }
    Wc& with_invalidated(std::uint32_t key) {
        invalidated = key;
        return *this;
    }
    Wc& wqe(std::uint32_t index) {
        wqe_index = index;
        return *this;
    }
};
inline Wc ok(std::uint64_t wr_id) { return {wr_id, WcStatus::kSuccess}; }
inline Wc flushed(std::uint64_t wr_id) { return {wr_id, WcStatus::kWrFlushErr}; }
inline Wc failed(std::uint64_t wr_id, WcStatus status) { return {wr_id, status}; }

/// One or several: `completes(ok(1))`, `completes({ok(1), ok(2)})`.
class Wcs : public std::vector<Wc> {
  public:
    Wcs() = default;
    Wcs(const Wc& wc) : vector{wc} {}
    Wcs(std::initializer_list<Wc> list) : vector(list) {}
};
class SendRequests : public std::vector<SendRequest> {
  public:
    SendRequests(const SendRequest& request) : vector{request} {}
    SendRequests(std::initializer_list<SendRequest> list) : vector(list) {}
};

/// A completion that the device under test made.
struct SeenCompletion {
    std::uint64_t wr_id = 0;
    WcStatus status = WcStatus::kSuccess;
    std::uint8_t opcode = 0;
    std::uint32_t byte_len = 0;
    std::uint32_t flags = 0;
    std::uint32_t imm_or_rkey = 0;
    std::optional<std::uint32_t> wqe_index = {};  // where an engine knows it
};

}  // namespace urnic::conform
