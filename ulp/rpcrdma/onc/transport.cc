#include "ulp/rpcrdma/onc/transport.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>

#include "ulp/rpcrdma/onc/address.h"
#include "ulp/rpcrdma/onc/ddp_table.h"
#include "ulp/rpcrdma/onc/rdma_server.h"

namespace urnic::rpcrdma::onc {

namespace {

/// Calls that svc_run() gets from one transport before it looks at others.
constexpr unsigned kMostInARow = 16;
/// A Reply of this size fits inline in every version, with all chunk lists (RFC 8166, 3.3.2).
constexpr std::size_t kAlwaysFitsOctets = 512;
constexpr std::size_t kHeaderWords = 3;  // XID, direction, RPC version

}  // namespace

struct TransportOps {
    static Transport& transport(SVCXPRT* handle) { return *static_cast<Transport*>(handle->xp_p2); }
    static bool_t receive(SVCXPRT* handle, rpc_msg* message) {
        return transport(handle).receive(*message) ? TRUE : FALSE;
    }
    static xprt_stat status(SVCXPRT* handle) {
        Transport& self = transport(handle);
        self.end_call();
        const bool has_more = handle == self.server_.listener().handle() &&
                              !self.server_.queue().is_empty() && ++self.served_in_a_row_ < kMostInARow;
        self.served_in_a_row_ = has_more ? self.served_in_a_row_ : 0;
        return has_more ? XPRT_MOREREQS : XPRT_IDLE;
    }
    static bool_t free_arguments(SVCXPRT* handle, xdrproc_t decode, void* arguments) {
        const Transport& self = transport(handle);
        // Also behind the Reply, with which the Call's memory is freed.
        self.decoder_.forget_in_place(arguments, self.items()->arguments);
        XDR freeing{};
        freeing.x_op = XDR_FREE;
        return decode(&freeing, arguments);
    }
    static bool_t get_arguments(SVCXPRT* handle, xdrproc_t decode, void* arguments) {
        Transport& self = transport(handle);
        if (self.request_ == nullptr) {
            return FALSE;
        }
        const auto items = self.items();
        self.decoder_.begin_in_place(arguments, items->arguments);
        const bool is_decoded = decode(self.decoder_.xdr(), arguments) != FALSE;
        self.decoder_.end_in_place();
        if (is_decoded) {
            return TRUE;
        }
        // rpcgen's stubs leave what was decoded before: a client could use up the memory of a server.
        free_arguments(handle, decode, arguments);
        return FALSE;
    }
    static bool_t reply(SVCXPRT* handle, rpc_msg* message) {
        return transport(handle).reply(*message) ? TRUE : FALSE;
    }
    static void destroy(SVCXPRT* handle) {
        Transport& self = transport(handle);
        if (handle == self.server_.listener().handle()) {
            delete &self.server_;
        } else {
            // A thread of svc_rdma_run() has it and will end with it.
            self.server_.queue().stop_waiting();
        }
    }
    static bool_t control(SVCXPRT* /*handle*/, u_int /*request*/, void* /*info*/) { return FALSE; }

