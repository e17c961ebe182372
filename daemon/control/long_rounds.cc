#include "daemon/control/long_rounds.h"

#include <string>

#include "dataplane/worker/round_watch.h"
#include "os/log.h"

namespace urnic::daemon {

namespace {

constexpr TimeNs kMillisecondNs = 1'000'000;

void log_long_round(ControlState& control, std::size_t worker, const dataplane::LongRound& round) {
    const bool is_somebodys = round.program.pid != 0;
    LimitedLog& log =
        is_somebodys ? control.user(round.program.uid).long_rounds() : control.nobodys_long_rounds;
    const auto suppressed = log.add(clock_now());
    if (!suppressed) {
        return;
    }
    std::string whose = "in no program's turn";
    if (is_somebodys) {
        whose = fmt::format("{} ms of it in the turn of user {}, process {}",
                            round.longest_turn_ns / kMillisecondNs, round.program.uid, round.program.pid);
        if (round.sender.pid != 0 && round.sender.pid != round.program.pid) {
            whose += fmt::format(", copying from the memory of user {}, process {}", round.sender.uid,
                                 round.sender.pid);
        }
    }
    const std::string others =
        *suppressed == 0 ? "" : fmt::format(" ({} since the last line are not logged)", *suppressed);
    log_warning("a round of worker {} took {} ms, {}{}", worker, round.took_ns / kMillisecondNs, whose,
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
