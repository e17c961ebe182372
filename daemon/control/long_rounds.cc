#include "daemon/control/long_rounds.h"

#include <optional>
#include <string>

#include "dataplane/worker/round_watch.h"
#include "os/log.h"

namespace urnic::daemon {

namespace {

constexpr TimeNs kMillisecondNs = 1'000'000;

/// Counts it for whose turn it was and for from whose memory was copied: one of the two has made the worker
/// wait. The line is one of the first's, or of the other's when he has none left. nullopt: neither has.
std::optional<std::uint64_t> count_round(ControlState& control, const dataplane::LongRound& round) {
    const TimeNs now = clock_now();
    if (round.program.pid == 0) {
        return control.nobodys_long_rounds.add(now);
    }
    const auto suppressed = control.user(round.program.uid).long_rounds().add(now);
    if (round.sender.pid == 0 || round.sender.uid == round.program.uid) {
        return suppressed;
    }
    LimitedLog& of_sender = control.user(round.sender.uid).long_rounds();
    if (suppressed) {
        of_sender.note();
        return suppressed;
    }
    return of_sender.add(now);
}

std::string whose(const dataplane::LongRound& round) {
    if (round.program.pid == 0) {
        return "in no program's turn";
    }
    std::string text =
        fmt::format("{} ms of it in the turn of user {}, process {}", round.longest_turn_ns / kMillisecondNs,
                    round.program.uid, round.program.pid);
    if (round.sender.pid != 0 && round.sender.pid != round.program.pid) {
        text += fmt::format(", with payload in the memory of user {}, process {}", round.sender.uid,
                            round.sender.pid);
    }
    return text;
}

void log_long_round(ControlState& control, std::size_t worker, const dataplane::LongRound& round) {
    const auto suppressed = count_round(control, round);
    if (!suppressed) {
        return;
    }
    const std::string others =
        *suppressed == 0 ? "" : fmt::format(" ({} since the last line are not logged)", *suppressed);
    log_warning("a round of worker {} took {} ms, {}{}", worker, round.took_ns / kMillisecondNs, whose(round),
                others);
}

}  // namespace

void log_long_rounds(ControlState& control) {
    for (std::size_t index = 0; index < control.workers.size(); ++index) {
        dataplane::LongRound round;
        while (control.workers[index]->take_long_round(round)) {
            log_long_round(control, index, round);
        }
    }
}

}  // namespace urnic::daemon
