// The discovery shim, seen by a program that runs under it.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "abi/umad.h"

namespace {

namespace fs = std::filesystem;

class Shim : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = (fs::temp_directory_path() / "urnic-shim-XXXXXX").string();
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        run_dir_ = name;
        put("sys/class/infiniband_verbs/abi_version", "6\n");
        put("sys/class/infiniband/urnic0/node_type", "1: CA\n");
        put("sys/class/infiniband/urnic0/node_guid", "0200:0000:0000:0001\n");
        put("sys/class/misc/rdma_cm/abi_version", "4\n");
        put("dev/infiniband/uverbs_urnic0", "device\n");
        fs::create_symlink("../infiniband/urnic0", root() / "sys/class/infiniband_verbs/device");
    }
    void TearDown() override { fs::remove_all(run_dir_); }

    [[nodiscard]] fs::path root() const { return run_dir_ / "sysroot"; }
    void put(const std::string& path, const std::string& text) const {
        const fs::path file = root() / path;
        fs::create_directories(file.parent_path());
        std::ofstream(file) << text;
    }

    /// What `shim_probe CALL PATH` prints under the shim.
    [[nodiscard]] std::string probe(const std::string& call, const std::string& path) const {
        return run(call, path, run_dir_.string());
    }
    [[nodiscard]] static std::string run(const std::string& call, const std::string& path,
                                         const std::string& run_dir, const std::string& preload = SHIM_PATH) {
        // A sanitizer's runtime wants to be the first library; `urnic run` sets the same option.
        std::string command =
            "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 LD_PRELOAD='" + preload + "' ";
        if (!run_dir.empty()) command += "URNIC_RUN_DIR='" + run_dir + "' ";
        command += "'" SHIM_PROBE "' '" + call + "' '" + path + "' 2>&1";
        FILE* out = popen(command.c_str(), "r");
        if (out == nullptr) return "popen failed";
        std::string text;
        char part[256];
        while (const std::size_t length = std::fread(part, 1, sizeof(part), out)) text.append(part, length);
        const int status = pclose(out);
        if (status != 0) text += "status " + std::to_string(WEXITSTATUS(status));
        return text;
    }

    fs::path run_dir_;
};

constexpr const char* kNodeType = "/sys/class/infiniband/urnic0/node_type";
constexpr const char* kNoEntry = "error 2 in ";

TEST_F(Shim, EverySpellingOfOpenReadsTheDaemonsFile) {
    for (const char* call :
         {"open", "open64", "__open", "__open64", "__open_2", "__open64_2", "openat", "openat64",
          "__openat_2", "__openat64_2", "fopen", "fopen64", "freopen", "freopen64", "relative", "chdir"}) {
        EXPECT_EQ(probe(call, kNodeType), "1: CA\n") << call;
    }
}

TEST_F(Shim, EverySpellingOfStatSeesTheDaemonsFile) {
    for (const char* call : {"stat", "stat64", "lstat", "lstat64", "fstatat", "fstatat64", "__xstat",
                             "__xstat64", "__lxstat", "__lxstat64", "__fxstatat", "__fxstatat64", "statx"}) {
        EXPECT_EQ(probe(call, kNodeType), "size 6\n") << call;
    }
    for (const char* call : {"access", "eaccess", "euidaccess", "faccessat"}) {
        EXPECT_EQ(probe(call, kNodeType), "accessible\n") << call;
    }
}

TEST_F(Shim, LinksAndRealNames) {
    for (const char* call : {"readlink", "__readlink_chk", "readlinkat", "__readlinkat_chk"}) {
        EXPECT_EQ(probe(call, "/sys/class/infiniband_verbs/device"), "link ../infiniband/urnic0\n") << call;
    }
    const std::string real = fs::canonical(root() / "sys/class/infiniband/urnic0").string();
    for (const char* call : {"realpath", "__realpath_chk", "canonicalize_file_name"}) {
        EXPECT_EQ(probe(call, "/sys/class/infiniband_verbs/device"), "real " + real + "\n") << call;
    }
}

TEST_F(Shim, EverySpellingOfListing) {
    for (const char* call : {"opendir", "scandir", "scandir64", "scandirat", "scandirat64"}) {
        EXPECT_EQ(probe(call, "/sys/class/infiniband/urnic0"), "entries 2\n") << call;
    }
}

TEST_F(Shim, MapsEachTreeAndOddSpellings) {
    EXPECT_EQ(probe("open", "/sys/class/infiniband_verbs/abi_version"), "6\n");
    EXPECT_EQ(probe("open", "/sys/class/misc/rdma_cm/abi_version"), "4\n");
    EXPECT_EQ(probe("open", "/dev/infiniband/uverbs_urnic0"), "device\n");
    EXPECT_EQ(probe("open", "//sys///class/./infiniband/urnic0/node_type"), "1: CA\n");
    EXPECT_EQ(probe("open", "/sys/class/infiniband/urnic0/../urnic0/node_type"), "1: CA\n");
    EXPECT_EQ(probe("opendir", "/dev/infiniband"), "entries 1\n");
    EXPECT_EQ(probe("opendir", "/dev/infiniband/"), "entries 1\n");
}

