// How a poll that finds nothing gives way to the threads that it waits for.
#pragma once

namespace urnic::provider {

struct Cq;

/// After a poll of `cq` that found nothing; without the CQ's lock. Where the daemon has cores of its own this
/// does nothing. Elsewhere it yields, or sleeps until a CQ that this thread polls has a completion (1 ms at
/// most: the thread may wait for something else besides), whichever is the faster here (YieldMonitor). A
/// thread that does other work between its polls continues with that at once where others compute. Once the
/// daemon is gone, a thread that polls again and again sleeps 1 ms each time.
void poll_missed(Cq& cq);

}  // namespace urnic::provider
