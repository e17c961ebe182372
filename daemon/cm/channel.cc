#include "daemon/cm/channel.h"

#include <iterator>

#include "daemon/cm/id.h"

namespace urnic::daemon {

int CmChannel::open(WakeBudget* budget, UniqueFd& theirs) {
    budget_ = budget;
    return make_event_socket(ours_, theirs);
}

void CmChannel::push(const CmEvent& event) {
    CmEventsOfId place(1);
    events_.push_back(event);
    place.front() = std::prev(events_.end());
    CmEventsOfId& own = event.id->events;
    own.splice(own.end(), place);
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

/// The channel's oldest event is its id's oldest, too.
void CmChannel::pop() {
    events_.front().id->events.pop_front();
    events_.pop_front();
}

CmEvent CmChannel::take(CmEventsOfId& events, CmEventsOfId::iterator at) {
    const CmEvent event = **at;
    events_.erase(*at);
    events.erase(at);
    return event;
}

void CmChannel::take_over(CmChannel& from, const CmEventsOfId& events) {
    for (const CmEvents::iterator event : events) {
        events_.splice(events_.end(), from.events_, event);
        announce();
    }
}

}  // namespace urnic::daemon
