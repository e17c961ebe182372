// Objects of another process, shared by the command fd of a context.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>

#include "tests/e2e/verbs/endpoint.h"

namespace urnic::e2e {
namespace {

constexpr std::size_t kBytes = 65536;

void send_fd(int socket, int fd) {
    char byte = 0;
    iovec data{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    ASSERT_EQ(sendmsg(socket, &message, 0), 1);
}

int receive_fd(int socket) {
    char byte = 0;
    iovec data{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    int fd = -1;
    if (recvmsg(socket, &message, 0) == 1 && CMSG_FIRSTHDR(&message) != nullptr) {
        std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    }
    return fd;
}

/// Takes the QP to RTS, its own peer: 0, or the number of the step that failed.
int connect_to_itself(ibv_context* context, ibv_qp* qp) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0)
        return 10;
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = qp->qp_num;
    attr.max_dest_rd_atomic = 1;
    attr.ah_attr = address_of(context);
    if (ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0)
        return 11;
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.max_rd_atomic = 1;
    if (ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                          IBV_QP_MAX_QP_RD_ATOMIC) != 0)
        return 12;
    return 0;
}

/// What a process does that was sent a command fd: 0, or the number of the step that failed.
int use_import(int socket) {
    struct Names {
        std::uint32_t pd, mr, dm;
        std::uint64_t addr;
    } names{};
    const int fd = receive_fd(socket);
    if (fd < 0 || read(socket, &names, sizeof names) != sizeof names) return 1;
    ibv_context* context = ibv_import_device(fd);  // the first verb of this process
    if (context == nullptr) return 2;
    if (std::strcmp(ibv_get_device_name(context->device), "urnic1") != 0) return 3;
    ibv_pd* pd = ibv_import_pd(context, names.pd);
    if (pd == nullptr) return 4;
    ibv_mr* mr = ibv_import_mr(pd, names.mr);
    if (mr == nullptr || mr->length != kBytes || mr->handle != names.mr) return 5;
    ibv_dm* dm = ibv_import_dm(context, names.dm);
    std::uint32_t word = 0;
    if (dm == nullptr || ibv_memcpy_from_dm(&word, dm, 0, 4) != 0 || word != 77) return 6;
    if (ibv_import_mr(pd, names.mr + 1000) != nullptr || ibv_import_pd(context, names.pd + 1000) != nullptr)
        return 7;
    // A loop-back connection in the imported PD, through which the other process's memory is read.
    ibv_cq* cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {4, 4, 1, 1, 0};
    ibv_qp* qp = ibv_create_qp(pd, &init);
    if (cq == nullptr || qp == nullptr) return 8;
    if (const int step = connect_to_itself(context, qp); step != 0) return step;
    // From the first half of the other's region to its second half, with its keys alone.
    ibv_sge sge{names.addr + kBytes / 2, 64, mr->lkey};
    ibv_send_wr wr = request(IBV_WR_RDMA_READ, 1, &sge, 1);
    wr.wr.rdma.remote_addr = names.addr;
    wr.wr.rdma.rkey = mr->rkey;
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(qp, &wr, &bad) != 0) return 13;
    ibv_wc wc{};
    if (!comes([&] { return ibv_poll_cq(cq, 1, &wc) != 0; }) || wc.status != IBV_WC_SUCCESS) return 14;
    if (ibv_dereg_mr(mr) != EOPNOTSUPP) return 15;
    ibv_unimport_mr(mr);
    ibv_unimport_dm(dm);
    ibv_unimport_pd(pd);  // before the QP goes, as pyverbs does
    if (ibv_destroy_qp(qp) != 0 || ibv_destroy_cq(cq) != 0) return 16;
    return ibv_close_device(context) == 0 ? 0 : 17;
}

