/* urnic-conform-agent: runs beside an RDMA device that `urnic conform` tests, and does to it what the tester says:
 * makes QPs, regions and windows, posts work, reports completions, events, states and memory.
 *
 * One file of GNU C99 on libibverbs of rdma-core 22 or later:
 *     cc -O2 -o urnic-conform-agent urnic-conform-agent.c -libverbs
 *
 * The protocol (version 3) is lines of text over TCP, one answer for each request: "ok ..." or "error ERRNO what".
 * docs/conform.md lists the requests. A tester is not trusted: every number, length and index is checked, what it may name in
 * this process is the arena alone, and each session is a process of its own, whose end gives everything back. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define VERSION 3
#define MAX_LINE (128 * 1024)
#define MAX_ARENA (16u << 20)
#define MAX_OBJECTS 64
#define MAX_SGE 16
#define MAX_BATCH 64
#define MAX_WR 4096
#define MAX_TRANSFER 32768 /* bytes of memory in one line */
#define IDLE_S 120         /* a tester that says nothing for so long is dead */

struct qp {
    struct ibv_qp *qp;
    struct ibv_cq *cq[2]; /* of sends, of receives */
};

static int client = -1;
static char out[MAX_LINE];
static size_t out_length;
static struct ibv_context *context;
static struct ibv_pd *pd;
static int port_number, gid_index;
static uint8_t *arena;
static size_t arena_bytes;
static struct ibv_mr *mrs[MAX_OBJECTS];
static struct ibv_mw *mws[MAX_OBJECTS];
static struct ibv_ah *ahs[MAX_OBJECTS];
static struct qp qps[MAX_OBJECTS];
static struct ibv_xrcd *xrcd; /* of XRC targets and SRQs */
static struct ibv_srq *srqs[MAX_OBJECTS];

/* --- Answers ------------------------------------------------------------------------------------------------ */

static void say(const char *format, ...) {
    va_list list;
    va_start(list, format);
    int n = vsnprintf(out + out_length, sizeof out - out_length, format, list);
    va_end(list);
    if (n > 0) out_length += (size_t)n < sizeof out - out_length ? (size_t)n : sizeof out - out_length - 1;
}

static int flush_out(void) {
    for (size_t done = 0; done < out_length;) {
        ssize_t n = send(client, out + done, out_length - done, MSG_NOSIGNAL);
        if (n <= 0) return -1;
        done += (size_t)n;
    }
    out_length = 0;
    return 0;
}

static void fail(int error, const char *what) { say("error %d %s: %s\n", error, what, strerror(error)); }

/* --- Words of a request --------------------------------------------------------------------------------------- */

static char *cursor;

/* The next word of the line; NULL at its end. */
static char *word(void) { return strsep(&cursor, " "); }

static int number_in(const char *text, uint64_t most, uint64_t *value) {
    char *end;
    if (text == NULL || *text < '0' || *text > '9') return 0;
    errno = 0;
    *value = strtoull(text, &end, 0);
    return errno == 0 && *end == '\0' && *value <= most;
}

static int next_number(uint64_t most, uint64_t *value) { return number_in(word(), most, value); }

/* 32 hexadecimal digits. */
static int gid_in(const char *text, union ibv_gid *gid) {
    unsigned byte;
    if (!text || strlen(text) != 32) return 0;
    for (int i = 0; i < 16; i++) {
        if (sscanf(text + 2 * i, "%2x", &byte) != 1) return 0;
        gid->raw[i] = (uint8_t)byte;
    }
    return 1;
}

static int in_arena(uint64_t offset, uint64_t length) { return offset <= arena_bytes && length <= arena_bytes - offset; }

static struct qp *next_qp(void) {
    uint64_t i;
    return next_number(MAX_OBJECTS - 1, &i) && qps[i].qp != NULL ? &qps[i] : NULL;
}

/* --- What there is ---------------------------------------------------------------------------------------------- */

