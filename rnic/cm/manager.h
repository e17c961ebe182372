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
//   ready()              -> RTU ->        kEstablished
//   disconnect()         -> DREQ ->       kDisconnectRequest (both sides may begin)
//   kDisconnected        <- DREP <-       disconnect()
//   kTimewaitExit                         kTimewaitExit
//
// destroy() ends what there is in any state, tells the peer as the state demands, and no event comes for that
// handle afterwards; what must be remembered for the peer's sake (timewait, an answer that may be asked for
// again) the manager keeps by itself.
//
// Memory: at most Config::max_connections records of about 700 bytes, allocated when they are made and by no
// other call. Those of requests that peers send are limited besides; see Config.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "rnic/cm/events.h"
#include "rnic/cm/types.h"
#include "rnic/device/gsi.h"

namespace urnic::cm {

struct Config {
    std::uint64_t ca_guid = 0;
    /// Key of the generator of communication and transaction IDs: from the OS's entropy, so that nobody
    /// guesses them.
    std::array<std::uint64_t, 2> seed{};
    std::uint16_t pkey = 0xffff;    // entry 0 of the P_Key table
    std::uint8_t max_path_mtu = 5;  // REQs with a larger one are rejected (reason 26, with this as hint)
    /// Records of all kinds, timewait included.
    std::uint32_t max_connections = 65536;
    /// Requests from peers whose handshake is not over: beyond that REQs and SIDR_REQs go unanswered. One
    /// source GID gets no more than three times what is free, so that it cannot take all.
    std::uint32_t max_half_open = 16384;
    std::uint32_t max_backlog = 1024;
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
    ~Manager();
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
    [[nodiscard]] Status ready(Handle handle, std::span<const std::uint8_t> private_data, TimeNs now,
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
    [[nodiscard]] Opened resolve(const ResolveParams& params, TimeNs now, Outbox& out);
    /// Answers kResolveRequest by a SIDR_REP.
    [[nodiscard]] Status answer_resolve(Handle handle, const ResolveAnswer& answer, TimeNs now, Outbox& out);

    /// The owner of the requesting program has seen kRequest or kResolveRequest: no more in its listener's
    /// backlog. accept(), reject(), answer_resolve() and destroy() imply it. Unknown ones are ignored.
    void take(Handle handle);
    /// Later events of the handle have this cookie. False: unknown.
    bool set_owner(Handle handle, Cookie owner);
    /// See above: REQ sent: REJ by reason 4 (time-out). Request or reply not answered: REJ by reason 28.
    /// REP sent: REJ by reason 28. Established: DREQ. DREQ received: DREP. SIDR request not answered:
    /// SIDR_REP by status 2 (rejected). Unknown ones are ignored.
    void destroy(Handle handle, TimeNs now, Outbox& out);
    /// The same without a word to the peer, who will ask again: for an owner that has no memory for a
    /// request.
    void forget(Handle handle);

    /// What has come for QP1 of our CA.
    void receive(const ReceivedMad& mad, TimeNs now, Outbox& out);
    /// Does what is due: retries, time-outs, ends of timewait.
    void advance(TimeNs now, Outbox& out);
    /// When advance() is wanted next; kNever: not by time alone.
    [[nodiscard]] TimeNs next_event() const;

    /// nullopt: unknown.
    [[nodiscard]] std::optional<ConnectionInfo> info(Handle handle) const;
    [[nodiscard]] const Stats& stats() const;
    /// Records that there are, destroyed ones in timewait included; listeners.
    [[nodiscard]] std::size_t size() const;
    [[nodiscard]] std::size_t listeners() const;

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace urnic::cm
