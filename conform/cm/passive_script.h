// What cases have whose device asks for connections: the tester takes a REQ of its client.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "conform/cm/cm_script.h"
#include "conform/cm/passive_bench.h"

namespace urnic::conform {

/// The cases for a librdmacm client, in the order of their registration.
std::vector<Case>& active_case_list();
/// The return value makes it an initializer.
bool add_active_case(const Case& entry);

class PassiveScript : public CmScript {
  protected:
    [[nodiscard]] PassiveCmBench& tester() { return static_cast<PassiveCmBench&>(bench()); }
    /// The REQ of a client that has just been started.
    [[nodiscard]] HeardMessage asks() { return tester().hear_request(); }
    [[nodiscard]] static msg::Req req_of(const HeardMessage& request) {
        return PassiveCmBench::req_of(request);
    }
    /// How long the client waits for an answer to its REQ before it asks again. NotApplicable when that is
    /// longer than a case may wait.
    [[nodiscard]] TimeNs patience_of(const msg::Req& req);
    void tells_back(const HeardMessage& request, const msg::Message& message) {
        tester().tell_back(request, message);
    }
    [[nodiscard]] static msg::Rej rejection(const HeardMessage& request);
    /// The RTU for a REP that was told; it names both communication IDs.
    HeardMessage hears_rtu(const msg::Rep& rep, Where where = Where::current());
    /// DREQ of the tester for the connection of connect(), once the client works with it.
    [[nodiscard]] msg::Dreq release();

    // --- The QP of connect()
    [[nodiscard]] static bool is_request_of(const SeenFrame& frame);
    /// The PSN of the client's first request.
    [[nodiscard]] std::uint32_t first_psn() { return tester().reply().starting_psn; }
    /// The next request of the client's, whatever it is. NotApplicable when it sends nothing by itself.
    [[nodiscard]] SeenFrame requests(Where where = Where::current());
    /// The client's QP takes a WRITE of no byte, number `count` of the tester's, its message number `msn`.
    void takes_request(std::uint32_t count, std::uint32_t msn, Where where = Where::current());
    /// Its first request is acknowledged, then takes_request(0, 1).
    void is_alive_still(Where where = Where::current());
};

}  // namespace urnic::conform

/// A case with the steps of PassiveScript.
// NOLINTBEGIN(bugprone-macro-parentheses): the name of a type
#define ACTIVE_CASE(suite, name, clause, what)                                                               \
    using suite = ::urnic::conform::PassiveScript;                                                           \
    struct suite##_##name final : suite {                                                                    \
        void body() override;                                                                                \
    };                                                                                                       \
    [[maybe_unused]] const bool suite##_##name##_listed = ::urnic::conform::add_active_case(                 \
        {#suite, #name, clause, what,                                                                        \
         []() -> std::unique_ptr<::urnic::conform::Script> { return std::make_unique<suite##_##name>(); }}); \
    void suite##_##name::body()
// NOLINTEND(bugprone-macro-parentheses)
