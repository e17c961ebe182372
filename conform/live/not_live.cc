// The cases that real devices are not judged by. tests/unit/conform checks that each is a case.
#include "conform/live/judge.h"

namespace urnic::conform {

namespace {

constexpr std::string_view kPkeyTable =
    "needs other P_Keys in the device's table, which its subnet manager or driver makes";
constexpr std::string_view kOneBurst = "needs packets that reach the device's transport as one burst";
constexpr std::string_view kMicroseconds =
    "has timers so short that a wire's delay and a busy machine decide";
constexpr std::string_view kLongTimers = "waits for timers of minutes";
constexpr std::string_view kCqSize = "needs a CQ of an exact size; devices round it up";
constexpr std::string_view kAsLinuxAnswers =
    "has a peer that answers as Linux rxe does, which no other device has to take";
constexpr std::string_view kOwnChoice =
    "is a choice of this RNIC's among those that the specification leaves";
constexpr std::string_view kPostRefused = "posts what stock libibverbs refuses before the device sees it";

}  // namespace

std::vector<CaseNotLive> cases_not_live() {
    return {
        {"QpStates.NothingBeforeRts", kPostRefused},
        {"QpStates.NoResponsesBeforeRts", kPostRefused},
        {"RequesterLocalErrors.InlineRead", kPostRefused},
        {"RequesterLocalErrors.OpcodesThatRcDoesNotOffer", kPostRefused},
        {"RequesterLocalErrors.CompletionQueueOverrun", kCqSize},
        {"RequesterLocalErrors.ReceiveCompletionQueueOverrun", kCqSize},
        {"RequesterPackets.KeyFields", kPkeyTable},
        {"ResponderHeader.LimitedMembers", kPkeyTable},
        {"ResponseHeaders.PkeyOfALimitedMember", kPkeyTable},
        {"RequesterRnr.NextRequestSetsTheAnswerGoing", kOneBurst},
        {"RequesterLoss.LateNakWhileAResponseIsMissing", kOneBurst},
        {"ResponderRight.MoreThanMaxDestRdAtomic", kOneBurst},
        {"ResponderAck.CoalescedInABurst", kOneBurst},
        {"ResponderGap.ReorderedInsideABurst", kOneBurst},
        {"RequesterRnr.NoTimeoutDuringTheWait", kMicroseconds},
        {"QpStates.SqdAttributesApply", kMicroseconds},
        {"RequesterTimeouts.GhostsAreNoProgress", kMicroseconds},
        {"RequesterTimeouts.EveryTimeoutCode", kLongTimers},
        {"RequesterTimeouts.SlowAnswersGetLonger", kOwnChoice},
        {"RequesterRnr.NakInsideARead", kAsLinuxAnswers},
        {"RequesterRnr.NakOfAReadUnderWay", kAsLinuxAnswers},
        {"RequesterRnr.NakOfAReadUnderWayCounts", kAsLinuxAnswers},
        {"RequesterRnr.NakBehindALostResponse", kAsLinuxAnswers},
        {"RequesterRnr.AnswerGoesOnWithoutAFirst", kAsLinuxAnswers},
        {"RequesterRnr.LostNakOfARead", kAsLinuxAnswers},
    };
}

}  // namespace urnic::conform
