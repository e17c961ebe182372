/* RPC-over-RDMA for programs: ONC RPC messages (RFC 5531) by RDMA, version 2 (Internet-Draft of 17 July 2017)
 * and version 1 (RFC 8166), on libibverbs and librdmacm. Any RDMA device with RC QPs serves.
 *
 * A message is given as its XDR stream, and DDP-eligible data items that were left out of the stream: their
 * length word is in it, their data and padding are not. The library decides what goes inline and what by
 * chunks.
 *
 * Functions return 0, or an errno value; rpcrdma_last_error() has the text for the calling thread. All of
 * them may be called from any thread, callbacks too, unless it says otherwise. For rpcgen's stubs there is
 * urnic/rpcrdma_onc.h. */
#ifndef URNIC_RPCRDMA_H
#define URNIC_RPCRDMA_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define RPCRDMA_MAX_ITEMS 8    /* of a message */
#define RPCRDMA_MAX_RESULTS 16 /* DDP-eligible results of a Call */
#define RPCRDMA_NFS_PORT 20049

struct rpcrdma_client;
struct rpcrdma_server;
struct rpcrdma_connection; /* of a server: for backward calls */
struct rpcrdma_request;    /* a Call that arrived */

/* --- options: begin with rpcrdma_options_init() */
enum rpcrdma_lost_calls {
    RPCRDMA_LOST_FAIL = 0,       /* calls in flight end with ECONNRESET; the next call connects again */
    RPCRDMA_LOST_RETRANSMIT = 1, /* connect again, send them again with the same XIDs */
};
struct rpcrdma_options {
    size_t size;                 /* of this structure */
    uint32_t versions;           /* bit N: version N; 0x6 */
    uint32_t receive_octets;     /* of each posted receive: 4096 to 65536; 4096 */
    uint32_t credits;            /* Calls outstanding in each direction; 64 */
    uint32_t max_read_chunks;    /* of a Call that arrives; 8 */
    uint32_t max_write_chunks;   /* 8 */
    uint32_t max_segments;       /* of a chunk that arrives; 16 */
    uint64_t max_message_octets; /* of a Call or Reply with its chunks; 65 MiB */
    uint32_t connect_timeout_ms; /* 5000 */
    uint32_t reconnect_attempts; /* of RPCRDMA_LOST_RETRANSMIT, for each loss; 8 */
    enum rpcrdma_lost_calls lost_calls;
    int has_remote_invalidation; /* 1: handles are offered for SEND with Invalidate, and it is sent */
    int spin_us; /* how long a waiting caller polls before it sleeps; -1: chosen by the number of CPUs */
    uint32_t max_connections; /* of a server; 1024 */
};
void rpcrdma_options_init(struct rpcrdma_options* options);

/* --- memory that stays registered: items and results there cost no registration. Other memory is registered
 * for the call, or copied. */
void* rpcrdma_alloc(size_t octets);
void rpcrdma_free(void* memory);

/* --- messages */
struct rpcrdma_item {
    size_t at; /* octet of the stream (without items) in front of which it belongs: behind its length word */
    const void* data;
    size_t octets;
};
struct rpcrdma_message {
    const void* stream;
    size_t stream_octets;
    const struct rpcrdma_item* items;
    uint32_t item_count;
};
struct rpcrdma_call {
    struct rpcrdma_message message; /* the XID is its first word */
    const struct iovec* results;    /* memory for DDP-eligible results, in the order of the Reply */
    uint32_t result_count;
    uint64_t max_reply_octets; /* of the Reply without these results */
    uint32_t timeout_ms;       /* 0: none */
};
struct rpcrdma_reply {
    const void* stream; /* valid until rpcrdma_reply_release() */
    size_t stream_octets;
    uint32_t result_octets[RPCRDMA_MAX_RESULTS]; /* 0: that result is in the stream, or empty */
    uint32_t error_code;   /* of the transport (draft, 7.2.4), with EPROTO, EMSGSIZE; else 0 */
    uint32_t error_first;  /* ERR_WRITE_RESOURCE: the result that is too short, from 1 */
    uint32_t error_second; /* octets that it needs */
    void* held;            /* the library's */
};

/* --- client */
/* Connects; `options` may be NULL. */
int rpcrdma_connect(const struct sockaddr* server, const struct rpcrdma_options* options,
                    struct rpcrdma_client** client);
/* Ends all calls with ECANCELED and waits for them; not from a callback of this client. */
void rpcrdma_disconnect(struct rpcrdma_client* client);
/* Sends a Call and waits for its Reply. ETIMEDOUT, ECONNRESET, EMSGSIZE (a result or the Reply does not fit),
 * EPROTO (any other error of the peer's or its reply is not valid), ENOMEM, EEXIST (that XID is outstanding),
 * EINVAL. */
