/// One QP with all that belongs to it, as the outbox of a Connection. Everything but poll(), arm() and
/// has_events() is for one thread at a time, under the mutex of the Transport.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ulp/rpcrdma/engine/connection.h"
#include "ulp/rpcrdma/engine/outbox.h"
#include "ulp/rpcrdma/verbs/device.h"
#include "ulp/rpcrdma/verbs/exposures.h"
#include "ulp/rpcrdma/verbs/receive_queue.h"
#include "ulp/rpcrdma/verbs/send_queue.h"

namespace urnic::rpcrdma {

struct PendingCall;

/// What the engine tells the program, for when its mutex is free again.
struct Upcalls {
    std::vector<PendingCall*> completed;
    std::vector<IncomingCall> calls;
    std::vector<std::uint32_t> replied;
    [[nodiscard]] bool is_empty() const { return completed.empty() && calls.empty() && replied.empty(); }
};

struct EndpointSizes {
    std::uint32_t receives = 0;
    std::uint32_t receive_octets = 0;
    std::uint32_t sends = 0;
};

/// An id with the event channel that it has of its own (a client's), or without.
struct CmId {
    CmId() = default;
    CmId(rdma_cm_id* its_id, rdma_event_channel* its_channel) : id(its_id), channel(its_channel) {}
    CmId(CmId&& other) noexcept;
    CmId& operator=(CmId&& other) noexcept;
    CmId(const CmId&) = delete;
    CmId& operator=(const CmId&) = delete;
    ~CmId();
    rdma_cm_id* id = nullptr;
    rdma_event_channel* channel = nullptr;
};

class Endpoint final : public Outbox {
  public:
    /// Makes a QP on an id that has a device, with its receives posted. Null, with errno and the text of
    /// last_error().
    [[nodiscard]] static std::unique_ptr<Endpoint> create(CmId&& id, const EndpointSizes& sizes);
    ~Endpoint() override;
    Endpoint(const Endpoint&) = delete;
    Endpoint& operator=(const Endpoint&) = delete;

    [[nodiscard]] const Device& device() const { return *device_; }
    [[nodiscard]] rdma_cm_id* id() const { return cm_.id; }
    [[nodiscard]] int event_channel_fd() const { return cm_.channel == nullptr ? -1 : cm_.channel->fd; }
    [[nodiscard]] rdma_event_channel* event_channel() const { return cm_.channel; }
    /// READs that may be outstanding in each direction.
    [[nodiscard]] std::uint8_t read_depth() const;

    // --- of who polls
    /// The number of completions; negative: the CQ has failed.
    [[nodiscard]] int poll(std::span<ibv_wc> completions) {
        return ibv_poll_cq(cq_, static_cast<int>(completions.size()), completions.data());
    }
    /// The next completion makes completion_fd() readable.
    void arm() { (void)ibv_req_notify_cq(cq_, 0); }
    [[nodiscard]] int completion_fd() const { return channel_->fd; }
    /// Takes the events of the completion channel. Returns whether there was one.
    bool take_events();

    // --- with the mutex
    /// Gives the engine what a completion means. false: it failed, the connection has ended.
    [[nodiscard]] bool handle(const ibv_wc& completion, Connection& connection);
    /// Posts what the engine's last calls want; to be called after them.
    void flush(Connection* connection);
    /// Disconnects: posted receives complete with errors, soon.
    void disconnect();
    /// Destroys the QP and frees what its WQEs hold; Connection::on_disconnected() is to follow.
    void end();
    [[nodiscard]] bool has_ended() const { return has_ended_; }
    [[nodiscard]] CloseReason close_reason() const { return close_reason_; }
    /// Returns whether a WQE ended with an error of its own, not with those that the QP's end flushes.
    [[nodiscard]] bool has_failed() const { return has_failed_; }
    [[nodiscard]] Upcalls& upcalls() { return upcalls_; }
    /// Returns whether the QP reads memory of the program's for a write() since the last forget.
    [[nodiscard]] bool has_held_memory() const { return has_held_memory_; }
    void forget_held_memory() { has_held_memory_ = false; }

    // --- Outbox
    [[nodiscard]] Buffer allocate(std::size_t octets) override;
    void free(const Buffer& buffer) override;
    [[nodiscard]] bool expose(std::span<const std::byte> memory, Access access, Exposure& out) override;
    [[nodiscard]] bool withdraw(std::uint32_t call, std::span<const Exposure> exposures,
                                std::uint32_t invalidated) override;
    void send(const OutgoingMessage& message) override;
    void read(std::uint32_t call, const Segment& from, std::span<std::byte> into) override;
    void write(std::span<const std::byte> from, const Segment& to) override;
    void resize_receives(std::uint32_t octets) override { receives_.resize(octets); }
    void complete(std::uint64_t token, const Completion& completion) override;
    void execute(const IncomingCall& call) override { upcalls_.calls.push_back(call); }
    void replied(std::uint32_t call) override { upcalls_.replied.push_back(call); }
    void close(CloseReason reason) override;

  private:
    explicit Endpoint(CmId&& id) : cm_(std::move(id)) {}
    [[nodiscard]] bool create_queues(const EndpointSizes& sizes);
    [[nodiscard]] bool create_qp(const EndpointSizes& sizes);
    void push(const Wqe& wqe);
    void on_complete(const Wqe& wqe, Connection& connection);
    static void release(const Wqe& wqe);

    // In the order of their making: the id goes last.
    CmId cm_;
    std::shared_ptr<Device> device_;
    ibv_comp_channel* channel_ = nullptr;
    ibv_cq* cq_ = nullptr;
    unsigned unacknowledged_events_ = 0;
    ReceiveQueue receives_;
    SendQueue sends_;
    Exposures exposures_;
    Upcalls upcalls_;
    CloseReason close_reason_ = CloseReason::kNone;
    bool has_held_memory_ = false;
    bool is_closing_ = false;
    bool has_failed_ = false;
    bool is_disconnected_ = false;
    bool has_ended_ = false;
};

}  // namespace urnic::rpcrdma
