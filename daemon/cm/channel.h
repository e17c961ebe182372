// An event channel of librdmacm: the events that wait for its application, and the descriptor that is
// readable while one does.
#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <list>

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

class CmChannel {
  public:
    /// 0 or errno.
    [[nodiscard]] int open();
    /// The application's end.
    [[nodiscard]] int reader() const { return theirs_.get(); }

    /// Throws std::bad_alloc, then nothing has changed.
    void push(const CmEvent& event);
    [[nodiscard]] bool empty() const { return events_.empty(); }
    [[nodiscard]] const CmEvent& front() const { return events_.front(); }
    void pop();
    /// Takes out the next event that `wanted` names; false: there is none. Needs no memory.
    template <typename Wanted>
    bool take(Wanted wanted, CmEvent& event) {
        for (auto at = events_.begin(); at != events_.end(); ++at) {
            if (wanted(*at)) {
                event = *at;
                events_.erase(at);
                quieten();
                return true;
            }
        }
        return false;
    }
    /// Takes over those events of `from` that `wanted` names. Needs no memory.
    template <typename Wanted>
    void take_over(CmChannel& from, Wanted wanted) {
        for (auto at = from.events_.begin(); at != from.events_.end();) {
            const auto moved = at++;
            if (wanted(*moved)) {
                events_.splice(events_.end(), from.events_, moved);
                announce();
            }
        }
        from.quieten();
    }
    [[nodiscard]] std::size_t size() const { return events_.size(); }

    std::uint32_t num_ids = 0;

  private:
    void announce();
    void quieten();
    // Two ends of a stream. We keep the application's as well, to take back what made it readable; it cannot
    // send (and so not give us descriptors), and whether its reads block is its own affair.
    UniqueFd ours_;
    UniqueFd theirs_;
    std::list<CmEvent> events_;
};

}  // namespace urnic::daemon
