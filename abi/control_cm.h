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
/// What QUERY_ROUTE and INIT_QP_ATTR would answer about an id at this moment, in the structures of
/// <rdma/rdma_user_cm.h>. Good until a command changes the id. QUERY's answers follow from the route, unless
/// the id has addresses of AF_IB, which it has as none.
struct CmIdSnapshot {
    static constexpr std::size_t kRouteBytes = 208;   // rdma_ucm_query_route_resp
    static constexpr std::size_t kQpAttrBytes = 144;  // ib_uverbs_qp_attr
    static constexpr std::uint32_t kFirstState = 1;   // ibv_qp_state: INIT, RTR, RTS
    static constexpr std::uint32_t kStates = 3;

    std::uint32_t id;
    std::uint16_t is_valid;        // 0: there is none, and the rest is 0
    std::uint16_t qp_attr_states;  // bit i: INIT_QP_ATTR for the state kFirstState + i has an answer
    std::uint8_t route[kRouteBytes];
    std::uint8_t qp_attr[kStates][kQpAttrBytes];
};
/// Sent whole with errors, too.
struct CmCommandReply {
    ReplyHeader header;
    std::uint32_t out_bytes;  // of `body`, at most those asked for
    std::uint32_t reserved;
    CmChannelFill own;    // of the command's channel
    CmChannelFill other;  // MIGRATE_ID: of the channel that the id came from
    std::uint8_t body[kMaxCmBytes];
    /// GET_EVENT: of the event's id, where librdmacm asks next; of a connection request's new id.
    CmIdSnapshot snapshot;
};

/// ACCEPT together with the changes of the connection's QP that librdmacm makes right before it. They are
/// executed in their order, then the command; the first that fails ends it, with its error. The reply is a
/// CmCommandReply, of a failed change the header alone. EINVAL for another command.
struct CmAcceptRequest {
    static constexpr std::uint32_t kMaxModifies = 3;
    struct Modify {
        std::uint32_t qp;
        std::uint32_t reserved;
        QpAttr attr;
    };
    RequestHeader header;
    std::uint32_t num_modifies;
    std::uint32_t reserved;
    Modify modifies[kMaxModifies];
    CmCommandRequest command;  // its header is not looked at
};
static_assert(sizeof(CmAcceptRequest) <= kMaxMessageBytes);

}  // namespace urnic::abi