static void destroy_objects(void) {
    /* Windows first: Linux rxe waits 50 seconds for those that are bound before it destroys their QP. */
    for (int i = 0; i < MAX_OBJECTS; i++) {
        if (mws[i]) ibv_dealloc_mw(mws[i]);
        mws[i] = NULL;
    }
    for (int i = 0; i < MAX_OBJECTS; i++) {
        if (qps[i].qp) ibv_destroy_qp(qps[i].qp);
    }
    for (int i = 0; i < MAX_OBJECTS; i++) {
        if (srqs[i]) ibv_destroy_srq(srqs[i]);
        srqs[i] = NULL;
    }
    for (int i = 0; i < MAX_OBJECTS; i++) {
        for (int j = 0; j < 2; j++) {
            if (qps[i].cq[j]) ibv_destroy_cq(qps[i].cq[j]);
        }
    }
    memset(qps, 0, sizeof qps);
    if (xrcd) ibv_close_xrcd(xrcd);
    xrcd = NULL;
    for (int i = 0; i < MAX_OBJECTS; i++) {
        if (ahs[i]) ibv_destroy_ah(ahs[i]);
        ahs[i] = NULL;
    }
    for (int i = 0; i < MAX_OBJECTS; i++) {
        if (mrs[i]) ibv_dereg_mr(mrs[i]);
        mrs[i] = NULL;
    }
}

/* 1: RoCE v2, 0: something else, -1: the kernel does not say. */
static int gid_is_rocev2(const char *device, int port, int index) {
    char path[512], text[32] = "";
    snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/%d/gid_attrs/types/%d", device, port, index);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    return n <= 0 ? -1 : strncmp(text, "RoCE v2", 7) == 0;
}

static int find_gid(struct ibv_context *candidate, const union ibv_gid *wanted, struct ibv_port_attr *port) {
    struct ibv_device_attr device;
    if (ibv_query_device(candidate, &device)) return 0;
    for (int p = 1; p <= device.phys_port_cnt; p++) {
        if (ibv_query_port(candidate, (uint8_t)p, port)) continue;
        for (int i = 0; i < port->gid_tbl_len; i++) {
            union ibv_gid gid;
            if (ibv_query_gid(candidate, (uint8_t)p, i, &gid) || memcmp(&gid, wanted, sizeof gid) != 0) continue;
            if (gid_is_rocev2(ibv_get_device_name(candidate->device), p, i) == 0) continue;
            port_number = p;
            gid_index = i;
            return 1;
        }
    }
    return 0;
}

/* open DEVICE|- GID: the device and its RoCE v2 entry of that GID (32 hexadecimal digits). */
static void do_open(void) {
    char *name = word(), *text = word();
    union ibv_gid gid;
    struct ibv_port_attr port;
    struct ibv_device_attr device;
    if (context || !name || !text || strlen(text) != 32) return fail(EINVAL, "open");
    if (!gid_in(text, &gid)) return fail(EINVAL, "GID");
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    for (int i = 0; list && i < count && !context; i++) {
        if (strcmp(name, "-") != 0 && strcmp(name, ibv_get_device_name(list[i])) != 0) continue;
        context = ibv_open_device(list[i]);
        if (context && !find_gid(context, &gid, &port)) {
            ibv_close_device(context);
            context = NULL;
        }
    }
    if (list) ibv_free_device_list(list);
    if (!context) return fail(ENODEV, "no RDMA device here has that address as a RoCE v2 GID");
    if (ibv_query_device(context, &device) || (pd = ibv_alloc_pd(context)) == NULL) return fail(errno ?: EIO, "open");
    fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK);
    say("ok name=%s port=%d gid_index=%d state=%d mtu=%d max_rd=%d max_init_rd=%d max_msg=%u atomic=%d max_mw=%d flags=0x%x "
        "vendor=0x%x part=0x%x firmware=%s\n",
        ibv_get_device_name(context->device), port_number, gid_index, port.state, 128 << port.active_mtu, device.max_qp_rd_atom,
        device.max_qp_init_rd_atom, port.max_msg_sz, device.atomic_cap, device.max_mw, device.device_cap_flags, device.vendor_id,
        device.vendor_part_id, device.fw_ver[0] ? device.fw_ver : "-");
}

/* arena BYTES: the memory that everything below is about; its address. */
static void do_arena(void) {
    uint64_t bytes;
    void *memory;
    if (!next_number(MAX_ARENA, &bytes) || bytes == 0) return fail(EINVAL, "arena");
    destroy_objects();
    free(arena);
    arena = NULL;
    arena_bytes = 0;
    if (posix_memalign(&memory, 65536, bytes)) return fail(ENOMEM, "arena");
    memset(memory, 0, bytes);
    arena = memory;
    arena_bytes = bytes;
    say("ok 0x%llx\n", (unsigned long long)(uintptr_t)arena);
}

