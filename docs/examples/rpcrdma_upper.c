/* RPC-over-RDMA by its C interface: `rpcrdma_upper serve ADDRESS PORT` answers each Call with its argument in capitals,
 * `rpcrdma_upper call ADDRESS PORT TEXT` calls it. Built: cc rpcrdma_upper.c $(pkg-config --cflags --libs urnic-rpcrdma) */
#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <urnic/rpcrdma.h>

#define PROGRAM 0x20000042 /* of the range that RFC 5531 leaves to users */

/* A word of an XDR stream. */
static size_t put(uint8_t *stream, size_t at, uint32_t word) {
    word = htonl(word);
    memcpy(stream + at, &word, 4);
    return at + 4;
}

/* Of a Call: 10 words of RPC header (no credentials), then the argument, an opaque<>. */
static void serve(void *context, struct rpcrdma_request *request) {
    size_t octets;
    const uint8_t *call = rpcrdma_request_stream(request, &octets);
    uint32_t length = 0;
    (void)context;
    if (octets < 44) {
        rpcrdma_request_drop(request);
        return;
    }
    memcpy(&length, call + 40, 4);
    length = ntohl(length);
    if (length > octets - 44) {
        rpcrdma_request_drop(request);
        return;
    }
    /* xid, REPLY, accepted, no verifier (2 words), SUCCESS, length; the data is a DDP-eligible item. */
    uint8_t stream[28] = {0};
    memcpy(stream, call, 4);
    put(stream, 4, 1);
    put(stream, 24, length);
    char *text = rpcrdma_alloc(length + 1);
    for (uint32_t i = 0; i < length; i++) text[i] = (char)toupper(call[44 + i]);
    struct rpcrdma_item item = {.at = sizeof stream, .data = text, .octets = length};
    struct rpcrdma_message reply = {.stream = stream, .stream_octets = sizeof stream, .items = &item, .item_count = length != 0};
    /* Without a callback it returns when the reply is sent or copied. */
    rpcrdma_reply_to(request, &reply, NULL, NULL);
    rpcrdma_free(text);
}

static int call(const struct sockaddr *address, const char *text) {
    struct rpcrdma_client *client;
    if (rpcrdma_connect(address, NULL, &client) != 0) return -1;
    /* xid, CALL, RPC version 2, program, version, procedure, no credentials, no verifier, length. */
    uint8_t stream[44] = {0};
    put(stream, 0, 1);
    put(stream, 8, 2);
    put(stream, 12, PROGRAM);
    put(stream, 16, 1);
    put(stream, 20, 1);
    put(stream, 40, (uint32_t)strlen(text));
    struct rpcrdma_item item = {.at = sizeof stream, .data = text, .octets = strlen(text)};
    struct iovec result = {.iov_base = rpcrdma_alloc(strlen(text) + 1), .iov_len = strlen(text) + 1};
    struct rpcrdma_call rpc = {
        .message = {.stream = stream, .stream_octets = sizeof stream, .items = &item, .item_count = item.octets != 0},
        .results = &result,
        .result_count = 1,
        .max_reply_octets = 64,
        .timeout_ms = 10000,
    };
    struct rpcrdma_reply reply;
    const int error = rpcrdma_call(client, &rpc, &reply);
    if (error == 0) {
        /* A result that was small came with the stream, another is where it was to be. */
        const char *data = reply.result_octets[0] != 0 ? result.iov_base : (const char *)reply.stream + 28;
        printf("%.*s\n", (int)strlen(text), data);
        rpcrdma_reply_release(&reply);
    }
    rpcrdma_free(result.iov_base);
    rpcrdma_disconnect(client);
    return error;
}

int main(int argc, char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    if (argc < 4 || inet_pton(AF_INET, argv[2], &address.sin_addr) != 1) {
        fprintf(stderr, "usage: rpcrdma_upper serve ADDRESS PORT | call ADDRESS PORT TEXT\n");
        return 2;
    }
    address.sin_port = htons((uint16_t)atoi(argv[3]));
    int error;
    if (strcmp(argv[1], "serve") == 0) {
        struct rpcrdma_server *server;
        error = rpcrdma_listen((struct sockaddr *)&address, NULL, 2, serve, NULL, &server);
        if (error == 0) {
            puts("listening");
            fflush(stdout);
            pause();
        }
    } else {
        error = call((struct sockaddr *)&address, argc > 4 ? argv[4] : "hello");
    }
    if (error != 0) fprintf(stderr, "rpcrdma_upper: %s\n", rpcrdma_last_error());
    return error != 0;
}
