// What the scheduler alone makes of a ping-pong between processes: no RNIC, no daemon.
#pragma once

namespace urnic::bench {

/// Reads `HOW PLACE COMPUTING SECONDS` a line and answers each with a line of JSON. Three processes, as an
/// application, a daemon and another application, hand each other a word of shared memory, there and back;
/// each waits for it as HOW says: "spin", "yield" (sched_yield), "sleep" (futex) or "look" (25 us of looking,
/// then futex). PLACE: "anywhere"; "together", all three on one CPU; or "apart", the daemon on another CPU
/// than the applications. Meanwhile COMPUTING processes use every cycle that they get; unless PLACE is
/// "anywhere" each has a CPU of its own as long as there are enough. Returns the exit status.
[[nodiscard]] int take_turns();

}  // namespace urnic::bench
