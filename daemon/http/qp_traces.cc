#include "daemon/http/qp_traces.h"

#include <algorithm>

namespace urnic::daemon {

std::vector<QpTraces::Entry>::iterator QpTraces::find(const TracedQp& qp) {
    return std::find_if(traces_.begin(), traces_.end(), [&](const Entry& entry) { return entry.qp == qp; });
}

bool QpTraces::ask(const TracedQp& qp, TimeNs now) {
    const auto found = find(qp);
    if (found != traces_.end()) {
        found->asked_ns = now;
        return true;
    }
    if (traces_.size() >= most_) {
        return false;
    }
    Entry& made = traces_.emplace_back();
    made.qp = qp;
    made.asked_ns = now;
    return true;
}

bool QpTraces::forget_late(TimeNs now) {
    return std::erase_if(traces_, [&](const Entry& entry) { return now - entry.asked_ns > kPatienceNs; }) !=
           0;
}

WantedTraces QpTraces::wanted() const {
    WantedTraces wanted;
    for (const Entry& entry : traces_) {
        wanted.push_back(entry.qp);
    }
    return wanted;
}

QpTraces::Answer QpTraces::answer(const TracedQp& qp, const RunningTraces& running, TimeNs now) {
    const auto told = std::find_if(running.begin(), running.end(),
                                   [&](const RunningTrace& trace) { return trace.qp == qp; });
    const auto entry = find(qp);
    if (told == running.end() || entry == traces_.end()) {
        return {};
    }
    if (told->ring == nullptr) {
        traces_.erase(entry);  // its place is another's
        return {nullptr, told->problem};
    }
    if (entry->ring != told->ring) {
        entry->ring = told->ring;
        entry->trace = std::make_unique<QpTrace>(*told);
        entry->text = nullptr;
    }
    if (entry->text == nullptr || now - entry->made_ns >= kTextNs) {
        entry->trace->read();
        entry->text = std::make_shared<const std::string>(entry->trace->text(told->is_gone));
        entry->made_ns = now;
    }
    return {entry->text, ""};
}

}  // namespace urnic::daemon
