// What a case says about a device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "conform/case/case_list.h"
#include "conform/live/live_wire.h"

namespace urnic::conform {

enum class VerdictKind : std::uint8_t {
    kPassed,
    kFailed,         // each time, over a path that lost nothing, by a tester that kept time
    kNotStrict,      // the device bears it, but not as written
    kInformational,  // the specification leaves a choice; which one was made
    kNotApplicable,  // the device has not what the case needs
    kInconclusive,   // the tester cannot say
};
inline constexpr std::size_t kVerdictKinds = 6;
[[nodiscard]] std::string_view verdict_name(VerdictKind kind);

struct CaseResult {
    const Case* entry = nullptr;
    VerdictKind verdict = VerdictKind::kInconclusive;
    std::string reason;  // a line or more; empty when it passed
    std::vector<Measurement> measurements;
    std::uint32_t attempts = 0;
    TimeNs took_ns = 0;
    std::vector<TracedFrame> trace;  // of the last attempt
};

/// A case that no real device is judged by, and why: "Suite.Name".
struct CaseNotLive {
    std::string_view name;
    std::string_view reason;
};
[[nodiscard]] std::vector<CaseNotLive> cases_not_live();
/// Empty when the case is played against real devices.
[[nodiscard]] std::string_view why_not_live(const Case& entry);
[[nodiscard]] std::string case_name(const Case& entry);

/// Whether frames reach the device and come back: asked before anything counts as the device's failure.
class PathProof {
  public:
    virtual ~PathProof() = default;
    /// Empty when nothing was lost; else what was.
    virtual std::string prove() = 0;
};

/// A tester whose waits end later than this cannot tell what came early, and may have let timers run out.
inline constexpr TimeNs kMostHeldUpNs = 10'000'000;
/// How often a case is played at most, for each attempt that is to count.
inline constexpr std::uint32_t kPlaysForAnAttempt = 3;

struct JudgeOptions {
    std::uint32_t attempts = 3;             // while it fails
    TimeNs case_limit_ns = 60'000'000'000;  // of one attempt
};

/// Plays the case, several times while it fails. Throws BenchFailed when the agent or the port are lost: no
/// other case can be played then.
[[nodiscard]] CaseResult judge(const Case& entry, JudgedBench& bench, PathProof& path,
                               const JudgeOptions& options);

}  // namespace urnic::conform
