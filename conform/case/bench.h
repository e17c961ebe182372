// What a case stands on: one QP under test, and the wire to it. The simulator has one in virtual time, the
// tester one in real time, with an agent beside the device and a port of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "abi/control.h"
#include "base/time.h"
#include "conform/case/requests.h"
#include "conform/case/script_packet.h"
#include "rnic/device/counters.h"
#include "rnic/wire/packet_view.h"

namespace urnic::conform {

/// Registered memory of the QP's application. Everything about its bytes may take a round trip.
class Region {
  public:
    virtual ~Region() = default;
    [[nodiscard]] virtual std::uint64_t addr(std::size_t offset = 0) const = 0;
    [[nodiscard]] virtual std::uint32_t key() const = 0;
    /// The L_Key; many devices make both keys the same.
    [[nodiscard]] virtual std::uint32_t local_key() const { return key(); }
    [[nodiscard]] virtual std::size_t size() const = 0;
    virtual void read(std::size_t offset, std::span<std::byte> to) = 0;
    virtual void write(std::size_t offset, std::span<const std::byte> from) = 0;
    [[nodiscard]] abi::Sge sge(std::size_t offset, std::uint32_t length) const {
        return {addr(offset), length, local_key()};
    }
};

/// A frame from the device under test, and when it came.
struct SeenFrame {
    TimeNs time = 0;
    FrameBytes bytes;                       // without a VLAN tag
    std::optional<std::uint16_t> vlan_tci;  // of the tag that it had
};

/// What an engine cannot know as exactly as virtual time does. All zero: nothing is open.
struct Tolerance {
    TimeNs patience_ns = 0;         // how long a step waits for what has to come
    TimeNs settle_ns = 0;           // how long nothing may come where a step says "nothing"
    TimeNs late_ns = 0;             // what comes later than it should by no more than this is not looked at
    TimeNs too_late_ns = 0;         // how long to wait for it beyond that, to tell late from never
    TimeNs early_ns = 0;            // the same for what comes too early
    TimeNs longest_silence_ns = 0;  // instead of a second or more; 0: as long as the case says
    /// The answers to a burst may be one or several, AckReq is the requester's choice, MigReq that of both,
    /// credits may be none; COMM_EST is no event that a case waits for.
    bool takes_what_specification_leaves_open = false;
    /// What the peer does with early packets is not known.
    bool recovery_is_unknown = false;
};

/// The engine cannot play this case on this device; why.
struct CannotPlay : std::runtime_error {
    using runtime_error::runtime_error;
};
/// The device under test has not what the case needs; what.
struct NotApplicable : std::runtime_error {
    using runtime_error::runtime_error;
};
/// What the case is played over failed, not the device: the agent, the port, the path.
struct BenchFailed : std::runtime_error {
    using runtime_error::runtime_error;
};

/// How the QP is made.
struct QpOptions {
    QpType type = QpType::kRc;  // others where the engine has them
    std::uint32_t send_entries = 256;
    std::uint32_t recv_entries = 256;
    std::uint32_t cq_entries = 4096;
    std::uint32_t max_sge = 16;
    std::uint32_t max_inline = 256;
    bool sq_sig_all = false;
    std::vector<std::uint16_t> pkeys = {0xffff};  // of its port
};

class Bench {
  public:
    static constexpr std::size_t kMemoryBytes = std::size_t{256} * 1024;

    virtual ~Bench() = default;

    // --- The QP under test
    /// A new QP in INIT, as if nothing had been before, with memory() filled with `data`.
    virtual void create(const ConnectOptions& connect, const QpOptions& qp,
                        std::span<const std::byte> data) = 0;
    virtual void rtr() = 0;
    virtual void rts() = 0;
    /// From RESET back to INIT.
    virtual void init() = 0;
    /// modify_qp; what it returns.
    [[nodiscard]] virtual int modify(const abi::QpAttr& attr) = 0;
    /// The QP's state; an engine in real time gives it a while to become the one that is hoped for.
    [[nodiscard]] virtual QpState state(QpState hoped) = 0;
    [[nodiscard]] virtual bool is_draining() = 0;
    /// A counter of the device, where the engine can look.
    [[nodiscard]] virtual std::optional<std::uint64_t> counter(Counter Counters::*which) {
        (void)which;
        return {};
    }
    [[nodiscard]] virtual Region& memory() = 0;
    [[nodiscard]] virtual Region& add_region(std::size_t bytes, std::uint32_t access) = 0;
    virtual void post(const std::vector<SendRequest>& requests) = 0;
    virtual void post_receive(std::uint64_t wr_id, const std::vector<abi::Sge>& sge) = 0;
    /// An XRC target has so many SRQs in its domain, each for recv_entries receives, whose completions are
    /// those of receives.
    static constexpr std::size_t kXrcSrqs = 2;
    [[nodiscard]] virtual std::uint32_t srq_number(std::size_t index) const {
        (void)index;
        throw CannotPlay("there are no SRQs here");
    }
    virtual void post_srq_receive(std::size_t index, std::uint64_t wr_id, const std::vector<abi::Sge>& sge) {
        (void)wr_id;
        (void)sge;
        (void)srq_number(index);
    }
    /// All completions since the last call, once there are `hoped` of them or patience is at its end.
    [[nodiscard]] virtual std::vector<SeenCompletion> completions(bool recv, std::size_t hoped) = 0;
    [[nodiscard]] virtual std::vector<AsyncEventType> events(std::size_t hoped) = 0;

    // --- The wire
    [[nodiscard]] virtual std::uint32_t qp_num() const = 0;
    [[nodiscard]] virtual std::uint32_t peer_qp_num() const = 0;
    /// From the peer to the device under test.
    [[nodiscard]] virtual wire::PathSpec path() const = 0;
    /// All of these at once, and what the QP does about them.
    virtual void transmit(const std::vector<FrameBytes>& burst) = 0;
    /// The next frame that the QP under test sent to the peer's QP, which stays the next until take(); null:
    /// none came up to and including `until`.
    [[nodiscard]] virtual const SeenFrame* next(TimeNs until) = 0;
    virtual SeenFrame take() = 0;

    [[nodiscard]] virtual TimeNs now() const = 0;
    /// now(), or later where requests to the device take time of their own.
    [[nodiscard]] virtual TimeNs real_now() const { return now(); }
    virtual void wait_until(TimeNs time) = 0;
    [[nodiscard]] virtual const Tolerance& tolerance() const = 0;
    /// What the QP does with packets that come early: holds them, or discards them.
    [[nodiscard]] virtual bool is_selective() const = 0;
    /// max_msg_sz of the device's port, where the engine knows it; else the most that any may have (C9-94).
    [[nodiscard]] virtual std::uint32_t max_message_bytes() const { return 1U << 31U; }
};

}  // namespace urnic::conform
