// A small program that shim_test runs under the shim: `shim_probe CALL PATH` makes one call of the C library
// and prints what came of it.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <malloc.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>

namespace {

int fail(const char* what) {
    std::printf("error %d in %s\n", errno, what);
    return 0;
}

int show_fd(int fd) {
    if (fd < 0) return fail("open");
    char text[256] = {};
    const ssize_t length = read(fd, text, sizeof(text) - 1);
    if (length < 0) return fail("read");
    std::printf("%s", text);
    close(fd);
    return 0;
}

int show_file(FILE* file) {
    if (file == nullptr) return fail("fopen");
    char text[256] = {};
    const std::size_t length = std::fread(text, 1, sizeof(text) - 1, file);
    std::printf("%.*s", static_cast<int>(length), text);
    std::fclose(file);
    return 0;
}

int show_size(int result, std::uint64_t size) {
    if (result != 0) return fail("stat");
    std::printf("size %llu\n", static_cast<unsigned long long>(size));
    return 0;
}

/// Calls a function by name: those that this compiler's headers do not declare or would fold away.
template <typename Result, typename... Args>
Result by_name(const char* name, Args... args) {
    void* address = dlsym(RTLD_DEFAULT, name);
    if (address == nullptr) address = dlvsym(RTLD_DEFAULT, name, "GLIBC_2.2.5");
    if (address == nullptr) address = dlvsym(RTLD_DEFAULT, name, "GLIBC_2.4");
    if (address == nullptr) {
        std::printf("no %s\n", name);
        std::exit(3);
    }
    return reinterpret_cast<Result (*)(Args...)>(address)(args...);
}

int list(DIR* dir) {
    if (dir == nullptr) return fail("opendir");
    int entries = 0;
    while (const dirent* entry = readdir(dir)) entries += entry->d_name[0] == '.' ? 0 : 1;
    closedir(dir);
    std::printf("entries %d\n", entries);
    return 0;
}

int not_hidden(const dirent* entry) { return entry->d_name[0] == '.' ? 0 : 1; }

int show_scan(int count) {
    if (count < 0) return fail("scandir");
    std::printf("entries %d\n", count);
    return 0;
}

int show_link(ssize_t length, const char* text) {
    if (length < 0) return fail("readlink");
    std::printf("link %.*s\n", static_cast<int>(length), text);
    return 0;
}

using Probe = std::function<int(const char*)>;

template <typename Stat>
Probe stat_probe(const char* name) {
    return [name](const char* path) {
        Stat out{};
        const int result = by_name<int>(name, path, &out);
        return show_size(result, static_cast<std::uint64_t>(out.st_size));
    };
}
template <typename Stat>
Probe xstat_probe(const char* name) {
    return [name](const char* path) {
        Stat out{};
        const int result = by_name<int>(name, 1, path, &out);
        return show_size(result, static_cast<std::uint64_t>(out.st_size));
    };
}
template <typename Stat>
Probe statat_probe(const char* name) {
    return [name](const char* path) {
        Stat out{};
        const int result = by_name<int>(name, AT_FDCWD, path, &out, 0);
        return show_size(result, static_cast<std::uint64_t>(out.st_size));
    };
}
Probe fxstatat_probe(const char* name) {
    return [name](const char* path) {
        struct stat out {};
        const int result = by_name<int>(name, 1, AT_FDCWD, path, &out, 0);
        return show_size(result, static_cast<std::uint64_t>(out.st_size));
    };
}
Probe open_probe(const char* name) {
    return [name](const char* path) { return show_fd(by_name<int>(name, path, O_RDONLY)); };
}
Probe openat_probe(const char* name) {
    return [name](const char* path) { return show_fd(by_name<int>(name, AT_FDCWD, path, O_RDONLY)); };
}
Probe fopen_probe(const char* name) {
    return [name](const char* path) { return show_file(by_name<FILE*>(name, path, "r")); };
}
Probe freopen_probe(const char* name) {
    return [name](const char* path) {
        return show_file(by_name<FILE*>(name, path, "r", std::fopen("/dev/null", "r")));
    };
}
Probe access_probe(const char* name) {
    return [name](const char* path) {
        if (by_name<int>(name, path, R_OK) != 0) return fail("access");
        std::printf("accessible\n");
        return 0;
    };
}
Probe scan_probe(const char* name) {
    return [name](const char* path) {
        dirent** entries = nullptr;
        return show_scan(by_name<int>(name, path, &entries, &not_hidden,
                                      static_cast<int (*)(const dirent**, const dirent**)>(nullptr)));
    };
}
Probe scanat_probe(const char* name) {
    return [name](const char* path) {
        dirent** entries = nullptr;
        return show_scan(by_name<int>(name, AT_FDCWD, path, &entries, &not_hidden,
                                      static_cast<int (*)(const dirent**, const dirent**)>(nullptr)));
    };
}

int probe_realpath(const char* path) {
    char* real = realpath(path, nullptr);
    if (real == nullptr) return fail("realpath");
    std::printf("real %s\n", real);
    return 0;
}

/// A file of a directory that was opened by its mapped name.
int probe_relative(const char* path) {
    const std::string text = path;
    const std::size_t slash = text.rfind('/');
    const int dir = open(text.substr(0, slash).c_str(), O_RDONLY | O_DIRECTORY);
    if (dir < 0) return fail("open");
    return show_fd(openat(dir, text.substr(slash + 1).c_str(), O_RDONLY));
}

int probe_chdir(const char* path) {
    const std::string text = path;
    const std::size_t slash = text.rfind('/');
    if (chdir(text.substr(0, slash).c_str()) != 0) return fail("chdir");
    return show_fd(open(text.substr(slash + 1).c_str(), O_RDONLY));
}

int probe_netlink(const char* /*path*/) {
    const int rdma = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
    const int refused = errno;
    const int route = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    std::printf("rdma %s route %s\n", rdma >= 0 ? "open" : (refused == EPROTONOSUPPORT ? "refused" : "error"),
                route >= 0 ? "open" : "error");
    return 0;
}

/// errno after a call that succeeds, and heap used by many of them.
int probe_quiet(const char* path) {
    errno = 4242;
    const struct mallinfo2 before = mallinfo2();
    for (int i = 0; i < 100; ++i) {
        if (access(path, R_OK) != 0) return fail("access");
        const int fd = open(path, O_RDONLY);
        if (fd < 0) return fail("open");
        close(fd);
    }
    const struct mallinfo2 after = mallinfo2();
    std::printf("errno %d heap %s\n", errno, before.uordblks == after.uordblks ? "same" : "grown");
    return 0;
}

/// In a child of vfork and of fork, and with a mode for a file that is made.
int probe_children(const char* path) {
    int status = 0;
    const pid_t forked = fork();
    if (forked == 0) _exit(access(path, R_OK) == 0 ? 7 : 1);
    waitpid(forked, &status, 0);
    std::printf("child %d\n", WEXITSTATUS(status));
    return 0;
}

int probe_create(const char* path) {
    umask(0);
    const int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0640);
    if (fd < 0) return fail("open");
    struct stat out {};
    fstat(fd, &out);
    std::printf("mode %o\n", out.st_mode & 07777U);
    return 0;
}

