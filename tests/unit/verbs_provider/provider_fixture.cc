// The program starts itself again with the environment that `urnic run` would give it.
#include "tests/unit/verbs_provider/provider_fixture.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace urnic::test {

namespace {
constexpr int kEventDeadlineMs = 60'000;
}  // namespace

struct ibv_context* open_device() {
    int count = 0;
    struct ibv_device** list = ibv_get_device_list(&count);
    EXPECT_EQ(count, 1);
    struct ibv_context* context = count == 1 ? ibv_open_device(list[0]) : nullptr;
    const int error = errno;
    ibv_free_device_list(list);
    errno = error;
    return context;
}

struct ibv_send_wr send_request(std::uint64_t wr_id, struct ibv_sge* sge) {
    struct ibv_send_wr wr {};
    wr.wr_id = wr_id;
    wr.sg_list = sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    return wr;
}

int post_one(struct ibv_qp* qp, struct ibv_send_wr wr) {
    struct ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(qp, &wr, &bad);
    EXPECT_EQ(bad, error != 0 ? &wr : nullptr);
    return error;
}

int post_receive(struct ibv_qp* qp, std::uint64_t wr_id) {
    struct ibv_sge sge {
        0x1000, 64, 7
    };
    struct ibv_recv_wr wr {
        wr_id, nullptr, &sge, 1
    };
    struct ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(qp, &wr, &bad);
}

bool wait_readable(int fd) {
    struct pollfd entry {
        fd, POLLIN, 0
    };
    return poll(&entry, 1, kEventDeadlineMs) == 1;
}

bool readable_now(int fd) {
    struct pollfd entry {
        fd, POLLIN, 0
    };
    return poll(&entry, 1, 0) == 1;
}

namespace {

void write_file(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << '\n';
}

/// What the daemon shows of one device.
void make_sysroot(const std::filesystem::path& run_dir) {
    const auto classes = run_dir / "sysroot/sys/class";
    write_file(classes / "infiniband_verbs/abi_version", "6");
    write_file(classes / "infiniband_verbs/uverbs_urnic0/ibdev", "urnic0");
    write_file(classes / "infiniband_verbs/uverbs_urnic0/dev", "0:0");
    write_file(classes / "infiniband_verbs/uverbs_urnic0/abi_version", "1");
    write_file(classes / "infiniband/urnic0/node_type", "1: CA");
    const auto devices = run_dir / "sysroot/dev/infiniband";
    std::filesystem::create_directories(devices);
    std::filesystem::create_symlink("/dev/null", devices / "uverbs_urnic0");
}

void append_option(const char* name, const char* option) {
    const char* before = getenv(name);
    setenv(name, before != nullptr ? (std::string(before) + ':' + option).c_str() : option, 1);
}

int run_again_with_environment(char** argv) {
    char run_dir[] = "/tmp/urnic-provider-test-XXXXXX";
    if (mkdtemp(run_dir) == nullptr) {
        return 1;
    }
    make_sysroot(run_dir);
    const pid_t child = fork();
    if (child == 0) {
        setenv("URNIC_PROVIDER_TEST", "1", 1);
        setenv("URNIC_RUN_DIR", run_dir, 1);
        setenv("LD_PRELOAD", SHIM_PATH, 1);
        setenv("RDMAV_DRIVERS", PROVIDER_PATH, 1);
        // The shim stands before the sanitizer's runtime in the list of libraries and allocates nothing.
        append_option("ASAN_OPTIONS", "verify_asan_link_order=0");
        execv("/proc/self/exe", argv);
        _exit(127);
    }
    int status = 1;
    waitpid(child, &status, 0);
    std::filesystem::remove_all(run_dir);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

}  // namespace urnic::test

int main(int argc, char** argv) {
    if (getenv("URNIC_PROVIDER_TEST") == nullptr) {
        return urnic::test::run_again_with_environment(argv);
    }
    ::testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
