// The ids and groups of this process's rdma_cm channels. librdmacm takes what an event says of its id for an
// address, and waits for the acknowledgement of as many events as an answer says: both are known here, and
// the daemon is not believed. When it is dead each id is told: as after the removal of a kernel's device
// there is an event for each id, and then silence.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/control_cm.h"

namespace urnic::provider {

/// A channel, by the daemon's handle, which another session's may have as well.
struct CmPlace {
    const void* session;
    std::uint32_t channel;
    bool operator==(const CmPlace&) const = default;
};

/// Before a command goes to the daemon, whose events may come before its answer: notes the id or group that
/// they will name. `place`: the channel that the command was written to; `body` as librdmacm's kernel
/// interface has it.
void note_cm_command(const CmPlace& place, std::uint32_t command, const std::uint8_t* body,
                     std::size_t body_bytes);

enum class CmAnswer : std::uint8_t {
    kGood,
    kOfNobody,    // an event of an id or group that there is not, or not any more
    kImpossible,  // longer than it is, or an id that there is already
};
/// After a command that succeeded: notes ids that are made, move to another channel, connect or end. `answer`
/// has room for kMaxCmBytes; how many events were reported is put in.
[[nodiscard]] CmAnswer take_cm_answer(const CmPlace& place, std::uint32_t command, const std::uint8_t* body,
                                      std::size_t body_bytes, std::uint8_t* answer, std::size_t answer_bytes);
/// How many commands have changed ids so far: to be read before a command whose reply may have a snapshot.
[[nodiscard]] std::uint64_t cm_changes();
/// After an event was taken: keeps what its reply says of an id, unless a command has changed that id since
/// `changes_before`.
void keep_cm_snapshot(const CmPlace& place, const abi::CmIdSnapshot& snapshot, std::uint64_t changes_before);
/// After a command, also one that failed: what was known of its id is not so any more.
void drop_cm_snapshot(const CmPlace& place, std::uint32_t command, const std::uint8_t* body,
                      std::size_t body_bytes);
/// Answers a command of which the answer is known. Returns whether it is; then `answer` has
/// `answer_bytes`, all that librdmacm has room for.
[[nodiscard]] bool answer_from_cm_snapshot(const CmPlace& place, std::uint32_t command,
                                           const std::uint8_t* body, std::size_t body_bytes,
                                           std::uint8_t* answer, std::size_t answer_bytes);
/// After a command that failed: the group that it would have joined.
void forget_refused_join(std::uint32_t command, const std::uint8_t* body, std::size_t body_bytes);

/// The daemon is dead: puts the next event of an id of that channel into `answer`, as GET_EVENT does. An id
/// that was connected is disconnected, any other has lost its device. Returns how many bytes it has; 0: each
/// id was told.
[[nodiscard]] std::size_t next_event_of_gone_daemon(const CmPlace& place, std::uint8_t* answer,
                                                    std::size_t room);

/// The channel is closed: its ids are at their end.
void forget_cm_channel(const CmPlace& place);

/// Around fork(); a child has none of its parent's ids.
void lock_cm_ids();
void unlock_cm_ids();
void reset_cm_ids();

}  // namespace urnic::provider
