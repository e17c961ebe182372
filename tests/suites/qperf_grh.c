/* Preloaded into qperf, which knows peers by LID alone; a RoCE port has none. Puts the GID of the only peer,
 * QPERF_PEER_GID, into the addresses that qperf gives to verbs; everything else goes through untouched. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

static void add_grh(struct ibv_ah_attr* attr) {
    const char* peer = getenv("QPERF_PEER_GID");
    if (attr->is_global || !peer) return;
    attr->is_global = 1;
    memset(&attr->grh, 0, sizeof(attr->grh));
    attr->grh.sgid_index = 1;
    attr->grh.hop_limit = 64;
    inet_pton(AF_INET6, peer, attr->grh.dgid.raw);
}

int ibv_modify_qp(struct ibv_qp* qp, struct ibv_qp_attr* attr, int mask) {
    int (*real)(struct ibv_qp*, struct ibv_qp_attr*, int) = dlsym(RTLD_NEXT, "ibv_modify_qp");
    if (mask & IBV_QP_AV) add_grh(&attr->ah_attr);
    return real(qp, attr, mask);
}

struct ibv_ah* ibv_create_ah(struct ibv_pd* pd, struct ibv_ah_attr* attr) {
    struct ibv_ah* (*real)(struct ibv_pd*, struct ibv_ah_attr*) = dlsym(RTLD_NEXT, "ibv_create_ah");
    add_grh(attr);
    return real(pd, attr);
}