/* --- Memory ------------------------------------------------------------------------------------------------------- */

/* fill OFFSET LENGTH SEED: byte i becomes bits 13 to 20 of i * 2654435761 + SEED, as the tester's data is. */
static void do_fill(void) {
    uint64_t offset, length, seed;
    if (!next_number(MAX_ARENA, &offset) || !next_number(MAX_ARENA, &length) || !next_number(UINT32_MAX, &seed) ||
        !in_arena(offset, length))
        return fail(EINVAL, "fill");
    for (uint64_t i = 0; i < length; i++) arena[offset + i] = (uint8_t)((i * 2654435761u + seed) >> 13);
    say("ok\n");
}

static void do_put(void) {
    uint64_t offset;
    char *hex = next_number(MAX_ARENA, &offset) ? word() : NULL;
    size_t length = hex ? strlen(hex) / 2 : 0;
    if (!hex || strlen(hex) % 2 || length > MAX_TRANSFER || !in_arena(offset, length)) return fail(EINVAL, "put");
    if (strspn(hex, "0123456789abcdef") != 2 * length) return fail(EINVAL, "put");
    for (size_t i = 0; i < length; i++) {
        char pair[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        arena[offset + i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    say("ok\n");
}

static void do_get(void) {
    uint64_t offset, length;
    if (!next_number(MAX_ARENA, &offset) || !next_number(MAX_TRANSFER, &length) || !in_arena(offset, length))
        return fail(EINVAL, "get");
    say("ok ");
    for (uint64_t i = 0; i < length; i++) {
        const uint8_t byte = ((volatile uint8_t *)arena)[offset + i];
        out[out_length++] = "0123456789abcdef"[byte >> 4];
        out[out_length++] = "0123456789abcdef"[byte & 15];
    }
    say("\n");
}

/* mr OFFSET LENGTH ACCESS: index, L_Key, R_Key. */
static void do_mr(void) {
    uint64_t offset, length, access;
    int i = 0;
    while (i < MAX_OBJECTS && mrs[i]) i++;
    if (!pd || i == MAX_OBJECTS || !next_number(MAX_ARENA, &offset) || !next_number(MAX_ARENA, &length) ||
        !next_number(0x1f, &access) || length == 0 || !in_arena(offset, length))
        return fail(EINVAL, "mr");
    mrs[i] = ibv_reg_mr(pd, arena + offset, length, (int)access);
    if (!mrs[i]) return fail(errno, "ibv_reg_mr");
    say("ok %d %u %u\n", i, mrs[i]->lkey, mrs[i]->rkey);
}

static void do_dereg(void) {
    uint64_t i;
    if (!next_number(MAX_OBJECTS - 1, &i) || !mrs[i]) return fail(EINVAL, "dereg");
    int error = ibv_dereg_mr(mrs[i]);
    if (error) return fail(error, "ibv_dereg_mr");
    mrs[i] = NULL;
    say("ok\n");
}

/* mw TYPE: index, R_Key. */
static void do_mw(void) {
    uint64_t type;
    int i = 0;
    while (i < MAX_OBJECTS && mws[i]) i++;
    if (!pd || i == MAX_OBJECTS || !next_number(2, &type) || type == 0) return fail(EINVAL, "mw");
    mws[i] = ibv_alloc_mw(pd, type == 1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
    if (!mws[i]) return fail(errno, "ibv_alloc_mw");
    say("ok %d %u\n", i, mws[i]->rkey);
}

static void vector_to(const union ibv_gid *gid, uint8_t traffic_class, struct ibv_ah_attr *attr) {
    attr->grh.dgid = *gid;
    attr->grh.sgid_index = (uint8_t)gid_index;
    attr->grh.hop_limit = 64;
    attr->grh.traffic_class = traffic_class;
    attr->is_global = 1;
    attr->port_num = (uint8_t)port_number;
}

/* ah GID TRAFFIC_CLASS [SL]: index. */
static void do_ah(void) {
    union ibv_gid gid;
    uint64_t traffic_class, sl = 0;
    struct ibv_ah_attr attr = {0};
    int i = 0;
    while (i < MAX_OBJECTS && ahs[i]) i++;
    if (!pd || i == MAX_OBJECTS || !gid_in(word(), &gid) || !next_number(255, &traffic_class) ||
        (cursor && !next_number(15, &sl)))
        return fail(EINVAL, "ah");
    vector_to(&gid, (uint8_t)traffic_class, &attr);
    attr.sl = (uint8_t)sl;
    ahs[i] = ibv_create_ah(pd, &attr);
    if (!ahs[i]) return fail(errno, "ibv_create_ah");
    say("ok %d\n", i);
}

/* --- QPs ------------------------------------------------------------------------------------------------------------ */

/* It has no queues: what its domain's SRQs receive completes in their CQs. NULL with errno: the device has no XRC. */
static struct ibv_qp *make_xrc_target(void) {
    struct ibv_xrcd_init_attr domain = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
    struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD};
    errno = 0;
    if (!xrcd) xrcd = ibv_open_xrcd(context, &domain);
    if (!xrcd) return NULL;
    attr.xrcd = xrcd;
    return ibv_create_qp_ex(context, &attr);
}

/* qp TYPE SENDS RECEIVES SGES INLINE SIGNAL_ALL CQES: index, QP number. TYPE as ibv_qp_type: RC, UC, UD, XRC initiator or target. */
static void do_qp(void) {
    uint64_t type, sends, receives, sges, inline_bytes, all, cqes;
    int i = 0;
    while (i < MAX_OBJECTS && qps[i].qp) i++;
    if (!pd || i == MAX_OBJECTS || !next_number(IBV_QPT_XRC_RECV, &type) || type < IBV_QPT_RC ||
        (type > IBV_QPT_UD && type < IBV_QPT_XRC_SEND) || !next_number(MAX_WR, &sends) ||
        !next_number(MAX_WR, &receives) || !next_number(MAX_SGE, &sges) || !next_number(1024, &inline_bytes) ||
        !next_number(1, &all) || !next_number(2 * MAX_WR, &cqes) || cqes == 0)
        return fail(EINVAL, "qp");
    struct qp made = {0};
    made.cq[0] = ibv_create_cq(context, (int)cqes, NULL, NULL, 0);
    made.cq[1] = ibv_create_cq(context, (int)cqes, NULL, NULL, 0);
    struct ibv_qp_init_attr attr = {.send_cq = made.cq[0],
                                    .recv_cq = made.cq[1],
                                    .cap = {.max_send_wr = (uint32_t)sends,
                                            .max_recv_wr = (uint32_t)receives,
                                            .max_send_sge = (uint32_t)sges,
                                            .max_recv_sge = (uint32_t)sges,
                                            .max_inline_data = (uint32_t)inline_bytes},
                                    .qp_type = (enum ibv_qp_type)type,
                                    .sq_sig_all = (int)all};
    if (type == IBV_QPT_XRC_SEND) attr.cap.max_recv_wr = attr.cap.max_recv_sge = 0;
    if (made.cq[0] && made.cq[1]) made.qp = type == IBV_QPT_XRC_RECV ? make_xrc_target() : ibv_create_qp(pd, &attr);
    if (!made.qp) {
        int error = errno;
        for (int j = 0; j < 2; j++) {
            if (made.cq[j]) ibv_destroy_cq(made.cq[j]);
        }
        return fail(error, "ibv_create_qp");
    }
    qps[i] = made;
    say("ok %d %u\n", i, made.qp->qp_num);
}

/* srq QP RECEIVES SGES: index, number of an SRQ in the domain of that XRC target, whose completions are the QP's of receives. */
static void do_srq(void) {
    uint64_t receives, sges;
    uint32_t number;
    struct qp *qp = next_qp();
    int i = 0;
    while (i < MAX_OBJECTS && srqs[i]) i++;
    if (!qp || qp->qp->qp_type != IBV_QPT_XRC_RECV || i == MAX_OBJECTS || !next_number(MAX_WR, &receives) ||
        !next_number(MAX_SGE, &sges))
        return fail(EINVAL, "srq");
    struct ibv_srq_init_attr_ex attr = {
        .attr = {.max_wr = (uint32_t)receives, .max_sge = (uint32_t)sges},
        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
        .srq_type = IBV_SRQT_XRC,
        .pd = pd,
        .xrcd = xrcd,
        .cq = qp->cq[1]};
    struct ibv_srq *made = ibv_create_srq_ex(context, &attr);
    if (!made) return fail(errno ?: EIO, "ibv_create_srq_ex");
    int error = ibv_get_srq_num(made, &number);
    if (error) {
        ibv_destroy_srq(made);
        return fail(error > 0 ? error : EIO, "ibv_get_srq_num");
    }
    srqs[i] = made;
    say("ok %d %u\n", i, number);
}

#define NUMBER(key, mask, most, field)                             \
    if (strcmp(name, key) == 0 && number_in(value, most, &n)) {    \
        attr->field = (__typeof__(attr->field))n;                  \
        return mask;                                               \
    }

/* One KEY=VALUE of modify; the bits of ibv_qp_attr_mask that it stands for, -1 when it is none. */
static int take_attribute(const char *name, const char *value, struct ibv_qp_attr *attr) {
    uint64_t n;
    union ibv_gid gid;
    NUMBER("state", IBV_QP_STATE, IBV_QPS_ERR, qp_state)
    NUMBER("sqd_notify", IBV_QP_EN_SQD_ASYNC_NOTIFY, 1, en_sqd_async_notify)
    NUMBER("access", IBV_QP_ACCESS_FLAGS, 0x1f, qp_access_flags)
    NUMBER("pkey_index", IBV_QP_PKEY_INDEX, UINT16_MAX, pkey_index)
    NUMBER("qkey", IBV_QP_QKEY, UINT32_MAX, qkey)
    NUMBER("mtu", IBV_QP_PATH_MTU, IBV_MTU_4096, path_mtu)
    NUMBER("timeout", IBV_QP_TIMEOUT, 31, timeout)
    NUMBER("retry_cnt", IBV_QP_RETRY_CNT, 7, retry_cnt)
    NUMBER("rnr_retry", IBV_QP_RNR_RETRY, 7, rnr_retry)
    NUMBER("rq_psn", IBV_QP_RQ_PSN, 0xffffff, rq_psn)
    NUMBER("sq_psn", IBV_QP_SQ_PSN, 0xffffff, sq_psn)
    NUMBER("max_rd", IBV_QP_MAX_QP_RD_ATOMIC, 255, max_rd_atomic)
    NUMBER("max_dest_rd", IBV_QP_MAX_DEST_RD_ATOMIC, 255, max_dest_rd_atomic)
    NUMBER("min_rnr", IBV_QP_MIN_RNR_TIMER, 31, min_rnr_timer)
    NUMBER("dest_qp", IBV_QP_DEST_QPN, 0xffffff, dest_qp_num)
    NUMBER("traffic_class", 0, 255, ah_attr.grh.traffic_class) /* before "gid" */
    NUMBER("sl", 0, 15, ah_attr.sl)                            /* the same */
    if (strcmp(name, "port") == 0 && strcmp(value, "-") == 0) {
        attr->port_num = (uint8_t)port_number;
        return IBV_QP_PORT;
    }
    if (strcmp(name, "gid") == 0 && gid_in(value, &gid)) {
        vector_to(&gid, attr->ah_attr.grh.traffic_class, &attr->ah_attr);
        return IBV_QP_AV;
    }
    return -1;
}

static void do_modify(void) {
    struct qp *qp = next_qp();
    struct ibv_qp_attr attr = {0};
    int mask = 0;
    if (!qp) return fail(EINVAL, "modify");
    for (char *item; (item = word()) != NULL;) {
        char *value = strchr(item, '=');
        if (!value) return fail(EINVAL, "modify");
        *value++ = '\0';
        int bits = take_attribute(item, value, &attr);
        if (bits < 0) return fail(EINVAL, "modify: attribute");
        mask |= bits;
    }
    int error = ibv_modify_qp(qp->qp, &attr, mask);
    if (error) return fail(error > 0 ? error : EINVAL, "ibv_modify_qp");
    say("ok\n");
}

/* query QP: state, whether the send queue drains, and the attributes that the tester set. */
static void do_query(void) {
    struct qp *qp = next_qp();
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    if (!qp) return fail(EINVAL, "query");
    int error = ibv_query_qp(qp->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RQ_PSN | IBV_QP_TIMEOUT, &init);
    if (error) return fail(error > 0 ? error : EINVAL, "ibv_query_qp");
    say("ok %d %d %u %u %u\n", attr.qp_state, attr.sq_draining, attr.sq_psn, attr.rq_psn, attr.timeout);
}

/* --- Work --------------------------------------------------------------------------------------------------------------- */

/* ADDRESS:LENGTH:L_KEY. Inline data is read by this process, so it has to be the arena's. */
static int take_sge(char *text, int is_inline, struct ibv_sge *sge) {
    uint64_t address, length, key;
    if (!number_in(strsep(&text, ":"), UINT64_MAX, &address) || !number_in(strsep(&text, ":"), UINT32_MAX, &length) ||
        !number_in(text, UINT32_MAX, &key))
        return 0;
    if (is_inline && (address < (uintptr_t)arena || !in_arena(address - (uintptr_t)arena, length))) return 0;
    *sge = (struct ibv_sge){.addr = address, .length = (uint32_t)length, .lkey = (uint32_t)key};
    return 1;
}

/* OPCODE:FLAGS:WR_ID:IMM:REMOTE:R_KEY:COMPARE_OR_ADD:SWAP:MW:MR:BIND_ACCESS[,SGE...]; the last three are BIND_MW's, "-" elsewhere.
 * Of a UD QP: REMOTE is an address handle, R_KEY the QP number, COMPARE_OR_ADD the Q_Key. Of an XRC initiator: MW is the SRQ's number. */
static int take_send(char *text, enum ibv_qp_type type, struct ibv_send_wr *wr, struct ibv_sge *sges) {
    uint64_t v[8], mw = 0, mr = 0, access = 0, srq = 0;
    static const uint64_t most[8] = {IBV_WR_SEND_WITH_INV, 0xf, UINT64_MAX, UINT32_MAX, UINT64_MAX, UINT32_MAX, UINT64_MAX, UINT64_MAX};
    char *head = strsep(&text, ",");
    for (int i = 0; i < 8; i++) {
        if (!number_in(strsep(&head, ":"), most[i], &v[i])) return 0;
    }
    memset(wr, 0, sizeof *wr);
    wr->opcode = (enum ibv_wr_opcode)v[0];
    wr->send_flags = (unsigned)v[1];
    wr->wr_id = v[2];
    if (wr->opcode == IBV_WR_LOCAL_INV || wr->opcode == IBV_WR_SEND_WITH_INV)
        wr->invalidate_rkey = (uint32_t)v[3];
    else
        wr->imm_data = (__be32)v[3];
    if (wr->opcode == IBV_WR_BIND_MW) {
        if (!number_in(strsep(&head, ":"), MAX_OBJECTS - 1, &mw) || !number_in(strsep(&head, ":"), MAX_OBJECTS - 1, &mr) ||
            !number_in(head, 0x3f, &access) || !mws[mw] || !mrs[mr])
            return 0;
        wr->bind_mw.mw = mws[mw];
        wr->bind_mw.rkey = (uint32_t)v[5];
        wr->bind_mw.bind_info = (struct ibv_mw_bind_info){
            .mr = mrs[mr], .addr = v[4], .length = v[6], .mw_access_flags = (unsigned)access};
    } else if (type == IBV_QPT_UD) {
        if (v[4] >= MAX_OBJECTS || !ahs[v[4]] || v[6] > UINT32_MAX) return 0;
        wr->wr.ud.ah = ahs[v[4]];
        wr->wr.ud.remote_qpn = (uint32_t)v[5];
        wr->wr.ud.remote_qkey = (uint32_t)v[6];
    } else if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr->wr.atomic.remote_addr = v[4];
        wr->wr.atomic.rkey = (uint32_t)v[5];
        wr->wr.atomic.compare_add = v[6];
        wr->wr.atomic.swap = v[7];
    } else {
        wr->wr.rdma.remote_addr = v[4];
        wr->wr.rdma.rkey = (uint32_t)v[5];
    }
    if (type == IBV_QPT_XRC_SEND) {
        if (!number_in(strsep(&head, ":"), UINT32_MAX, &srq)) return 0;
        wr->qp_type.xrc.remote_srqn = (uint32_t)srq;
    }
    wr->sg_list = sges;
    for (char *item; (item = strsep(&text, ",")) != NULL; wr->num_sge++) {
        if (wr->num_sge == MAX_SGE || !take_sge(item, (wr->send_flags & IBV_SEND_INLINE) != 0, &sges[wr->num_sge])) return 0;
    }
    return 1;
}

static void do_send(void) {
    static struct ibv_send_wr wrs[MAX_BATCH];
    static struct ibv_sge sges[MAX_BATCH][MAX_SGE];
    struct qp *qp = next_qp();
    int count = 0;
    if (!qp || qp->qp->qp_type == IBV_QPT_XRC_RECV) return fail(EINVAL, "send");
    for (char *item; (item = word()) != NULL; count++) {
        if (count == MAX_BATCH || !take_send(item, qp->qp->qp_type, &wrs[count], sges[count])) return fail(EINVAL, "send: request");
        if (count) wrs[count - 1].next = &wrs[count];
    }
    struct ibv_send_wr *bad = NULL;
    int error = count ? ibv_post_send(qp->qp, wrs, &bad) : 0;
    if (error) return fail(error > 0 ? error : -error, "ibv_post_send");
    say("ok\n");
}

/* WR_ID[,SGE...] */
static int take_receive(char *text, struct ibv_recv_wr *wr, struct ibv_sge *sges) {
    uint64_t id;
    memset(wr, 0, sizeof *wr);
    if (!text || !number_in(strsep(&text, ","), UINT64_MAX, &id)) return 0;
    wr->wr_id = id;
    wr->sg_list = sges;
    for (char *item; (item = strsep(&text, ",")) != NULL; wr->num_sge++) {
        if (wr->num_sge == MAX_SGE || !take_sge(item, 0, &sges[wr->num_sge])) return 0;
    }
    return 1;
}

/* recv QP WR_ID[,SGE...] */
static void do_recv(void) {
    struct qp *qp = next_qp();
    struct ibv_sge sges[MAX_SGE];
    struct ibv_recv_wr wr, *bad = NULL;
    if (!qp || qp->qp->qp_type >= IBV_QPT_XRC_SEND || !take_receive(word(), &wr, sges)) return fail(EINVAL, "recv");
    int error = ibv_post_recv(qp->qp, &wr, &bad);
    if (error) return fail(error > 0 ? error : -error, "ibv_post_recv");
    say("ok\n");
}

/* srq_recv SRQ WR_ID[,SGE...] */
static void do_srq_recv(void) {
    uint64_t i;
    struct ibv_sge sges[MAX_SGE];
    struct ibv_recv_wr wr, *bad = NULL;
    if (!next_number(MAX_OBJECTS - 1, &i) || !srqs[i] || !take_receive(word(), &wr, sges)) return fail(EINVAL, "srq_recv");
    int error = ibv_post_srq_recv(srqs[i], &wr, &bad);
    if (error) return fail(error > 0 ? error : -error, "ibv_post_srq_recv");
    say("ok\n");
}

/* poll QP 0|1: up to 64 completions of its sends or receives as WR_ID:STATUS:OPCODE:BYTES:FLAGS:IMM. */
static void do_poll(void) {
    struct qp *qp = next_qp();
    struct ibv_wc wcs[64];
    uint64_t is_recv;
    if (!qp || !next_number(1, &is_recv)) return fail(EINVAL, "poll");
    int count = ibv_poll_cq(qp->cq[is_recv], 64, wcs);
    if (count < 0) return fail(EIO, "ibv_poll_cq");
    say("ok %d", count);
    for (int i = 0; i < count; i++) {
        say(" %llu:%d:%d:%u:%u:%u", (unsigned long long)wcs[i].wr_id, wcs[i].status, wcs[i].opcode, wcs[i].byte_len,
            (unsigned)wcs[i].wc_flags, (unsigned)wcs[i].imm_data);
    }
    say("\n");
}

/* events: the QPs' asynchronous events since the last call, as ibv_event_type. */
static void do_events(void) {
    struct ibv_async_event event;
    if (!context) return fail(EINVAL, "events");
    say("ok");
    for (int i = 0; i < 64 && ibv_get_async_event(context, &event) == 0; i++) {
        say(" %d", event.event_type);
        ibv_ack_async_event(&event);
    }
    say("\n");
}

/* --- Sessions -------------------------------------------------------------------------------------------------------------- */

static void do_reset(void) {
    destroy_objects();
    say("ok\n");
}

static void do_hello(void) {
    uint64_t version;
    if (!next_number(1000, &version) || version != VERSION)
        return fail(EPROTO, "this agent speaks version 3; take the one of the tester's release");
    say("ok urnic-conform-agent %d\n", VERSION);
}

static const struct {
    const char *name;
    void (*run)(void);
} requests[] = {{"hello", do_hello}, {"open", do_open}, {"arena", do_arena}, {"reset", do_reset}, {"fill", do_fill},
                {"put", do_put},     {"get", do_get},   {"mr", do_mr},       {"dereg", do_dereg}, {"mw", do_mw},
                {"ah", do_ah},       {"qp", do_qp},     {"modify", do_modify}, {"query", do_query}, {"send", do_send},
                {"recv", do_recv},   {"poll", do_poll}, {"events", do_events}, {"srq", do_srq}, {"srq_recv", do_srq_recv}};

static void handle(char *line) {
    cursor = line;
    const char *name = word();
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        if (strcmp(name, requests[i].name) == 0) return requests[i].run();
    }
    fail(ENOSYS, "request");
}

/* One tester, until it says goodbye, is cut off, or says nothing for IDLE_S seconds. */
static void serve(void) {
    static char line[MAX_LINE + 1];
    size_t length = 0;
    const struct timeval idle = {.tv_sec = IDLE_S};
    const int yes = 1, wait_s = 10, times = 3;
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &idle, sizeof idle);
    setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &idle, sizeof idle);
    setsockopt(client, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    setsockopt(client, IPPROTO_TCP, TCP_KEEPIDLE, &wait_s, sizeof wait_s);
    setsockopt(client, IPPROTO_TCP, TCP_KEEPINTVL, &wait_s, sizeof wait_s);
    setsockopt(client, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    for (;;) {
        ssize_t n = recv(client, line + length, MAX_LINE - length, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        length += (size_t)n;
        char *begin = line, *end;
        while ((end = memchr(begin, '\n', length - (size_t)(begin - line))) != NULL) {
            *end = '\0';
            if (strlen(begin) != (size_t)(end - begin)) return; /* a zero byte */
            handle(begin);
            if (flush_out() < 0) return;
            begin = end + 1;
        }
        length -= (size_t)(begin - line);
        memmove(line, begin, length);
        if (length == MAX_LINE) return;
    }
}

static int listen_on(const char *address, const char *port) {
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM}, *list = NULL;
    const int yes = 1;
    int error = getaddrinfo(address, port, &hints, &list);
    if (error) {
        fprintf(stderr, "urnic-conform-agent: %s port %s: %s\n", address ? address : "any address", port, gai_strerror(error));
        return -1;
    }
    int fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (fd < 0 || bind(fd, list->ai_addr, list->ai_addrlen) || listen(fd, 4)) {
        fprintf(stderr, "urnic-conform-agent: cannot listen on port %s: %s; choose another with -p\n", port, strerror(errno));
        return -1;
    }
    freeaddrinfo(list);
    return fd;
}

static void run_session(int listener, pid_t parent) {
    close(listener);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
    serve();
    destroy_objects();
    if (pd) ibv_dealloc_pd(pd);
    if (context) ibv_close_device(context);
    _exit(0);
}

/* One that is just ending is waited for: its tester has left, and the next one may be here. */
static int is_busy(pid_t session) {
    for (int turns = 0; turns < 100; turns++) {
        if (waitpid(session, NULL, WNOHANG) != 0) return 0;
        usleep(10000);
    }
    return 1;
}

int main(int argc, char **argv) {
    const char *address = NULL, *port = "18590";
    for (int option; (option = getopt(argc, argv, "a:p:h")) != -1;) {
        if (option == 'a') address = optarg;
        else if (option == 'p') port = optarg;
        else {
            fprintf(option == 'h' ? stdout : stderr,
                    "Usage: urnic-conform-agent [-a ADDRESS] [-p PORT]\nServes one tester (urnic conform) at a time, on TCP port "
                    "18590 of all addresses.\nWhoever reaches the port may use this host's RDMA devices: run it on a test network.\n");
            return option == 'h' ? 0 : 2;
        }
    }
    int listener = listen_on(address, port);
    if (listener < 0) return 1;
    printf("urnic-conform-agent %d: port %s\n", VERSION, port);
    fflush(stdout);
    const pid_t self = getpid();
    for (pid_t session = 0;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) continue;
        if (session > 0 && is_busy(session)) {
            static const char busy[] = "error 16 another tester is connected\n";
            (void)!send(fd, busy, sizeof busy - 1, MSG_NOSIGNAL);
            close(fd);
            continue;
        }
        session = fork();
        if (session == 0) {
            client = fd;
            run_session(listener, self);
        }
        close(fd);
    }
}