const std::map<std::string, Probe> kProbes = {
    {"open", open_probe("open")},
    {"open64", open_probe("open64")},
    {"__open", open_probe("__open")},
    {"__open64", open_probe("__open64")},
    {"__open_2", open_probe("__open_2")},
    {"__open64_2", open_probe("__open64_2")},
    {"openat", openat_probe("openat")},
    {"openat64", openat_probe("openat64")},
    {"__openat_2", openat_probe("__openat_2")},
    {"__openat64_2", openat_probe("__openat64_2")},
    {"fopen", fopen_probe("fopen")},
    {"fopen64", fopen_probe("fopen64")},
    {"freopen", freopen_probe("freopen")},
    {"freopen64", freopen_probe("freopen64")},
    {"stat", stat_probe<struct stat>("stat")},
    {"stat64", stat_probe<struct stat64>("stat64")},
    {"lstat", stat_probe<struct stat>("lstat")},
    {"lstat64", stat_probe<struct stat64>("lstat64")},
    {"fstatat", statat_probe<struct stat>("fstatat")},
    {"fstatat64", statat_probe<struct stat64>("fstatat64")},
    {"__xstat", xstat_probe<struct stat>("__xstat")},
    {"__xstat64", xstat_probe<struct stat64>("__xstat64")},
    {"__lxstat", xstat_probe<struct stat>("__lxstat")},
    {"__lxstat64", xstat_probe<struct stat64>("__lxstat64")},
    {"__fxstatat", fxstatat_probe("__fxstatat")},
    {"__fxstatat64", fxstatat_probe("__fxstatat64")},
    {"statx",
     [](const char* path) {
         struct statx out {};
         const int result = statx(AT_FDCWD, path, 0, STATX_SIZE, &out);
         return show_size(result, out.stx_size);
     }},
    {"access", access_probe("access")},
    {"eaccess", access_probe("eaccess")},
    {"euidaccess", access_probe("euidaccess")},
    {"faccessat",
     [](const char* path) {
         if (faccessat(AT_FDCWD, path, R_OK, 0) != 0) return fail("faccessat");
         std::printf("accessible\n");
         return 0;
     }},
    {"readlink",
     [](const char* path) {
         char text[PATH_MAX];
         return show_link(readlink(path, text, sizeof(text)), text);
     }},
    {"__readlink_chk",
     [](const char* path) {
         char text[PATH_MAX];
         return show_link(
             by_name<ssize_t>("__readlink_chk", path, static_cast<char*>(text), sizeof(text), sizeof(text)),
             text);
     }},
    {"readlinkat",
     [](const char* path) {
         char text[PATH_MAX];
         return show_link(readlinkat(AT_FDCWD, path, text, sizeof(text)), text);
     }},
    {"__readlinkat_chk",
     [](const char* path) {
         char text[PATH_MAX];
         return show_link(by_name<ssize_t>("__readlinkat_chk", AT_FDCWD, path, static_cast<char*>(text),
                                           sizeof(text), sizeof(text)),
                          text);
     }},
    {"realpath", probe_realpath},
    {"__realpath_chk",
     [](const char* path) {
         char text[PATH_MAX];
         const char* real = by_name<char*>("__realpath_chk", path, static_cast<char*>(text), sizeof(text));
         if (real == nullptr) return fail("realpath");
         std::printf("real %s\n", real);
         return 0;
     }},
    {"canonicalize_file_name",
     [](const char* path) {
         const char* real = canonicalize_file_name(path);
         if (real == nullptr) return fail("canonicalize_file_name");
         std::printf("real %s\n", real);
         return 0;
     }},
    {"opendir", [](const char* path) { return list(opendir(path)); }},
    {"scandir", scan_probe("scandir")},
    {"scandir64", scan_probe("scandir64")},
    {"scandirat", scanat_probe("scandirat")},
    {"scandirat64", scanat_probe("scandirat64")},
    {"relative", probe_relative},
    {"chdir", probe_chdir},
    {"netlink", probe_netlink},
    {"quiet", probe_quiet},
    {"children", probe_children},
    {"create", probe_create},
};

}  // namespace

int main(int argc, char** argv) {
    const auto probe = kProbes.find(argc == 3 ? argv[1] : "");
    if (probe == kProbes.end()) {
        std::fprintf(stderr, "usage: shim_probe CALL PATH\n");
        return 2;
    }
    return probe->second(argv[2]);
}
