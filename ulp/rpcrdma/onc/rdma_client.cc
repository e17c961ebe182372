#include "ulp/rpcrdma/onc/rdma_client.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>

#include "ulp/rpcrdma/onc/client_error.h"
#include "ulp/rpcrdma/onc/client_ops.h"
#include "ulp/rpcrdma/onc/ddp_table.h"
#include "ulp/rpcrdma/onc/libtirpc.h"
#include "ulp/rpcrdma/onc/xdr_decoder.h"

namespace urnic::rpcrdma::onc {

namespace {

constexpr int kCredentialRefreshes = 2;  // as libtirpc's own transports
constexpr int kMostEnlargements = 4;
constexpr std::size_t kMicrosecondsPerSecond = 1'000'000;

struct ThreadError {
    std::uint64_t client = 0;
    rpc_err error{};
};
// Of the thread's last call: many threads share a CLIENT.
thread_local ThreadError thread_error;

std::uint32_t random_xid() {
    std::uint32_t value = 0;
    // Without randomness XIDs begin at 0; they need be different on one connection alone.
    return getrandom(&value, sizeof value, GRND_NONBLOCK) == sizeof value ? value : 0;
}

std::uint64_t next_serial() {
    static std::atomic<std::uint64_t> serial{0};
    return ++serial;
}

rpc_err error_of(clnt_stat status, int error = 0) {
    rpc_err result{};
    result.re_status = status;
    result.re_errno = error;
    return result;
}

bool is_valid_time(const timeval& time) {
    constexpr time_t kMostSeconds = 100'000'000;
    return time.tv_sec >= 0 && time.tv_sec <= kMostSeconds && time.tv_usec >= 0 &&
           static_cast<std::size_t>(time.tv_usec) < kMicrosecondsPerSecond;
}

std::uint32_t milliseconds(const timeval& time) {
    const std::uint64_t value = static_cast<std::uint64_t>(time.tv_sec) * 1000 +
                                (static_cast<std::uint64_t>(time.tv_usec) + 999) / 1000;
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(value, std::numeric_limits<std::uint32_t>::max()));
}

/// A call that nobody waits for: what it needs until it has ended.
struct LoneCall {
    XdrEncoder encoder;
    static void done(void* context, int /*error*/, rpcrdma_reply* reply) {
        if (reply != nullptr) {
            rpcrdma_reply_release(reply);
        }
        delete static_cast<LoneCall*>(context);
    }
};

}  // namespace

struct RdmaClient::Attempt {
    XdrEncoder encoder;
    ResultMemory results;
    std::uint64_t max_reply_octets = 0;
    int enlargements = 0;
    rpcrdma_reply reply{};
    bool has_reply = false;

    ~Attempt() { release_reply(); }
    void release_reply() {
        if (has_reply) {
            rpcrdma_reply_release(&reply);
            has_reply = false;
        }
    }
};

RdmaClient::RdmaClient(rpcrdma_client* connection, const SocketAddress& server, rpcprog_t program,
                       rpcvers_t version, std::uint64_t max_message_octets)
    : network_id_(network_id(server.storage)),
      connection_(connection),
      server_(server),
      max_message_octets_(max_message_octets),
      program_(program),
      version_(version),
      xid_(random_xid()),
      serial_(next_serial()) {
    handle_.cl_auth = authnone_create();
    handle_.cl_ops = client_ops();
    handle_.cl_private = this;
    handle_.cl_netid = network_id_.data();
    handle_.cl_tp = device_.data();
    server_buffer_ = {.maxlen = server_.octets, .len = server_.octets, .buf = &server_.storage};
}

RdmaClient::~RdmaClient() { rpcrdma_disconnect(connection_); }

bool RdmaClient::is_auth_known() const {
    const enum_t flavor = handle_.cl_auth->ah_cred.oa_flavor;
    return flavor == AUTH_NONE || flavor == AUTH_SYS || flavor == AUTH_SHORT;
}

clnt_stat RdmaClient::call(const ProcedureCall& call, const timeval& timeout) {
    timeval chosen = timeout;
    {
        const std::scoped_lock lock(mutex_);
        if (has_timeout_ || !is_valid_time(timeout)) {
            chosen = timeout_;
        }
    }
    rpc_err error{};
    if (handle_.cl_auth->ah_cred.oa_flavor == RPCSEC_GSS) {
        // Its checksums are of the message as a whole, one call after the other.
        error = error_of(RPC_AUTHERROR);
        error.re_why = AUTH_FAILED;
    } else if ((timeout.tv_sec == 0 && timeout.tv_usec == 0) || milliseconds(chosen) == 0) {
        error = send_without_reply(call);
    } else {
        error = perform(call, milliseconds(chosen));
    }
    thread_error = {.client = serial_, .error = error};
    return error.re_status;
}

rpc_err RdmaClient::last_error() const {
    return thread_error.client == serial_ ? thread_error.error : error_of(RPC_SUCCESS);
}

