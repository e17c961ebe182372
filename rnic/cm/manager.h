// The communication manager of one channel adapter (IBA chapter 12, annex A11): makes and ends connections by
// MADs, for both sides. Pure: time is an argument, MADs and events go into an outbox.
//
// An owner above it, such as rdma_cm's kernel interface, keeps listeners and connections and has the QPs; the
// manager keeps protocol: states, retries, duplicates, time-outs, timewait. It has no queues: an event
// happens inside the call that causes it, once.
//
//   active                                passive
//   connect()            -> REQ ->        kRequest
//   kReply               <- REP <-        accept()           reject(): kRejected at the other side
//   send_rtu()           -> RTU ->        kEstablished
//   disconnect()         -> DREQ ->       kDisconnectRequest (both sides may begin)
//   kDisconnected        <- DREP <-       disconnect()
//   kTimewaitExit                         kTimewaitExit
//
// destroy() ends what there is in any state, tells the peer as the state demands, and no event comes for that
// handle afterwards; what must be remembered for the peer's sake (timewait, an answer that may be asked for
// again) the manager keeps by itself.
//
// Memory: at most Config::max_connections records of about 900 bytes, allocated when they are made and by no
// other call. Those of requests that peers send are limited besides; see Config.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/rate_limit.h"
#include "rnic/cm/connections.h"
#include "rnic/cm/events.h"
#include "rnic/cm/ip_owners.h"
#include "rnic/cm/listeners.h"
#include "rnic/cm/messages.h"
#include "rnic/cm/random_ids.h"
#include "rnic/cm/types.h"
#include "rnic/device/gsi.h"

namespace urnic::cm {

struct Config {
    std::uint64_t ca_guid = 0;
    /// Key of the generator of communication and transaction IDs: from the OS's entropy, so that nobody
    /// guesses them.
    std::array<std::uint64_t, 2> seed{};
    PkeyTable pkeys = kDefaultPkeys;  // of the port; see Manager::set_pkeys()
    IpOwners ip_owners;
    std::uint8_t max_path_mtu = 5;  // REQs with a larger one are rejected (reason 26, with this as hint)
    /// Records of all kinds, timewait included.
    std::uint32_t max_connections = 65536;
    /// Requests from peers whose handshake is not over: beyond that REQs and SIDR_REQs go unanswered. One
    /// source GID gets no more than three times what is free, so that it cannot take all.
    std::uint32_t max_half_open = 16384;
    /// Of one listener; half of them all, so that no listener's flood is another's. Programs that make
    /// thousands of connections at once ask for it by a backlog of 0.
    std::uint32_t max_backlog = 8192;
    std::uint32_t max_listeners = 65536;
    /// Records that only remember what was answered (a REJ or SIDR_REP that peers may ask for again); the
    /// oldest makes room.
    std::uint32_t max_remembered = 4096;
    /// What peers say about times is cut to this: 4.096 us * 2^n.
    std::uint8_t max_response_timeout = 22;
    std::uint8_t max_service_timeout = 24;
    /// What an MRA of ours asks for, when a peer repeats a REQ or REP that the owner has not answered.
    std::uint8_t mra_service_timeout = 24;
};

struct Stats {
    std::uint64_t received = 0;
    std::uint64_t sent = 0;
    std::uint64_t retries = 0;     // sent again because no answer came
    std::uint64_t duplicates = 0;  // received again
    std::uint64_t malformed = 0;   // no CM message: class, version, method, attribute, source QP, fields
    std::uint64_t unanswered = 0;  // answers to no connection's messages that were left out for their number
    std::uint64_t stray = 0;  // a message that does not fit any connection, or not its state or addresses
    std::uint64_t dropped_backlog = 0;
    std::uint64_t dropped_half_open = 0;
    std::uint64_t dropped_full = 0;  // max_connections, or no memory
    std::uint64_t rejects_sent = 0;
    std::uint64_t rejects_received = 0;
    std::uint64_t stale = 0;  // REQs and REPs of a QP that was known connected
    std::uint64_t timeouts = 0;
};

class Manager {
  public:
    explicit Manager(const Config& config);
    ~Manager() = default;
    Manager(const Manager&) = delete;
    Manager& operator=(const Manager&) = delete;

    struct Listening {
        Status status = Status::kOk;
        ListenerId id = 0;
    };
    struct Opened {
        Status status = Status::kOk;
        Handle handle = 0;
    };

    /// kInUse: another listener has the service ID with the same address, or both have none and a family in
    /// common. kBadArgument, kFull, kNoMemory.
    [[nodiscard]] Listening listen(const ListenParams& params);
    /// Requests that the listener has got stay what they are. Unknown ones are ignored.
    void unlisten(ListenerId id);

