// Packet scripts for the connection manager: a real Manager in virtual time, and opposite it a script that
// plays the peer, message by message, and the owner. A script reads from top to bottom as a sequence diagram;
// at its end nothing may be left that it did not look at: no message, no event.
//
//   CM_SCRIPT(Passive, Handshake, "12.9", "REQ, REP, RTU") {
//       listen();
//       hears(req());
//       const Handle handle = event(EventType::kRequest).handle;
//       ...
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rnic/cm/manager.h"
#include "tests/sim/script_list.h"

namespace urnic::sim::cm {

// The names of the manager, its messages and its events.
using namespace urnic::cm;
namespace msg = wire::cm;

/// An event with copies of what it pointed to.
struct SeenEvent {
    EventType type{};
    Handle handle = 0;
    Cookie owner = 0;
    ListenerId listener = 0;
    Cookie listener_owner = 0;
    std::uint16_t reason = 0;
    Route route;
    std::optional<msg::Message> message;
    std::optional<msg::IpCmHeader> ip;
    std::vector<std::uint8_t> private_data;
};

/// A message that went out.
struct SeenMad {
    Route route;
    wire::MadHeader header;
    msg::Message message;
};
[[nodiscard]] SeenMad read_mad(const SendMad& mad);
[[nodiscard]] SeenEvent copy_of(const Event& event);

class Recorder final : public Outbox {
  public:
    void send(const SendMad& mad) override { mads.push_back(mad); }
    void event(const Event& event) override { events.push_back(copy_of(event)); }
    std::deque<SendMad> mads;
    std::deque<SeenEvent> events;
};

inline constexpr TimeNs kMs = 1'000'000;
inline constexpr TimeNs kSecond = 1'000'000'000;
inline constexpr std::uint64_t kService = 0x0106'1c06;
inline constexpr std::uint64_t kPlainService = 0x1000'0000'0000'0007;  // without IP CM headers
inline constexpr std::uint64_t kOurGuid = 0x0200'0000'0000'0001;
inline constexpr std::uint64_t kPeerGuid = 0x0200'0000'0000'0002;
inline constexpr std::uint32_t kPeerId = 0xa3db'6aeb;
inline constexpr std::uint32_t kPeerQpn = 0x1e;
inline constexpr std::uint32_t kOurQpn = 0x2f;
inline constexpr std::uint64_t kTid = 0x2'eb6a'dba3;
inline constexpr wire::Gid kOurGid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 11};
inline constexpr wire::Gid kPeerGid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 12};

class CmScript : public ::testing::Test {
  protected:
    CmScript() { begin({}); }
    void TearDown() override { nothing_left(Where::current()); }

    /// Another manager, as if nothing had been before.
    void begin(Config config);
    [[nodiscard]] static Config config();
    [[nodiscard]] Manager& manager() { return *manager_; }
    [[nodiscard]] Outbox& out() { return seen_; }
    [[nodiscard]] TimeNs now() const { return now_; }

    // --- The owner --------------------------------------------------------------------------------------
    ListenerId listen(std::uint64_t service = kPlainService, std::uint32_t backlog = 0);
    [[nodiscard]] static ConnectParams connect_params();
    [[nodiscard]] static AcceptParams accept_params();
    /// Sends a REQ, which is left to be seen.
    Handle connect(const ConnectParams& params = connect_params());
    void accept(Handle handle, Where where = Where::current());
    void ready(Handle handle, Where where = Where::current());
    void disconnect(Handle handle, Where where = Where::current());
    void destroy(Handle handle) { manager().destroy(handle, now_, seen_); }
    [[nodiscard]] State state(Handle handle);

    // --- The peer ---------------------------------------------------------------------------------------
    [[nodiscard]] static msg::Req req(std::uint32_t id = kPeerId, std::uint32_t qpn = kPeerQpn);
    [[nodiscard]] static msg::Rep rep(Handle handle);
    [[nodiscard]] static msg::Rtu rtu(Handle handle);
    [[nodiscard]] static msg::Dreq dreq(Handle handle);
    [[nodiscard]] static msg::Drep drep(Handle handle);
    [[nodiscard]] static msg::Rej rej(Handle handle, std::uint8_t about, std::uint16_t reason);
    [[nodiscard]] static msg::Mra mra(Handle handle, std::uint8_t about, std::uint8_t service_timeout);
    [[nodiscard]] static msg::SidrReq sidr_req(std::uint32_t id = kPeerId);
    [[nodiscard]] static msg::IpCmHeader ip_of_peer();
    /// The private data of the RDMA IP CM service.
    static void put_ip(std::span<std::uint8_t> private_data, const msg::IpCmHeader& ip);
    /// A MAD as QP1 hands it over, from the peer to us.
    [[nodiscard]] static ReceivedMad mad(const msg::Message& message, std::uint64_t tid = kTid);
    void hears(const msg::Message& message, std::uint64_t tid = kTid);
    void hears(const ReceivedMad& mad) { manager().receive(mad, now_, seen_); }

    // --- What is seen -----------------------------------------------------------------------------------
    /// The next message that went out, which has to be of this kind and to go to the peer.
    template <class M>
    M says(Where where = Where::current()) {
        const std::optional<SeenMad> next = next_mad(where);
        if (!next) {
            return {};
        }
        last_tid_ = next->header.transaction_id;
        const M* found = std::get_if<M>(&next->message);
        if (found == nullptr) {
            fail(where, "another message went out: attribute " + std::to_string(next->header.attribute_id));
            return {};
        }
        return *found;
    }
    /// Of the message that went out last.
    [[nodiscard]] std::uint64_t last_tid() const { return last_tid_; }
    [[nodiscard]] const Route& last_route() const { return last_route_; }
    void says_nothing(Where where = Where::current());
    SeenEvent event(EventType type, Where where = Where::current());
    void no_event(Where where = Where::current());
    void nothing(Where where = Where::current()) {
        says_nothing(where);
        no_event(where);
    }
    void nothing_left(Where where);
    /// Time passes, and what is due is done.
    void after(TimeNs duration);
    /// Nothing happens until just before `duration` from now, and then something does.
    void due_in(TimeNs duration, Where where = Where::current());
    /// All records go by themselves once time has passed.
    void leaves_nothing(Where where = Where::current());

    // --- Shortcuts --------------------------------------------------------------------------------------
    /// A listener has got a REQ.
    Handle requested();
    Handle established_passive();
    Handle established_active();

    static void fail(Where where, const std::string& what) { ADD_FAILURE_AT(where.file, where.line) << what; }

  private:
    [[nodiscard]] std::optional<SeenMad> next_mad(Where where);

    std::unique_ptr<Manager> manager_;
    Recorder seen_;
    TimeNs now_ = kSecond;
    std::uint64_t last_tid_ = 0;
    Route last_route_;
};

}  // namespace urnic::sim::cm

/// `clause` is what the script checks, `what` says it in a sentence.
#define CM_SCRIPT_IN(suite, name, clause, what)                       \
    [[maybe_unused]] const bool suite##_##name##_listed =             \
        ::urnic::sim::register_script({#suite, #name, clause, what}); \
    TEST_F(suite, name)
#define CM_SCRIPT(suite, name, clause, what)  \
    using suite = ::urnic::sim::cm::CmScript; \
    CM_SCRIPT_IN(suite, name, clause, what)