bool RdmaClient::encode_once(const ProcedureCall& call, XdrEncoder& encoder, bool leave_out) {
    if (!encoder.put_u32(next_xid()) || !encoder.put_u32(CALL) || !encoder.put_u32(RPC_MSG_VERSION) ||
        !encoder.put_u32(program_) || !encoder.put_u32(version_) || !encoder.put_u32(call.procedure)) {
        return false;
    }
    {
        const std::scoped_lock lock(auth_mutex_);
        if (!AUTH_MARSHALL(handle_.cl_auth, encoder.xdr())) {
            return false;
        }
    }
    const auto items = find_items(program_, version_, call.procedure);
    if (leave_out) {
        encoder.leave_out(call.arguments, items->arguments);
    }
    const bool is_encoded =
        AUTH_WRAP(handle_.cl_auth, encoder.xdr(), call.encode, static_cast<caddr_t>(call.arguments)) != FALSE;
    encoder.leave_out(nullptr, {});
    return is_encoded;
}

bool RdmaClient::encode(const ProcedureCall& call, XdrEncoder& encoder, bool leave_out) {
    encoder.reset();
    if (!encode_once(call, encoder, leave_out)) {
        return false;
    }
    if (!encoder.is_ambiguous()) {
        return true;
    }
    encoder.reset();
    return encode_once(call, encoder, false);
}

rpc_err RdmaClient::send_without_reply(const ProcedureCall& call) {
    auto lone = std::make_unique<LoneCall>();
    // The arguments may be freed when this returns.
    if (!encode(call, lone->encoder, false)) {
        return error_of(RPC_CANTENCODEARGS);
    }
    struct rpcrdma_call request {};
    request.message = lone->encoder.message();
    {
        const std::scoped_lock lock(mutex_);
        request.timeout_ms = std::max<std::uint32_t>(milliseconds(timeout_), 1);
    }
    request.max_reply_octets = reply_rooms_.room(call.procedure);
    const int error = rpcrdma_submit(connection_, &request, LoneCall::done, lone.get());
    if (error != 0) {
        return call_error(error, rpcrdma_reply{});
    }
    static_cast<void>(lone.release());
    return error_of(call.decode == nullptr ? RPC_SUCCESS : RPC_TIMEDOUT);
}

bool RdmaClient::give_more_room(Attempt& attempt, int error) {
    const rpcrdma_reply& reply = attempt.reply;
    if (attempt.enlargements++ == kMostEnlargements) {
        return false;
    }
    if (error == EMSGSIZE && reply.error_code == kErrWriteResource) {
        const std::size_t count = attempt.results.vectors().size();
        if (reply.error_second > max_message_octets_) {
            return false;
        }
        if (reply.error_first != 0) {
            return attempt.results.enlarge(reply.error_first - 1, reply.error_second);
        }
        // The server cannot tell which one.
        bool has_changed = false;
        for (std::size_t i = 0; i < count; ++i) {
            has_changed = attempt.results.enlarge(i, reply.error_second) || has_changed;
        }
        return has_changed;
    }
    if (error == EMSGSIZE && reply.error_code == kErrReplyResource) {
        return raise_reply_room(attempt, std::max(reply.error_first, reply.error_second));
    }
    // Version 1 has one error for all, without a length (ERR_CHUNK): the most for the whole Reply, once.
    if (error == EPROTO && reply.error_code == kErrBadXdr && is_version_1()) {
        attempt.results.withdraw();
        return raise_reply_room(attempt, max_message_octets_);
    }
    return false;
}

bool RdmaClient::raise_reply_room(Attempt& attempt, std::uint64_t octets) const {
    if (octets <= attempt.max_reply_octets || octets > max_message_octets_) {
        return false;
    }
    attempt.max_reply_octets = octets;
    return true;
}

bool RdmaClient::is_version_1() const {
    rpcrdma_statistics statistics{};
    statistics.size = sizeof statistics;
    return rpcrdma_client_statistics(connection_, &statistics) == 0 && statistics.version == 1;
}

int RdmaClient::exchange(const ProcedureCall& call, Attempt& attempt, std::uint32_t timeout_ms) {
    for (;;) {
        attempt.release_reply();
        struct rpcrdma_call request {};
        request.message = attempt.encoder.message();
        const auto vectors = attempt.results.vectors();
        request.results = vectors.data();
        request.result_count = static_cast<std::uint32_t>(vectors.size());
        request.max_reply_octets = attempt.max_reply_octets;
        request.timeout_ms = timeout_ms;
        attempt.reply = {};
        const int error = rpcrdma_call(connection_, &request, &attempt.reply);
        attempt.has_reply = error == 0;
        if (error == 0) {
            reply_rooms_.note(call.procedure, attempt.reply.stream_octets);
            return 0;
        }
        if (error == EEXIST) {
            attempt.encoder.set_u32(0, next_xid());
        } else if (!give_more_room(attempt, error)) {
            return error;
        }
    }
}