    /// Sends a REQ. kBadArgument, kFull, kNoMemory.
    [[nodiscard]] Opened connect(const ConnectParams& params, TimeNs now, Outbox& out);
    /// Answers kRequest by a REP.
    [[nodiscard]] Status accept(Handle handle, const AcceptParams& params, TimeNs now, Outbox& out);
    /// Answers kReply by an RTU (224 bytes of private data at most): established from now on; no event.
    [[nodiscard]] Status send_rtu(Handle handle, std::span<const std::uint8_t> private_data, TimeNs now,
                                  Outbox& out);
    /// Answers kRequest or kReply by a REJ. The handle is kClosed (kTimewait after kReply) and waits for
    /// destroy(). While it is remembered, a repeated REQ gets the same REJ.
    [[nodiscard]] Status reject(Handle handle, const RejectParams& params, TimeNs now, Outbox& out);
    /// Established: sends a DREQ (220 bytes). kDreqReceived: answers by a DREP (224 bytes), and enters
    /// timewait. Else kWrongState.
    [[nodiscard]] Status disconnect(Handle handle, std::span<const std::uint8_t> private_data, TimeNs now,
                                    Outbox& out);
    /// Data has come on the QP before the RTU (IBV_EVENT_COMM_EST, rdma_notify): makes kEstablished of
    /// kRepSent. Established already: kOk, nothing happens.
    [[nodiscard]] Status established(Handle handle, TimeNs now, Outbox& out);

    /// Sends a SIDR_REQ. kBadArgument, kFull, kNoMemory.
    [[nodiscard]] Opened send_sidr_req(const SidrReqParams& params, TimeNs now, Outbox& out);
    /// Answers kSidrRequest by a SIDR_REP.
    [[nodiscard]] Status send_sidr_rep(Handle handle, const SidrRepParams& answer, TimeNs now, Outbox& out);

    /// The owner of the requesting program has seen kRequest or kSidrRequest: no more in its listener's
    /// backlog. accept(), reject(), send_sidr_rep() and destroy() imply it. Unknown ones are ignored.
    void dequeue(Handle handle);
    /// Later events of the handle have this cookie. Returns whether the handle is known.
    bool set_owner(Handle handle, Cookie owner);
    /// See above: REQ sent: REJ by reason 4 (time-out). Request or reply not answered: REJ by reason 28.
    /// REP sent: REJ by reason 28. Established: DREQ. DREQ received: DREP. SIDR request not answered:
    /// SIDR_REP by status 2 (rejected). Unknown ones are ignored.
    void destroy(Handle handle, TimeNs now, Outbox& out);
    /// Ends a request that was not answered, without a word to the peer, who will ask again: for an owner
    /// that has no memory for it. Others are ignored.
    void discard(Handle handle);

    /// The port's P_Keys are others now: requests are compared with these.
    void set_pkeys(const PkeyTable& pkeys) { config_.pkeys = pkeys; }

    /// What has come for QP1 of our CA.
    void receive(const ReceivedMad& mad, TimeNs now, Outbox& out);
    /// Does what is due: retries, time-outs, ends of timewait.
    void advance(TimeNs now, Outbox& out);
    /// When advance() is wanted next; kNever: not by time alone.
    [[nodiscard]] TimeNs next_event() const { return connections_.next_due(); }

    /// nullopt: unknown.
    [[nodiscard]] std::optional<ConnectionInfo> info(Handle handle) const;
    [[nodiscard]] const Stats& stats() const { return stats_; }
    /// Records that there are, destroyed ones in timewait included; listeners.
    [[nodiscard]] std::size_t size() const { return connections_.size(); }
    /// Of the records those that only keep an answer.
    [[nodiscard]] std::size_t remembered() const { return connections_.remembered(); }
    [[nodiscard]] std::size_t listeners() const { return listeners_.size(); }
    /// Requests from peers whose handshake is not over.
    [[nodiscard]] std::size_t half_open() const { return connections_.half_open(); }

  private:
    /// What a message came in, and what goes out meanwhile.
    struct Call {
        TimeNs now;
        Outbox& out;
    };
    struct Incoming {
        const ReceivedMad& mad;
        std::uint64_t transaction_id;
        const wire::cm::Message& message;
    };

