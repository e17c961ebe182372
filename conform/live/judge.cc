#include "conform/live/judge.h"

#include <algorithm>

namespace urnic::conform {

namespace {

// Where it failed and on what: the same for attempts that fail alike.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// What all packets of a device have in common makes one case not-strict, the one that is about it.
bool counts_for(const Case& entry, const std::string& deviation) {
    return deviation != kMigReqZero || std::string_view(entry.name).find("MigReq") != std::string_view::npos;
}

/// Returns whether that attempt decides.
bool attempt(const Case& entry, JudgedBench& bench, CaseResult& result, std::string& failure, bool& is_late) {
    const std::unique_ptr<Script> script = entry.make();
    try {
        script->play(bench);
        if (result.attempts > 1) {
            result.verdict = VerdictKind::kInconclusive;
            result.reason =
                "passed at attempt " + std::to_string(result.attempts) + ", failed before: " + failure;
        } else {
            result.measurements = script->measurements();
            result.verdict = result.measurements.empty() ? VerdictKind::kPassed : VerdictKind::kInformational;
            for (const std::string& deviation : script->deviations()) {
                if (counts_for(entry, deviation)) {
                    result.verdict = VerdictKind::kNotStrict;
                    result.reason += (result.reason.empty() ? "" : "; ") + deviation;
                }
            }
        }
        return true;
    } catch (const NotApplicable& reason) {
        result.verdict = VerdictKind::kNotApplicable;
        result.reason = reason.what();
        return true;
    } catch (const CannotPlay& reason) {
        result.verdict = VerdictKind::kInconclusive;
        result.reason = std::string("the tester cannot play it: ") + reason.what();
        return true;
    } catch (const StepLate& step) {
        failure = step.what();
        is_late = true;
        return false;
    } catch (const StepFailed& step) {
        is_late = false;
        failure = step.what();
        return false;
    }
}

}  // namespace

std::string_view verdict_name(VerdictKind kind) {
    constexpr std::string_view kNames[kVerdictKinds] = {"passed",        "failed",         "not-strict",
                                                        "informational", "not applicable", "inconclusive"};
    return kNames[static_cast<std::size_t>(kind)];
}

std::string case_name(const Case& entry) { return std::string(entry.suite) + "." + entry.name; }

std::string_view why_not_live(const Case& entry) {
    const std::string name = case_name(entry);
    const std::vector<CaseNotLive> list = cases_not_live();
    const auto found =
        std::find_if(list.begin(), list.end(), [&](const CaseNotLive& item) { return item.name == name; });
    return found == list.end() ? std::string_view{} : found->reason;
}

CaseResult judge(const Case& entry, JudgedBench& bench, PathProof& path, const JudgeOptions& options) {
    CaseResult result;
    result.entry = &entry;
    std::string failure;
    bool is_late = false;
    bool is_decided = false;
    std::uint32_t failures = 0;  // of a tester that kept time
    while (!is_decided && failures < options.attempts &&
           result.attempts < kPlaysForAnAttempt * options.attempts) {
        ++result.attempts;
        bench.begin_case(options.case_limit_ns);
        const TimeNs begun = bench.now();
        try {
            is_decided = attempt(entry, bench, result, failure, is_late);
        } catch (const CaseTooLong& reason) {
            is_decided = true;
            result.reason = reason.what();
        }
        result.took_ns += bench.real_now() - begun;
        result.trace = bench.trace();
        if (const TimeNs held_up = bench.held_up_ns(); !is_decided && held_up > kMostHeldUpNs) {
            failure.insert(0, "the tester was held up by " + std::to_string(held_up / 1'000'000) + " ms; ");
        } else if (!is_decided) {
            ++failures;
        }
    }
    bench.end_case();
    if (!is_decided && (is_late || failures < options.attempts)) {
        result.reason = failure;
    } else if (!is_decided) {
        const std::string lost = path.prove();
        result.verdict = lost.empty() ? VerdictKind::kFailed : VerdictKind::kInconclusive;
        result.reason = lost.empty() ? failure : lost + "; meanwhile: " + first_line(failure);
    }
    return result;
}

}  // namespace urnic::conform
