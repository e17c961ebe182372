// How a poll that finds nothing gives way to the threads that it waits for.
#pragma once

namespace urnic::provider {

struct Cq;

/// After a poll of `cq` that found nothing; without the CQ's lock. Returns whether it gave way: then the
/// caller looks again, since who is told that a CQ is empty takes that for now. libfabric 1.17 closes a
/// connection that its peer has left without another look, and what came meanwhile is lost with the QP. Where
/// the daemon has cores of its own this does nothing. Elsewhere it yields, or sleeps until a CQ that this
/// thread polls has a completion (1 ms at most: the thread may wait for something else besides), whichever is
/// the faster here (YieldMonitor). A thread that does other work between its polls continues with that at
/// once where others compute. Once the daemon is dead, a thread that polls again and again sleeps 1 ms each
/// time.
bool poll_missed(Cq& cq);

/// What a thread posted woke a worker.
void note_wake(Cq& cq);
/// After a poll of `cq` that found something; without the CQ's lock. The work that woke a worker may be done
/// before its poster has polled for the first time, which so never gives way: ib_write_lat, which waits for
/// its peer by looking at memory, kept the peer from their common CPU for each whole time slice, and for
/// ever, as the worker slept again meanwhile.
void give_way_after_wake(Cq& cq);

}  // namespace urnic::provider