    static constexpr TransportFunctions kOps = {receive, status,         get_arguments,
                                                reply,   free_arguments, destroy};
    static constexpr TransportControl kOps2 = {control};
};

Transport* Transport::of(SVCXPRT* handle) {
    return handle != nullptr && handle->xp_ops == &TransportOps::kOps ? &TransportOps::transport(handle)
                                                                      : nullptr;
}

int Transport::create(const char* network_id) {
    int ends[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return errno;
    }
    // libtirpc's own part of an SVCXPRT (xp_p3) can be made by libtirpc alone: this is one for the
    // descriptor, whose functions are ours then.
    handle_ = svc_fd_create(ends[0], 0, 0);
    if (handle_ == nullptr) {
        ::close(ends[0]);
        ::close(ends[1]);
        return ENOMEM;
    }
    write_end_ = ends[1];
    destroying_ops_ = handle_->xp_ops;
    handle_->xp_ops = &TransportOps::kOps;
    handle_->xp_ops2 = &TransportOps::kOps2;
    handle_->xp_p2 = this;
    std::free(handle_->xp_netid);
    handle_->xp_netid = strdup(network_id);
    return 0;
}

Transport::~Transport() {
    end_call();
    if (handle_ != nullptr) {
        handle_->xp_p2 = nullptr;
        handle_->xp_ops = destroying_ops_;
        // Closes the descriptor, too.
        SVC_DESTROY(handle_);
        ::close(write_end_);
    }
}

std::shared_ptr<const ProcedureItems> Transport::items() const {
    return find_items(program_, version_, procedure_);
}

int Transport::read_end() const { return handle_->xp_fd; }

void Transport::serve(rpcrdma_request* request) {
    given_ = request;
    svc_getreq_common(handle_->xp_fd);
    if (given_ != nullptr) {
        rpcrdma_request_drop(given_);
        given_ = nullptr;
    }
}

void Transport::end_call() {
    if (request_ != nullptr) {
        rpcrdma_request_drop(request_);
        request_ = nullptr;
    }
    decoder_.reset({});
}

bool Transport::receive(rpc_msg& message) {
    end_call();
    rpcrdma_request* request = given_;
    given_ = nullptr;
    if (request == nullptr && handle_ == server_.listener().handle()) {
        request = server_.queue().pop();
    }
    return request != nullptr && accept(request, message);
}

void Transport::note_peer() {
    sockaddr_storage peer{};
    rpcrdma_request_peer(request_, &peer);
    const socklen_t octets = address_octets(peer);
    if (handle_->xp_rtaddr.buf != nullptr && handle_->xp_rtaddr.maxlen >= octets) {
        std::memcpy(handle_->xp_rtaddr.buf, &peer, octets);
        handle_->xp_rtaddr.len = octets;
    }
    std::memcpy(&handle_->xp_raddr, &peer, std::min<std::size_t>(octets, sizeof handle_->xp_raddr));
    handle_->xp_addrlen = static_cast<int>(octets);
}

bool Transport::accept(rpcrdma_request* request, rpc_msg& message) {
    StoredReply stored;
    if (server_.replies().take(request, stored)) {
        // The same Call with more room: it was executed already.
        const rpcrdma_message answer = {.stream = stored.stream.data(),
                                        .stream_octets = stored.stream.size(),
                                        .items = stored.items.data(),
                                        .item_count = static_cast<std::uint32_t>(stored.items.size())};
        static_cast<void>(answer_with(request, answer));
        return false;
    }
    request_ = request;
    std::size_t octets = 0;
    const void* const stream = rpcrdma_request_stream(request, &octets);
    decoder_.reset(std::span(static_cast<const std::byte*>(stream), octets));
    note_peer();
    return decode_call(message);
}

bool Transport::decode_call(rpc_msg& message) {
    std::uint32_t words[kHeaderWords] = {};
    for (std::uint32_t& word : words) {
        if (!xdr_u_int32_t(decoder_.xdr(), &word)) {
            return false;
        }
    }
    xid_ = words[0];
    if (words[1] != CALL) {
        return false;
    }
    if (words[2] != RPC_MSG_VERSION) {
        static_cast<void>(deny(RPC_MISMATCH, AUTH_OK));
        return false;
    }
    XDR_SETPOS(decoder_.xdr(), 0);
    // Into memory of svc_getreq_common(); xdr_callmsg() takes at most MAX_AUTH_BYTES of each.
    if (!xdr_callmsg(decoder_.xdr(), &message)) {
        static_cast<void>(deny(AUTH_ERROR, AUTH_BADCRED));
        return false;
    }
    program_ = message.rm_call.cb_prog;
    version_ = message.rm_call.cb_vers;
    procedure_ = message.rm_call.cb_proc;
    const enum_t flavor = message.rm_call.cb_cred.oa_flavor;
    has_ddp_ = flavor == AUTH_NONE || flavor == AUTH_SYS || flavor == AUTH_SHORT;
    if (flavor == RPCSEC_GSS) {
        // Its arguments would have to be unwrapped, by functions that libtirpc keeps to itself.
        static_cast<void>(deny(AUTH_ERROR, AUTH_REJECTEDCRED));
        return false;
    }
    return true;
}

bool Transport::deny(reject_stat why, auth_stat auth) {
    rpc_msg message{};
    message.rm_direction = REPLY;
    message.rm_reply.rp_stat = MSG_DENIED;
    message.rjcted_rply.rj_stat = why;
    if (why == RPC_MISMATCH) {
        message.rjcted_rply.rj_vers = {.low = RPC_MSG_VERSION, .high = RPC_MSG_VERSION};
    } else {
        message.rjcted_rply.rj_why = auth;
    }
    return reply(message);
}

bool Transport::encode_reply(rpc_msg& message, bool leave_out) {
    encoder_.reset();
    const bool has_results =
        message.rm_reply.rp_stat == MSG_ACCEPTED && message.acpted_rply.ar_stat == SUCCESS;
    rpc_msg head = message;
    head.rm_xid = xid_;
    xdrproc_t encode = nullptr;
    void* results = nullptr;
    if (has_results) {
        encode = message.acpted_rply.ar_results.proc;
        results = message.acpted_rply.ar_results.where;
        head.acpted_rply.ar_results = {.where = nullptr, .proc = xdr_nothing};
    }
    if (!xdr_replymsg(encoder_.xdr(), &head)) {
        return false;
    }
    if (!has_results) {
        return true;
    }
    const auto eligible = items();
    if (leave_out) {
        const std::size_t count =
            std::min<std::size_t>(eligible->results.size(), rpcrdma_request_result_count(request_));
        encoder_.leave_out(results, std::span(eligible->results).first(count));
    }
    const bool is_encoded = encode(encoder_.xdr(), results) != FALSE;
    encoder_.leave_out(nullptr, {});
    return is_encoded;
}

bool Transport::reply(rpc_msg& message) {
    if (request_ == nullptr || !encode_reply(message, has_ddp_)) {
        return false;
    }
    const rpcrdma_message encoded = encoder_.message();
    const bool is_of_the_call = std::any_of(
        encoded.items, encoded.items + encoded.item_count,
        [this](const rpcrdma_item& item) { return item.octets != 0 && decoder_.has_in_stream(item.data); });
    // A Reply that does not fit is kept, and would outlive the Call's memory.
    if ((encoder_.is_ambiguous() || is_of_the_call) && !encode_reply(message, false)) {
        return false;
    }
    return send();
}

bool Transport::send() {
    const rpcrdma_message answer = encoder_.message();
    rpcrdma_request* const request = request_;
    // It ends in any case.
    request_ = nullptr;
    if (answer.item_count == 0 && answer.stream_octets <= kAlwaysFitsOctets) {
        return rpcrdma_reply_to(request, &answer, nullptr, nullptr) == 0;
    }
    return answer_with(request, answer);
}

bool Transport::answer_with(rpcrdma_request* request, const rpcrdma_message& answer) {
    auto pending = server_.replies().begin(request);
    const int error = rpcrdma_reply_to(request, &answer, nullptr, nullptr);
    if (error == EMSGSIZE) {
        // The client was told how much room it needs.
        pending.keep(answer);
    }
    return error == 0 || error == EMSGSIZE;
}

}  // namespace urnic::rpcrdma::onc
