// The bench of the tester where no agent can run: a librdmacm listener makes the QP under test, once the
// tester's connection request comes. Nothing can be posted there, and nothing be asked of it but by packets.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "conform/live/live_wire.h"
#include "rnic/wire/mad/cm.h"

namespace urnic::conform {

/// A message of the device's connection manager.
struct HeardMessage {
    TimeNs time = 0;
    wire::MadHeader header;
    wire::cm::Message message;
    FrameBytes frame;
};

/// The communication ID of the one to whom a message goes; 0: it names none.
[[nodiscard]] std::uint32_t receiver_id(const wire::cm::Message& message);
/// "REP", "REJ reason 8".
[[nodiscard]] std::string message_name(const wire::cm::Message& message);

class CmBench : public JudgedBench {
  public:
    /// 4.096 us * 2^18, 1.07 s: how long the device waits for the tester before it repeats its message.
    static constexpr std::uint8_t kResponseTimeout = 18;

    /// `service_id`: the listener's. `first_qp`: the tester's QP numbers begin there, a new one for each REQ.
    CmBench(WirePort& port, const LivePath& path, std::uint64_t service_id, std::uint32_t first_qp);

    void begin_case(TimeNs limit_ns) override;
    /// Releases the connections of the case.
    void end_case() override;
    [[nodiscard]] TimeNs real_now() const override { return wire_.real_now(); }
    [[nodiscard]] TimeNs held_up_ns() const override { return wire_.held_up_ns(); }
    [[nodiscard]] const std::vector<TracedFrame>& trace() const override { return wire_.trace(); }
    void set_selective(bool is_selective) { is_selective_ = is_selective; }
    /// From now on cases begin when the listener takes connections: a program that ends at an error is given
    /// the time to be started again. begin_case() throws BenchFailed when none comes.
    void expect_listener() { is_listener_expected_ = true; }

    // --- Messages of the connection manager
    /// One that the listener should take: a new communication ID, a new QP of the tester's.
    [[nodiscard]] wire::cm::Req request();
    /// The transaction ID is the same for all messages of one exchange.
    void tell(const wire::cm::Message& message);
    [[nodiscard]] static std::uint64_t transaction_id(const wire::cm::Message& message);
    /// The datagram that carries a message, from QP1 to QP1, for those who want it wrong.
    [[nodiscard]] static ScriptPacket datagram(const wire::cm::Message& message);
    [[nodiscard]] static ScriptPacket datagram(std::span<const std::byte> mad, std::uint32_t psn = 0);
    void tell(const ScriptPacket& datagram);
    /// The next message to this communication ID of the tester's; nothing: none came until then.
    [[nodiscard]] std::optional<HeardMessage> hear(std::uint32_t id, TimeNs until);
    /// The same; MRAs are honoured, and what was heard before is left out.
    [[nodiscard]] std::optional<HeardMessage> hear_new(std::uint32_t id, TimeNs until);
    /// How long a message of the device's may take: its application may have to answer.
    static constexpr TimeNs kPatienceNs = 4'000'000'000;

    // --- The connection of create()
    [[nodiscard]] const wire::cm::Req& req() const { return req_; }
    [[nodiscard]] const wire::cm::Rep& rep() const { return rep_; }

