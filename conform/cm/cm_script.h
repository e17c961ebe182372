// What cases have that need no agent: messages of the connection manager, and the QP that a listener makes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "conform/case/case_list.h"
#include "conform/case/responder_packets.h"
#include "conform/case/script.h"
#include "conform/cm/cm_bench.h"
#include "rnic/cm/messages.h"

namespace urnic::conform {

namespace msg = wire::cm;

/// How long a step that says "nothing" listens.
inline constexpr TimeNs kCmSilence = 150'000'000;

/// The cases for a librdmacm listener, in the order of their registration.
std::vector<Case>& cm_case_list();
/// The return value makes it an initializer.
bool add_cm_case(const Case& entry);

/// Datagrams with this MAD, each with one thing wrong, and what: a manager takes none of them.
[[nodiscard]] std::vector<std::pair<const char*, ScriptPacket>> spoilt_datagrams(const cm::MadBytes& mad);

class CmScript : public Script {
  protected:
    [[nodiscard]] CmBench& cm() { return static_cast<CmBench&>(bench()); }
    /// A REQ that the listener should take, not told yet.
    [[nodiscard]] msg::Req request() { return cm().request(); }
    void tells(const msg::Message& message) { cm().tell(message); }

    /// The next message to this communication ID. MRAs and repetitions of what was heard are left out.
    [[nodiscard]] HeardMessage hears(std::uint32_t id, Where where = Where::current());
    template <class Kind>
    Kind hears_a(std::uint32_t id, Where where = Where::current()) {
        return kind_of<Kind>(hears(id, where), where);
    }
    template <class Kind>
    Kind kind_of(const HeardMessage& heard, Where where = Where::current()) {
        const Kind* message = std::get_if<Kind>(&heard.message);
        require(message != nullptr,
                "expected " + message_name(Kind{}) + "\n  seen " + message_name(heard.message), where);
        return *message;
    }
    /// Neither a message to this ID, nor a repetition of one.
    void hears_nothing(std::uint32_t id, Where where = Where::current());
    /// A REJ of this REQ, by this reason. Another reason is not as written, but breaks nothing.
    void hears_reject(const msg::Req& req, std::uint16_t reason, Where where = Where::current());

    [[nodiscard]] static msg::Rtu rtu(const msg::Req& req, const msg::Rep& rep);
    [[nodiscard]] static msg::Dreq dreq(const msg::Req& req, const msg::Rep& rep);
    /// REQ, REP, RTU beside the connection of connect(): what the device answered.
    msg::Rep establish(const msg::Req& req, Where where = Where::current());

    // --- The QP of connect()
    /// PSNs of the tester begin where the device's REP says.
    [[nodiscard]] std::uint32_t psn(std::uint32_t count = 0) {
        return (cm().rep().starting_psn + count) & 0xff'ffffU;
    }
    /// WRITEs and READs of no byte need no R_Key (IBA 9.7.4.1.5).
    [[nodiscard]] Packet write_of_nothing(std::uint32_t count) { return write_only(psn(count), 0); }
    [[nodiscard]] Packet read_of_nothing(std::uint32_t count) { return read_request(psn(count), 0); }
    /// The QP takes the next WRITE, its message number `msn`.
    void is_alive(std::uint32_t count, std::uint32_t msn, Where where = Where::current());
    /// Nothing is answered any more.
    void is_in_error(std::uint32_t count, Where where = Where::current());
};

}  // namespace urnic::conform

/// A case with the steps of CmScript.
// NOLINTBEGIN(bugprone-macro-parentheses): the name of a type
#define CM_CASE(suite, name, clause, what)                                                                   \
    using suite = ::urnic::conform::CmScript;                                                                \
    struct suite##_##name final : suite {                                                                    \
        void body() override;                                                                                \
    };                                                                                                       \
    [[maybe_unused]] const bool suite##_##name##_listed = ::urnic::conform::add_cm_case(                     \
        {#suite, #name, clause, what,                                                                        \
         []() -> std::unique_ptr<::urnic::conform::Script> { return std::make_unique<suite##_##name>(); }}); \
    void suite##_##name::body()
// NOLINTEND(bugprone-macro-parentheses)
