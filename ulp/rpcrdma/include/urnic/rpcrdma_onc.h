/* RPC-over-RDMA for programs of rpcgen: libtirpc's CLIENT and SVCXPRT by RDMA. A program changes the line
 * that makes its CLIENT or its SVCXPRT; its .x file, its stubs and svc_run() stay as they are. Link with
 * -lurnic-rpcrdma-onc -lurnic-rpcrdma -ltirpc. */
#ifndef URNIC_RPCRDMA_ONC_H
#define URNIC_RPCRDMA_ONC_H

#include <rpc/rpc.h>
#include <stddef.h>
#include <stdint.h>

#include "urnic/rpcrdma.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* --- client */
/* A CLIENT for a program at a server. `options` may be NULL. Returns NULL with rpc_createerr set:
 * RPC_UNKNOWNHOST, RPC_SYSTEMERROR with the errno of rpcrdma_connect().
 *
 * Any number of threads may call at once. clnt_geterr() tells of the calling thread's last call.
 * clnt_control() knows CLSET_TIMEOUT, CLGET_TIMEOUT, CLGET_SERVER_ADDR, CLGET_SVC_ADDR, CLGET_XID, CLSET_XID,
 * CLGET_VERS, CLSET_VERS, CLGET_PROG and CLSET_PROG; it returns FALSE for others: there is no descriptor. A
 * call with the timeout 0 does not wait for its Reply (RPC_TIMEDOUT, or RPC_SUCCESS without a function for
 * results). cl_auth may be AUTH_NONE, AUTH_SYS or of a flavor of the program's; RPCSEC_GSS is refused
 * (RPC_AUTHERROR). */
CLIENT* clnt_rdma_create(const char* host, const char* port, rpcprog_t program, rpcvers_t version,
                         const struct rpcrdma_options* options);
/* The connection below, for its statistics; NULL if `client` is of another transport. */
struct rpcrdma_client* clnt_rdma_connection(CLIENT* client);

/* --- server */
/* A transport that listens at an address of this host; `host` NULL: at all of them; `port` "0": one that is
 * free (xp_port). `options` may be NULL. Returns NULL with errno set. Programs are registered by svc_reg()
 * without netconfig, or svc_register() with protocol 0; svc_run() serves it beside others of libtirpc. A Call
 * that its dispatch function has not answered on return is dropped. */
SVCXPRT* svc_rdma_create(const char* host, const char* port, const struct rpcrdma_options* options);
/* In place of svc_run(): serves this transport with `threads` threads, the caller among them, until
 * svc_rdma_exit(). The service has to be one that many threads may call (rpcgen -M). Programs must be
 * registered before. Returns 0 or an errno value. */
int svc_rdma_run(SVCXPRT* transport, unsigned threads);
/* From any thread. Calls that have begun are finished. */
void svc_rdma_exit(SVCXPRT* transport);
/* The server below, for its statistics; NULL if `transport` is another's. */
struct rpcrdma_server* svc_rdma_server(SVCXPRT* transport);

/* --- DDP-eligible data (RFC 8166, section 6): what may travel by RDMA READ and WRITE, outside the messages
 */
enum rpcrdma_onc_side {
    RPCRDMA_ONC_ARGUMENT = 0,
    RPCRDMA_ONC_RESULT = 1,
    /* An argument of a service that neither keeps nor frees its data: they are not copied, and the pointer is
     * into the message, until the Reply. Of opaque<>, not of string<>, and by its offset, without `locate`.
     * To a client it is as RPCRDMA_ONC_ARGUMENT. */
    RPCRDMA_ONC_ARGUMENT_IN_PLACE = 2,
};
/* One opaque<> or string<> of the arguments or results of a procedure, by its pointer in rpcgen's C
 * structure. (Its number in the order of encoding would not tell which it is: libtirpc encodes an empty
 * opaque<> like any word 0.) Client and server need the same table. */
struct rpcrdma_onc_item {
    rpcprog_t program;
    rpcvers_t version;
    rpcproc_t procedure;
    uint32_t side; /* enum rpcrdma_onc_side */
    /* Of the pointer in the structure, such as offsetof(write_args, data.data_val). */
    size_t offset;
    /* In place of `offset`, if not NULL: where the pointer is; NULL: nowhere in these. Needed behind pointers
     * and in arrays, and where arms of a union have different opaques at one offset. Results are also looked
     * at while they are being decoded: what is not decoded yet is zero. */
    char** (*locate)(void* object);
    /* Shorter ones stay in the message. */
    uint32_t least_octets;
    /* Of a result: the most that it has, or a function that tells from the arguments; 0: it comes with the
     * message. A pointer of the result that is not NULL before the call takes the data without a copy, and so
     * must have that room. */
    uint32_t max_octets;
    uint32_t (*room)(const void* arguments);
};
/* Adds to the table of this process; items of one side of a procedure in the order of their encoding, at most
 * RPCRDMA_MAX_ITEMS. Returns 0, EINVAL, ENOMEM. */
int rpcrdma_onc_ddp(const struct rpcrdma_onc_item* items, size_t count);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