    /// REQ, and the REP that has to come. Throws StepFailed when something else comes, or nothing.
    void create(const ConnectOptions& connect, const QpOptions& qp, std::span<const std::byte> data) override;
    /// The device's is, when its REP comes (IBA 12.9).
    void rtr() override {}
    /// RTU.
    void rts() override;
    void init() override { needs_agent(); }
    [[nodiscard]] int modify(const abi::QpAttr& attr) override;
    [[nodiscard]] QpState state(QpState hoped) override;
    [[nodiscard]] bool is_draining() override { return false; }
    /// Nobody's: no R_Key of the device is known.
    [[nodiscard]] Region& memory() override;
    [[nodiscard]] Region& add_region(std::size_t bytes, std::uint32_t access) override;
    void post(const std::vector<SendRequest>& requests) override;
    void post_receive(std::uint64_t wr_id, const std::vector<abi::Sge>& sge) override;
    [[nodiscard]] std::vector<SeenCompletion> completions(bool /*recv*/, std::size_t /*hoped*/) override {
        return {};
    }
    [[nodiscard]] std::vector<AsyncEventType> events(std::size_t /*hoped*/) override { return {}; }
    [[nodiscard]] std::uint32_t qp_num() const override { return rep_.local_qpn; }
    [[nodiscard]] std::uint32_t peer_qp_num() const override { return req_.local_qpn; }
    [[nodiscard]] wire::PathSpec path() const override { return wire_.path(); }
    void transmit(const std::vector<FrameBytes>& burst) override { wire_.transmit(burst); }
    [[nodiscard]] const SeenFrame* next(TimeNs until) override;
    SeenFrame take() override;
    [[nodiscard]] TimeNs now() const override { return wire_.clock(); }
    void wait_until(TimeNs time) override { wire_.wait_until(time); }
    [[nodiscard]] const Tolerance& tolerance() const override { return tolerance_; }
    [[nodiscard]] bool is_selective() const override { return is_selective_; }

  protected:
    /// A REQ that came.
    virtual void take_request(const HeardMessage& /*heard*/) {}
    /// A new communication ID of the tester's, and a new QP, for one who asked with these.
    [[nodiscard]] std::uint32_t open(std::uint32_t device_id, std::uint32_t device_qp);
    /// Returns whether its RTU came.
    [[nodiscard]] bool is_confirmed(std::uint32_t id) const { return conversations_.at(id).is_confirmed; }
    /// Returns whether the device has something to release.
    [[nodiscard]] bool is_open(std::uint32_t id) const { return conversations_.at(id).is_open; }
    /// There is nothing to release, if there is such a conversation.
    void close(std::uint32_t id);
    /// Takes in the next frame; false: none came until then.
    bool sort_next(TimeNs until);
    /// Takes in those that have come.
    void sort_all();
    void forget_frames() { frames_.clear(); }
    /// Returns whether the device's QP has sent something in this case.
    [[nodiscard]] bool has_qp_sent() const { return has_qp_sent_; }
    /// Whether a QP number is one of the tester's.
    [[nodiscard]] virtual bool is_ours(std::uint32_t number) const;
    [[nodiscard]] std::uint64_t service_id() const { return service_id_; }
    [[nodiscard]] std::uint64_t guid() const { return guid_; }
    [[nodiscard]] std::uint32_t last_qp() const { return last_qp_; }

  private:
    /// A conversation of this case, by the tester's communication ID.
    struct Conversation {
        std::uint32_t device_id = 0;
        std::uint32_t device_qp = 0;
        bool is_open = false;       // the device has something to release
        bool is_confirmed = false;  // the device's RTU came
        std::vector<FrameBytes> heard;
    };

    [[noreturn]] static void needs_agent();
    [[nodiscard]] std::uint32_t next_id();
    void sort(SeenFrame frame);
    void note(const HeardMessage& heard);
    void release(std::uint32_t id);
    void forget();
    void wait_for_listener();
    [[nodiscard]] bool is_connected();

    LiveWire wire_;
    LivePath path_;
    std::uint64_t service_id_;
    std::uint64_t guid_;  // of the tester's CA: a new one for each run, so that no earlier one counts
    std::uint32_t last_id_;
    std::uint32_t last_qp_;
    Tolerance tolerance_;
    bool is_selective_ = false;
    bool is_listener_expected_ = false;
    bool has_qp_sent_ = false;
    wire::cm::Req req_;
    wire::cm::Rep rep_;
    std::map<std::uint32_t, Conversation> conversations_;
    std::deque<HeardMessage> messages_;
    std::deque<SeenFrame> frames_;  // to the QP of the connection
};

}  // namespace urnic::conform
