// Packet scripts that need virtual time, or look into the simulated host. They have the steps of
// conform/case/script.h; what any engine can play is a case of conform/cases.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <string>

#include "conform/case/script.h"
#include "tests/sim/script_list.h"
#include "tests/sim/scripts/sim_bench.h"

namespace urnic::sim {

using namespace urnic::conform;  // NOLINT(google-build-using-namespace): its words are those of the scripts

class RcScript : public ::testing::Test, public conform::Script {
  protected:
    static constexpr std::uint32_t kQp = SimBench::kQp;
    static constexpr std::uint32_t kPeerQp = SimBench::kPeerQp;

    RcScript() { use(bench_); }
    void TearDown() override {
        if (!HasFailure()) {
            check_nothing_left();
        }
    }

    void connect(const ConnectOptions& options = {}, const SimHost::Options& host = {});
    void create(const ConnectOptions& options = {}, const SimHost::Options& host = {});
    /// The peer's request reaches the QP, which does not send yet: host().progress() lets it.
    void arrives(const ScriptPacket& request);

    [[nodiscard]] SimRegion& memory() { return bench_.sim_memory(); }
    [[nodiscard]] std::uint64_t& word(std::size_t offset);
    [[nodiscard]] SimHost& host() { return bench_.host(); }
    /// What the host put on the wire and the script has not asked for yet.
    [[nodiscard]] std::deque<SentPacket>& seen() { return bench_.network().packets(); }
    /// From now on what goes out is neither built nor seen, or it is again.
    void discard_frames(bool discards) { bench_.network().discards = discards; }
    [[nodiscard]] static bool is_selective() { return recovery() == Recovery::kSelective; }

  private:
    SimBench bench_;
};

}  // namespace urnic::sim

/// A script of a class that adds steps of its own to RcScript. `clause` is what it checks, `what` says it in
/// a sentence.
#define RC_SCRIPT_IN(suite, name, clause, what)                       \
    [[maybe_unused]] const bool suite##_##name##_listed =             \
        ::urnic::sim::register_script({#suite, #name, clause, what}); \
    TEST_F(suite, name)

/// A script with the steps of RcScript; `suite` groups scripts that go together.
#define RC_SCRIPT(suite, name, clause, what) \
    using suite = ::urnic::sim::RcScript;    \
    RC_SCRIPT_IN(suite, name, clause, what)