bool RdmaClient::take_reply(const ProcedureCall& call, const Attempt& attempt, rpc_err& error) {
    XdrDecoder decoder(
        std::span(static_cast<const std::byte*>(attempt.reply.stream), attempt.reply.stream_octets));
    rpc_msg message{};
    message.acpted_rply.ar_verf = _null_auth;
    message.acpted_rply.ar_results.where = nullptr;
    message.acpted_rply.ar_results.proc = xdr_nothing;
    if (!xdr_replymsg(decoder.xdr(), &message)) {
        error = error_of(RPC_CANTDECODERES);
        return false;
    }
    _seterr_reply(&message, &error);
    bool may_go_again = false;
    if (error.re_status == RPC_SUCCESS) {
        bool is_valid = false;
        {
            const std::scoped_lock lock(auth_mutex_);
            is_valid = AUTH_VALIDATE(handle_.cl_auth, &message.acpted_rply.ar_verf) != FALSE;
        }
        const auto items = find_items(program_, version_, call.procedure);
        decoder.put_in(call.results, items->results, attempt.results.chunks(attempt.reply));
        if (!is_valid) {
            error = error_of(RPC_AUTHERROR);
            error.re_why = AUTH_INVALIDRESP;
        } else if (call.decode != nullptr && (!AUTH_UNWRAP(handle_.cl_auth, decoder.xdr(), call.decode,
                                                           static_cast<caddr_t>(call.results)) ||
                                              !decoder.is_complete())) {
            error = error_of(RPC_CANTDECODERES);
        }
    } else if (error.re_status == RPC_AUTHERROR) {
        const std::scoped_lock lock(auth_mutex_);
        may_go_again = AUTH_REFRESH(handle_.cl_auth, &message) != FALSE;
    }
    if (message.rm_reply.rp_stat == MSG_ACCEPTED && message.acpted_rply.ar_verf.oa_base != nullptr) {
        XDR freeing{};
        freeing.x_op = XDR_FREE;
        xdr_opaque_auth(&freeing, &message.acpted_rply.ar_verf);
    }
    return may_go_again;
}

rpc_err RdmaClient::perform(const ProcedureCall& call, std::uint32_t timeout_ms) {
    const bool has_ddp = is_auth_known();
    for (int refreshes = kCredentialRefreshes;; --refreshes) {
        Attempt attempt;
        if (!encode(call, attempt.encoder, has_ddp)) {
            return error_of(RPC_CANTENCODEARGS);
        }
        const auto items = find_items(program_, version_, call.procedure);
        if (has_ddp && !attempt.results.allocate(items->results, call.arguments, call.results)) {
            return error_of(RPC_SYSTEMERROR, ENOMEM);
        }
        attempt.max_reply_octets = std::min(reply_rooms_.room(call.procedure), max_message_octets_);
        const int error = exchange(call, attempt, timeout_ms);
        if (error != 0) {
            return call_error(error, attempt.reply);
        }
        rpc_err result{};
        if (!take_reply(call, attempt, result) || refreshes == 0) {
            return result;
        }
    }
}

bool RdmaClient::control_timeout(u_int request, timeval& value) {
    const std::scoped_lock lock(mutex_);
    if (request == CLGET_TIMEOUT) {
        value = timeout_;
        return true;
    }
    if (!is_valid_time(value)) {
        return false;
    }
    timeout_ = value;
    has_timeout_ = true;
    return true;
}

bool RdmaClient::control(u_int request, void* info) {
    if (info == nullptr) {
        return false;
    }
    switch (request) {
        case CLSET_TIMEOUT:
        case CLGET_TIMEOUT:
            return control_timeout(request, *static_cast<timeval*>(info));
        case CLGET_SERVER_ADDR:
            std::memcpy(info, &server_.storage, server_.octets);
            return true;
        case CLGET_SVC_ADDR:
            // The caller reads it alone, like that of libtirpc's own transports.
            *static_cast<netbuf*>(info) = server_buffer_;
            return true;
        case CLGET_XID:
            *static_cast<std::uint32_t*>(info) = xid_;
            return true;
        case CLSET_XID:
            // Of the next call, which adds one.
            xid_ = *static_cast<std::uint32_t*>(info) - 1;
            return true;
        case CLGET_VERS:
            *static_cast<std::uint32_t*>(info) = static_cast<std::uint32_t>(version_);
            return true;
        case CLSET_VERS:
            version_ = *static_cast<std::uint32_t*>(info);
            return true;
        case CLGET_PROG:
            *static_cast<std::uint32_t*>(info) = static_cast<std::uint32_t>(program_);
            return true;
        case CLSET_PROG:
            program_ = *static_cast<std::uint32_t*>(info);
            return true;
        default:
            return false;
    }
}

}  // namespace urnic::rpcrdma::onc
