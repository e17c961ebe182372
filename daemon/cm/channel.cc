#include "daemon/cm/channel.h"

namespace urnic::daemon {

int CmChannel::open(WakeBudget* budget, UniqueFd& theirs) {
    budget_ = budget;
    return make_event_socket(ours_, theirs);
}

void CmChannel::push(const CmEvent& event) {
    events_.push_back(event);
    announce();
}

void CmChannel::announce() {
    // One for each event, so that who waits for edges sees one.
    const char byte = 0;
    const EventSocket::Sent sent = EventSocket{ours_.get(), budget_}.send(&byte, sizeof byte);
    announced_ += sent == EventSocket::Sent::kSent ? 1 : 0;
    // A socket without room is readable already; to say so once more does no harm.
    is_owed_ = sent == EventSocket::Sent::kLater;
}

void CmChannel::pop() { events_.pop_front(); }

}  // namespace urnic::daemon