TEST_F(Shim, LeavesEveryOtherPathAlone) {
    put("sys/class/misc/rdma_cm_not/abi_version", "wrong\n");
    put("dev/infiniband_not/x", "wrong\n");
    put("proc/version", "wrong\n");
    put("sys/class/net/x", "wrong\n");
    for (const char* path : {"/sys/class/misc/rdma_cm_not/abi_version", "/dev/infiniband_not/x",
                             "/sys/class/net/x", "/sys/class/infiniband/nosuch/node_type"}) {
        EXPECT_EQ(probe("open", path), std::string(kNoEntry) + "open\n") << path;
    }
    EXPECT_NE(probe("open", "/proc/version"), "wrong\n");
    EXPECT_EQ(probe("open", "/sys/class/infiniband/" + std::string(5000, 'x')), "error 36 in open\n");
}

TEST_F(Shim, RefusesRdmaNetlinkAlone) {
    EXPECT_EQ(run("netlink", "-", run_dir_.string(), SHIM_PATH ":" OPEN_SOCKET_PATH),
              "rdma refused route open\n");
    EXPECT_EQ(run("netlink", "-", "", SHIM_PATH ":" OPEN_SOCKET_PATH), "rdma open route open\n");
}

TEST_F(Shim, KeepsErrnoAllocatesNothingAndServesChildren) {
    EXPECT_EQ(probe("quiet", kNodeType), "errno 4242 heap same\n");
    EXPECT_EQ(probe("children", kNodeType), "child 7\n");
}

TEST_F(Shim, PassesTheModeOfAFileThatIsMade) {
    EXPECT_EQ(probe("create", (run_dir_ / "made").string()), "mode 640\n");
}

TEST_F(Shim, DoesNothingWithoutARunDirectory) {
    const std::string plain = run("open", "/sys/class/infiniband/urnic0/node_type", "");
    EXPECT_EQ(plain, std::string(kNoEntry) + "open\n");
    // A relative directory would mean another one after each chdir.
    EXPECT_EQ(run("open", kNodeType, "relative/dir"), std::string(kNoEntry) + "open\n");
    EXPECT_EQ(run("open", kNodeType, std::string(5000, '/')), std::string(kNoEntry) + "open\n");
}

TEST(ShimLibrary, NeedsTheCLibraryAlone) {
    FILE* out = popen("readelf -d '" SHIM_PATH "'", "r");
    ASSERT_NE(out, nullptr);
    std::vector<std::string> needed;
    char line[512];
    while (std::fgets(line, sizeof(line), out) != nullptr) {
        const std::string text = line;
        if (text.find("(NEEDED)") != std::string::npos) needed.push_back(text.substr(text.find('[')));
    }
    ASSERT_EQ(pclose(out), 0);
    EXPECT_EQ(needed, std::vector<std::string>{"[libc.so.6]\n"});
}

/// A daemon with one umad socket: it says hello to who connects, sends him a datagram, and is gone.
class UmadSocket {
  public:
    UmadSocket(const fs::path& path, int error, const std::string& datagram)
        : listener_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
        fs::create_directories(path.parent_path());
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.string().copy(address.sun_path, sizeof address.sun_path - 1);
        EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
        EXPECT_EQ(listen(listener_, 1), 0);
        daemon_ = std::thread([this, error, datagram] {
            const int peer = accept(listener_, nullptr, nullptr);
            const urnic::abi::UmadHello hello{urnic::abi::kUmadMagic, error, 1};
            (void)send(peer, &hello, sizeof hello, MSG_NOSIGNAL);
            if (!datagram.empty()) {
                (void)send(peer, datagram.data(), datagram.size(), MSG_NOSIGNAL);
            }
            close(peer);
        });
    }
    UmadSocket(const UmadSocket&) = delete;
    UmadSocket& operator=(const UmadSocket&) = delete;
    ~UmadSocket() {
        daemon_.join();
        close(listener_);
    }

  private:
    int listener_;
    std::thread daemon_;
};

TEST_F(Shim, AUmadDeviceIsASocketOfTheDaemon) {
    const auto probe_with = [&](int error, const std::string& datagram) {
        const fs::path path = root() / "dev/infiniband/umad0";
        fs::remove(path);
        const UmadSocket daemon(path, error, datagram);
        return probe("open", "/dev/infiniband/umad0");
    };
    EXPECT_EQ(probe_with(0, "datagram"), "datagram");
    // Longer than what the probe reads into: it stays where it is (ENOSPC).
    EXPECT_EQ(probe_with(0, std::string(300, 'x')), "error 28 in read\n");
    // The daemon is gone (ENODEV), or refuses (EACCES).
    EXPECT_EQ(probe_with(0, ""), "error 19 in read\n");
    EXPECT_EQ(probe_with(13, ""), "error 13 in open\n");
    // Nobody listens there (ECONNREFUSED).
    EXPECT_EQ(probe("open", "/dev/infiniband/umad0"), "error 111 in open\n");
}

}  // namespace
