// The part of the control protocol that carries librdmacm's: event channels, which stand for open files of
// /dev/infiniband/rdma_cm, and the commands written to them. Included by control.h.
#pragma once

#include "abi/control.h"

namespace urnic::abi {

/// OpenCmChannel: a HandleReply with fd [0], the channel as the application sees it: a Unix SEQPACKET socket
/// that only receives, a message of one byte for each event. The provider takes the messages out
/// (CmChannelFill), so that it is readable while an event waits. EMFILE: a limit.
struct OpenCmChannelRequest {
    RequestHeader header;
};

/// Longest command or answer, without its header; the largest that librdmacm has is a query for six paths.
inline constexpr std::size_t kMaxCmBytes = 512;

/// One command as librdmacm writes it to the channel, without rdma_ucm_cmd_hdr, whose content stands in
/// `command` and `out_bytes`. Pointers in the body mean nothing to the daemon. Where a command names
/// something outside its body, the provider puts it in: SET_OPTION has the option's value right after the
/// structure, and MIGRATE_ID in place of `fd` the handle of that channel. Errors are those of the kernel's
/// ucma_write(); GET_EVENT answers EAGAIN when no event waits.
struct CmCommandRequest {
    RequestHeader header;
    std::uint32_t channel;
    std::uint32_t command;    // RDMA_USER_CM_CMD_...
    std::uint32_t in_bytes;   // of `body`
    std::uint32_t out_bytes;  // room for the answer
    std::uint8_t body[kMaxCmBytes];
};
/// What a channel held when the command was done. A channel of which `announced - taken out` is more than
/// `waiting` has so many messages without an event. Replies may be looked at in any order.
struct CmChannelFill {
    std::uint32_t announced;  // messages sent since it was opened; wraps
    std::uint32_t waiting;    // events
};
/// Sent whole with errors, too.
struct CmCommandReply {
    ReplyHeader header;
    std::uint32_t out_bytes;  // of `body`, at most those asked for
    std::uint32_t reserved;
    CmChannelFill own;    // of the command's channel
    CmChannelFill other;  // MIGRATE_ID: of the channel that the id came from
    std::uint8_t body[kMaxCmBytes];
};

}  // namespace urnic::abi
