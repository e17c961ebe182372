// An event channel of librdmacm: the events that wait for its application, and the descriptor that is
// readable while one does.
#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <list>

#include "os/disposer.h"
#include "os/event_socket.h"
#include "os/unique_fd.h"

namespace urnic::daemon {

struct CmId;
struct CmGroup;

struct CmEvent {
    CmId* id = nullptr;        // whose it is: for a connect request the listener
    CmId* child = nullptr;     // connect request: the id that came with it, not seen by anybody yet
    CmGroup* group = nullptr;  // of a multicast group
    rdma_ucm_event_resp body{};
};

using CmEvents = std::list<CmEvent>;
/// Those of one id, in their order: an id that ends looks at its own events, not at all of its channel.
using CmEventsOfId = std::list<CmEvents::iterator>;

class CmChannel : public Disposable {
  public:
    /// `theirs`: the application's end. 0 or errno.
    [[nodiscard]] int open(WakeBudget* budget, UniqueFd& theirs);

    /// event.id's channel is this one. Throws std::bad_alloc, then nothing has changed.
    void push(const CmEvent& event);
    [[nodiscard]] bool empty() const { return events_.empty(); }
    [[nodiscard]] const CmEvent& front() const { return events_.front(); }
    void pop();
    /// Takes out one event of an id whose channel this is.
    CmEvent take(CmEventsOfId& events, CmEventsOfId::iterator at);
    /// Takes over the events of an id from its channel. Needs no memory.
    void take_over(CmChannel& from, const CmEventsOfId& events);
    [[nodiscard]] std::size_t size() const { return events_.size(); }

    /// Messages sent since the channel was opened. The application's provider takes out what is more than
    /// size(): we never receive from what the application can receive from, whose lock it can hold.
    [[nodiscard]] std::uint32_t announced() const { return announced_; }
    /// Says what its user's budget did not allow to say when it happened.
    void announce_owed() {
        if (is_owed_ && !events_.empty()) {
            announce();
        }
    }

    std::uint32_t num_ids = 0;

  private:
    void announce();
    UniqueFd ours_;
    WakeBudget* budget_ = nullptr;
    std::uint32_t announced_ = 0;
    bool is_owed_ = false;
    CmEvents events_;
};

}  // namespace urnic::daemon