int rpcrdma_call(struct rpcrdma_client* client, const struct rpcrdma_call* call, struct rpcrdma_reply* reply);
/* The same without waiting: `done` is called once from a thread of the library's, or from this one; it may
 * not wait. rpcrdma_last_error() has the text of its error. Stream, items and results stay until then. */
typedef void (*rpcrdma_done)(void* context, int error, struct rpcrdma_reply* reply);
int rpcrdma_submit(struct rpcrdma_client* client, const struct rpcrdma_call* call, rpcrdma_done done,
                   void* context);
void rpcrdma_reply_release(struct rpcrdma_reply* reply);

/* --- server */
/* Called for each Call by one of `threads` threads; answers now or later, from any thread, once. */
typedef void (*rpcrdma_handler)(void* context, struct rpcrdma_request* request);
int rpcrdma_listen(const struct sockaddr* address, const struct rpcrdma_options* options, uint32_t threads,
                   rpcrdma_handler handler, void* context, struct rpcrdma_server** server);
/* The address it listens on, with the port chosen. */
int rpcrdma_server_address(struct rpcrdma_server* server, struct sockaddr_storage* address);
/* Ends all connections and waits for the handlers; not from one of them. */
void rpcrdma_server_stop(struct rpcrdma_server* server);

/* The RPC Call with all arguments in place. */
const void* rpcrdma_request_stream(const struct rpcrdma_request* request, size_t* octets);
/* Memory for `index`-th result that the client has given room for; octets; 0: none, the result goes inline.
 */
uint32_t rpcrdma_request_result_count(const struct rpcrdma_request* request);
uint32_t rpcrdma_request_version(const struct rpcrdma_request* request);
struct rpcrdma_connection* rpcrdma_request_connection(const struct rpcrdma_request* request);
void rpcrdma_request_peer(const struct rpcrdma_request* request, struct sockaddr_storage* address);
/* Answers. The message's memory has to stay until `sent` is called, by a thread of the library's, or by this
 * one if the connection has ended; with `sent` NULL it is copied, or the call waits until it has left. Memory
 * of the request's stream may be part of the message. Ends the request in any case.
 * EMSGSIZE: the client gave too little room and was told so, it may send the Call again with the same XID.
 * EINVAL: the message is not valid or too large, the client got a transport error. ECONNRESET. */
typedef void (*rpcrdma_sent)(void* context);
int rpcrdma_reply_to(struct rpcrdma_request* request, const struct rpcrdma_message* message,
                     rpcrdma_sent sent, void* context);
/* Sends no Reply. */
void rpcrdma_request_drop(struct rpcrdma_request* request);

/* --- backward calls: a server calls the program at the other end of a connection */
/* Before the first call of the client; NULL: refused (property BRS NONE is told). */
void rpcrdma_client_handler(struct rpcrdma_client* client, rpcrdma_handler handler, void* context);
/* Keeps the connection's object, not the connection; each hold needs a release. */
void rpcrdma_connection_hold(struct rpcrdma_connection* connection);
void rpcrdma_connection_release(struct rpcrdma_connection* connection);
int rpcrdma_call_back(struct rpcrdma_connection* connection, const struct rpcrdma_call* call,
                      struct rpcrdma_reply* reply);

/* --- what is going on */
struct rpcrdma_statistics {
    size_t size;
    uint32_t version; /* of the connection; 0: not settled */
    uint32_t connects;
    uint32_t send_limit_octets, receive_limit_octets, credits;
    uint64_t calls_sent, replies_received, calls_received, replies_sent, calls_resent, errors_received,
        errors_sent, unknown_xids, bad_messages, bad_replies, timeouts, remote_invalidations,
        local_invalidations, read_chunk_octets, write_chunk_octets, dropped_messages;
    /* Connections that were refused: more than max_connections, or no memory or descriptors for them (of a
     * server); whose QP came to an error: a message longer than the receives, memory that the peer named and
     * that is not as it says, a peer that does not answer; which this side closed, because the peer broke a
     * rule that no error code is for. */
    uint64_t refused_connections, failed_connections, closed_connections;
};
int rpcrdma_client_statistics(struct rpcrdma_client* client, struct rpcrdma_statistics* statistics);
/* Of all connections that there are and were. */
int rpcrdma_server_statistics(struct rpcrdma_server* server, struct rpcrdma_statistics* statistics);
/* Asks the server for larger receives (version 2, REQPROP); the answer shows in send_limit_octets. */
int rpcrdma_request_receive_size(struct rpcrdma_client* client, uint32_t octets);
/* Makes the client's own receives larger, up to 65536 octets, and tells the server (version 2, UPDPROP) once
 * the smaller ones are used up; receive_limit_octets shows it then. EAGAIN: not now, or they are not smaller.
 */
int rpcrdma_grow_receives(struct rpcrdma_client* client, uint32_t octets);
const char* rpcrdma_last_error(void);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
