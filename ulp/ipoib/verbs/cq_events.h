// Completion events of a queue that has a channel of its own.
#pragma once

#include <infiniband/verbs.h>

namespace urnic::ipoib {

/// Takes the events of `channel`, which does not block and belongs to `cq` alone, and asks for the next one.
inline void take_events_and_arm(ibv_comp_channel* channel, ibv_cq* cq) {
    ibv_cq* of = nullptr;
    void* context = nullptr;
    unsigned events = 0;
    while (ibv_get_cq_event(channel, &of, &context) == 0) {
        ++events;
    }
    if (events != 0) {
        ibv_ack_cq_events(cq, events);
    }
    ibv_req_notify_cq(cq, 0);
}

}  // namespace urnic::ipoib