TEST(Imports, AnotherProcessUsesWhatItWasSent) {
    int pair[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    const pid_t child = fork_child();  // before anything is opened: a process of its own
    if (child == 0) {
        close(pair[0]);
        _exit(use_import(pair[1]));
    }
    close(pair[1]);
    const Context context = open_device("urnic1");
    ASSERT_NE(context, nullptr);
    const Buffer memory(kBytes);
    fill(memory.data(), kBytes / 2, 3);
    ibv_pd* pd = ibv_alloc_pd(context.get());
    ibv_mr* mr = ibv_reg_mr(pd, memory.data(), kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    ibv_alloc_dm_attr dm_attr{};
    dm_attr.length = 4096;
    ibv_dm* dm = ibv_alloc_dm(context.get(), &dm_attr);
    ASSERT_TRUE(pd != nullptr && mr != nullptr && dm != nullptr);
    const std::uint32_t word = 77;
    EXPECT_EQ(ibv_memcpy_to_dm(dm, 0, &word, 4), 0);
    send_fd(pair[0], context->cmd_fd);
    struct {
        std::uint32_t pd, mr, dm;
        std::uint64_t addr;
    } names{pd->handle, mr->handle, dm->handle, reinterpret_cast<std::uint64_t>(memory.data())};
    ASSERT_EQ(::write(pair[0], &names, sizeof names), static_cast<ssize_t>(sizeof names));
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0) << "the step that failed";
    EXPECT_EQ(first_difference(memory.data() + kBytes / 2, 64, 3), -1);
    close(pair[0]);
    EXPECT_EQ(ibv_free_dm(dm), 0);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST(Imports, NothingElseIsADevice) {
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    EXPECT_EQ(ibv_import_device(null), nullptr);
    EXPECT_EQ(ibv_import_device(-1), nullptr);
    close(null);
    Context context = open_device("urnic0");
    const int token = dup(context->cmd_fd);
    context.reset();
    EXPECT_EQ(ibv_import_device(token), nullptr) << "it was closed";
    close(token);
}

TEST(Imports, AMemoryFileIsNoDevice) {
    for (const char* name : {"urnic-contex", "other"}) {
        const int file = ::memfd_create(name, MFD_CLOEXEC);
        EXPECT_EQ(ibv_import_device(file), nullptr) << name;
        close(file);
    }
}

// More of them, one after the other, than a program may have at once.
TEST(Imports, WhatIsImportedIsGivenBack) {
    const Context owner = open_device("urnic0");
    ASSERT_NE(owner, nullptr);
    ibv_alloc_dm_attr attr{};
    attr.length = 4096;
    ibv_dm* dm = ibv_alloc_dm(owner.get(), &attr);
    ASSERT_NE(dm, nullptr) << std::strerror(errno);
    EXPECT_EQ(dm->comp_mask & IBV_DM_MASK_HANDLE, std::uint32_t{IBV_DM_MASK_HANDLE});
    const Context importer(ibv_import_device(dup(owner->cmd_fd)));
    ASSERT_NE(importer, nullptr) << std::strerror(errno);
    for (int i = 0; i < 1100; ++i) {
        ibv_dm* theirs = ibv_import_dm(importer.get(), dm->handle);
        ASSERT_NE(theirs, nullptr) << "number " << i << ": " << std::strerror(errno);
        ibv_unimport_dm(theirs);
    }
    const auto descriptors = [] {
        using Entries = std::filesystem::directory_iterator;
        return std::distance(Entries("/proc/self/fd"), Entries());
    };
    const auto before = descriptors();
    for (int i = 0; i < 100; ++i) {
        ibv_context* again = ibv_import_device(dup(owner->cmd_fd));
        ASSERT_NE(again, nullptr) << "number " << i << ": " << std::strerror(errno);
        EXPECT_EQ(ibv_close_device(again), 0);
    }
    EXPECT_EQ(descriptors(), before);
    EXPECT_EQ(ibv_free_dm(dm), 0);
}

}  // namespace
}  // namespace urnic::e2e