    // The record of a connection (manager.cc).
    [[nodiscard]] Connections::Made make(const wire::Gid* source);
    [[nodiscard]] Connection* find(Handle handle, Kind kind) const;
    void raise(const Connection& connection, EventType type, const wire::cm::Message* message,
               Call call) const;
    /// Tells of a REJ by `reason`; no message: the reason is ours.
    void raise_rejected(const Connection& connection, std::uint16_t reason, const wire::cm::Message* message,
                        Call call) const;
    template <class M>
    void send(Connection& connection, const M& message, std::uint64_t transaction_id, Call call);
    /// Returns whether it goes: not more often than kMostAnswers in a while.
    template <class M>
    bool answer(const Incoming& in, const M& message, Call call);
    void send_again(Connection& connection, Call call);
    void send_reject(Connection& connection, AboutMessage about, const RejectParams& params, Call call);
    void send_drep(Connection& connection, std::span<const std::uint8_t> private_data,
                   std::uint64_t transaction_id, Call call);
    void send_dreq(Connection& connection, std::span<const std::uint8_t> private_data, Call call);
    void send_mra(const Connection& connection, AboutMessage about, std::uint64_t transaction_id, Call call);
    void give_up_request(Connection& connection, Call call);
    void await_answer(Connection& connection, State state, TimeNs now);
    void leave_backlog(Connection& connection);
    /// Ends it: nobody owns it any more, or kClosed until somebody destroys it.
    void close(Connection& connection);
    /// The same, while what was answered is kept for a peer that asks again.
    void close_keeping_reply(Connection& connection, TimeNs now);
    void enter_timewait(Connection& connection, TimeNs now);
    void set_state(Connection& connection, State state);

    // Messages (manager_receive.cc, manager_request.cc).
    struct Handlers;
    void handle_req(const wire::cm::Req& req, const Incoming& in, Call call);
    void handle_mra(const wire::cm::Mra& mra, const Incoming& in, Call call);
    void handle_rej(const wire::cm::Rej& rej, const Incoming& in, Call call);
    void handle_rep(const wire::cm::Rep& rep, const Incoming& in, Call call);
    void handle_rtu(const wire::cm::Rtu& rtu, const Incoming& in, Call call);
    void handle_dreq(const wire::cm::Dreq& dreq, const Incoming& in, Call call);
    void handle_drep(const wire::cm::Drep& drep, const Incoming& in, Call call);
    void handle_sidr_req(const wire::cm::SidrReq& req, const Incoming& in, Call call);
    void handle_sidr_rep(const wire::cm::SidrRep& rep, const Incoming& in, Call call);
    void handle_lap(const wire::cm::Lap& lap, const Incoming& in, Call call);
    void handle_apr(const wire::cm::Apr& apr, const Incoming& in, Call call);
    /// The connection of these IDs, if the addresses are its own; nullptr: none.
    [[nodiscard]] Connection* find(std::uint32_t local_id, std::uint32_t remote_id,
                                   const ReceivedMad& mad) const;
    [[nodiscard]] Connection* find_rejected(const wire::cm::Rej& rej, const ReceivedMad& mad) const;
    void handle_repeated_req(Connection& connection, const wire::cm::Req& req, const Incoming& in, Call call);
    void reject_req(const wire::cm::Req& req, const RejectParams& params, const Incoming& in, Call call);
    /// A message for a connection that there is none of.
    void reject_unknown(std::uint32_t our_id, std::uint32_t their_id, AboutMessage about, RejectReason reason,
                        const Incoming& in, Call call);
    void end_stale(Connection& connection, Call call);
    void begin_request(Listener& listener, const wire::cm::Req& req, const Incoming& in, Call call);
    void raise_request(const Connection& connection, EventType type, const Listener& listener,
                       std::span<const std::uint8_t> private_data, const Incoming& in, Call call);
    void handle_first_rep(Connection& connection, const wire::cm::Rep& rep, const Incoming& in, Call call);
    void refuse_rep(Connection& connection, RejectReason reason, const Incoming& in, Call call);
    /// A record for a request of the listener, in its backlog; nullptr: counted, and nothing is left.
    [[nodiscard]] Connection* make_request(Listener& listener, const RemoteId& remote,
                                           const ReceivedMad& mad);

    // Time (manager_time.cc).
    void expire(Connection& connection, Call call);
    void expire_unanswered(Connection& connection, Call call);

    /// What anybody may send costs an answer, which costs more than it does: who sends many gets few, and
    /// asks again if he wants one.
    static constexpr std::size_t kMostAnswers = 1000;
    RateLimit<kMostAnswers, 500'000'000> answers_;

    Config config_;
    Stats stats_;
    RandomIds ids_;
    Listeners listeners_;
    Connections connections_;
};

}  // namespace urnic::cm
