// The ids of this process's rdma_cm channels, kept so that each can be told when the daemon is gone: as after
// the removal of a kernel's device there is an event for each id, and then silence.
#pragma once

#include <cstddef>
#include <cstdint>

namespace urnic::provider {

/// After a command that succeeded: notes ids that are made, move to another channel, connect or end.
/// `channel`: the handle of the channel that the command was written to; `body` and `answer` as librdmacm's
/// kernel interface has them.
void note_cm_command(std::uint32_t channel, std::uint32_t command, const std::uint8_t* body,
                     std::size_t body_bytes, const std::uint8_t* answer, std::size_t answer_bytes);

/// The daemon is gone: puts the next event of an id of that channel into `answer`, as GET_EVENT does. An id
/// that was connected is disconnected, any other has lost its device. Returns how many bytes it has; 0: each
/// id was told.
[[nodiscard]] std::size_t next_event_of_gone_daemon(std::uint32_t channel, std::uint8_t* answer,
                                                    std::size_t room);

/// Around fork(); a child has none of its parent's ids.
void lock_cm_ids();
void unlock_cm_ids();
void reset_cm_ids();

}  // namespace urnic::provider
