// The discovery shim: LD_PRELOADed by `urnic run`, it lets programs find the emulated RNICs in /sys and /dev
// without a kernel RDMA stack, or beside one. It serves discovery alone; verbs go through the provider.
//
// Each hook has a C++ name of its own and the C library's name as its symbol, so that no declaration of the C
// library's headers is in the way.
#include <dirent.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cerrno>
#include <cstdio>
#include <type_traits>

#include "abi/context_token.h"
#include "verbs_provider/shim/functions.h"
#include "verbs_provider/shim/mapped_path.h"
#include "verbs_provider/shim/umad.h"

namespace urnic::shim {
namespace {

__attribute__((constructor)) void start() {
    load_environment();
    resolve_all();
}

template <typename Result>
constexpr Result failure() {
    if constexpr (std::is_pointer_v<Result>) {
        return nullptr;
    } else {
        return -1;
    }
}

/// Calls the real `function`; its type is that of the arguments.
template <typename Result, typename... Args>
Result call(Function function, Args... args) {
    void* address = real_function(function);
    if (address == nullptr) return failure<Result>();
    return reinterpret_cast<Result (*)(Args...)>(address)(args...);
}

using Filter = int (*)(const void*);
using Compare = int (*)(const void*, const void*);

}  // namespace
}  // namespace urnic::shim

// NOLINTBEGIN(bugprone-macro-parentheses): types and parameter lists cannot be in parentheses

#define URNIC_DECLARE(result, name, ...) \
    extern "C" __attribute__((visibility("default"))) result urnic_shim_##name(__VA_ARGS__) asm(#name)

/// A function whose path is its first parameter, called `path`; the arguments after the parameter list are
/// the rest of the call.
#define URNIC_HOOK(result, name, parameters, ...)                                                     \
    URNIC_DECLARE(result, name, URNIC_UNPACK parameters);                                             \
    result urnic_shim_##name(URNIC_UNPACK parameters) {                                               \
        const urnic::shim::MappedPath mapped(path);                                                   \
        return urnic::shim::call<result>(urnic::shim::Function::k_##name, mapped.get(), __VA_ARGS__); \
    }
/// The same with a directory descriptor before the path.
#define URNIC_HOOK_AT(result, name, parameters, ...)                                            \
    URNIC_DECLARE(result, name, URNIC_UNPACK parameters);                                       \
    result urnic_shim_##name(URNIC_UNPACK parameters) {                                         \
        const urnic::shim::MappedPath mapped(path);                                             \
        return urnic::shim::call<result>(urnic::shim::Function::k_##name, dir_fd, mapped.get(), \
                                         __VA_ARGS__);                                          \
    }
/// And with nothing but the path.
#define URNIC_HOOK_PATH(result, name)                                                    \
    URNIC_DECLARE(result, name, const char* path);                                       \
    result urnic_shim_##name(const char* path) {                                         \
        const urnic::shim::MappedPath mapped(path);                                      \
        return urnic::shim::call<result>(urnic::shim::Function::k_##name, mapped.get()); \
    }
/// open(), which reaches the daemon's sockets too. `flags` is a parameter.
#define URNIC_HOOK_OPEN(name, parameters, ...)                                                             \
    URNIC_DECLARE(int, name, URNIC_UNPACK parameters);                                                     \
    int urnic_shim_##name(URNIC_UNPACK parameters) {                                                       \
        const urnic::shim::MappedPath mapped(path);                                                        \
        const int fd = urnic::shim::call<int>(urnic::shim::Function::k_##name, mapped.get(), __VA_ARGS__); \
        return fd >= 0 || mapped.get() == path ? fd : urnic::shim::open_umad(mapped.get(), flags);         \
    }
#define URNIC_UNPACK(...) __VA_ARGS__
// NOLINTEND(bugprone-macro-parentheses)

// open() and openat() are variadic; in the x86-64 and AArch64 calling conventions their mode travels like a
// third and fourth fixed parameter, and is a harmless leftover where the caller gave none.
URNIC_HOOK_OPEN(open, (const char* path, int flags, mode_t mode), flags, mode)
URNIC_HOOK_OPEN(open64, (const char* path, int flags, mode_t mode), flags, mode)
URNIC_HOOK_OPEN(__open, (const char* path, int flags, mode_t mode), flags, mode)
URNIC_HOOK_OPEN(__open64, (const char* path, int flags, mode_t mode), flags, mode)
URNIC_HOOK_AT(int, openat, (int dir_fd, const char* path, int flags, mode_t mode), flags, mode)
URNIC_HOOK_AT(int, openat64, (int dir_fd, const char* path, int flags, mode_t mode), flags, mode)
URNIC_HOOK_OPEN(__open_2, (const char* path, int flags), flags)
URNIC_HOOK_OPEN(__open64_2, (const char* path, int flags), flags)
URNIC_HOOK_AT(int, __openat_2, (int dir_fd, const char* path, int flags), flags)
URNIC_HOOK_AT(int, __openat64_2, (int dir_fd, const char* path, int flags), flags)

URNIC_HOOK(FILE*, fopen, (const char* path, const char* mode), mode)
URNIC_HOOK(FILE*, fopen64, (const char* path, const char* mode), mode)
URNIC_HOOK(FILE*, freopen, (const char* path, const char* mode, FILE* file), mode, file)
URNIC_HOOK(FILE*, freopen64, (const char* path, const char* mode, FILE* file), mode, file)

// The structures are passed on unseen: struct stat and struct stat64 alike.
URNIC_HOOK(int, stat, (const char* path, void* out), out)
URNIC_HOOK(int, stat64, (const char* path, void* out), out)
URNIC_HOOK(int, lstat, (const char* path, void* out), out)
URNIC_HOOK(int, lstat64, (const char* path, void* out), out)
URNIC_HOOK_AT(int, fstatat, (int dir_fd, const char* path, void* out, int flags), out, flags)
URNIC_HOOK_AT(int, fstatat64, (int dir_fd, const char* path, void* out, int flags), out, flags)
URNIC_HOOK_AT(int, statx, (int dir_fd, const char* path, int flags, unsigned mask, void* out), flags, mask,
              out)
// Here the number before the path is a version of the structure.
URNIC_HOOK_AT(int, __xstat, (int dir_fd, const char* path, void* out), out)
URNIC_HOOK_AT(int, __xstat64, (int dir_fd, const char* path, void* out), out)
URNIC_HOOK_AT(int, __lxstat, (int dir_fd, const char* path, void* out), out)
URNIC_HOOK_AT(int, __lxstat64, (int dir_fd, const char* path, void* out), out)

#define URNIC_HOOK_FXSTATAT(name)                                                                          \
    URNIC_DECLARE(int, name, int version, int dir_fd, const char* path, void* out, int flags);             \
    int urnic_shim_##name(int version, int dir_fd, const char* path, void* out, int flags) {               \
        const urnic::shim::MappedPath mapped(path);                                                        \
        return urnic::shim::call<int>(urnic::shim::Function::k_##name, version, dir_fd, mapped.get(), out, \
                                      flags);                                                              \
    }
URNIC_HOOK_FXSTATAT(__fxstatat)
URNIC_HOOK_FXSTATAT(__fxstatat64)

URNIC_HOOK(int, access, (const char* path, int mode), mode)
URNIC_HOOK(int, eaccess, (const char* path, int mode), mode)
URNIC_HOOK(int, euidaccess, (const char* path, int mode), mode)
URNIC_HOOK_AT(int, faccessat, (int dir_fd, const char* path, int mode, int flags), mode, flags)

URNIC_HOOK(ssize_t, readlink, (const char* path, char* out, size_t size), out, size)
URNIC_HOOK(ssize_t, __readlink_chk, (const char* path, char* out, size_t size, size_t room), out, size, room)
URNIC_HOOK_AT(ssize_t, readlinkat, (int dir_fd, const char* path, char* out, size_t size), out, size)
URNIC_HOOK_AT(ssize_t, __readlinkat_chk, (int dir_fd, const char* path, char* out, size_t size, size_t room),
              out, size, room)
URNIC_HOOK(char*, realpath, (const char* path, char* out), out)
URNIC_HOOK(char*, __realpath_chk, (const char* path, char* out, size_t room), out, room)
URNIC_HOOK_PATH(char*, canonicalize_file_name)

URNIC_HOOK_PATH(DIR*, opendir)
URNIC_HOOK_PATH(int, chdir)
URNIC_HOOK(int, scandir,
           (const char* path, void* out, urnic::shim::Filter filter, urnic::shim::Compare compare), out,
           filter, compare)
URNIC_HOOK(int, scandir64,
           (const char* path, void* out, urnic::shim::Filter filter, urnic::shim::Compare compare), out,
           filter, compare)
URNIC_HOOK_AT(int, scandirat,
              (int dir_fd, const char* path, void* out, urnic::shim::Filter filter,
               urnic::shim::Compare compare),
              out, filter, compare)
URNIC_HOOK_AT(int, scandirat64,
              (int dir_fd, const char* path, void* out, urnic::shim::Filter filter,
               urnic::shim::Compare compare),
              out, filter, compare)

URNIC_DECLARE(int, socket, int domain, int type, int protocol);
int urnic_shim_socket(int domain, int type, int protocol) {
    // With the kernel's ib_core loaded, RDMA netlink answers with the kernel's devices only and libibverbs
    // never reads sysfs; refused, it does.
    if (domain == AF_NETLINK && protocol == NETLINK_RDMA && urnic::shim::active()) {
        errno = EPROTONOSUPPORT;
        return -1;
    }
    return urnic::shim::call<int>(urnic::shim::Function::k_socket, domain, type, protocol);
}

// A context of another process: ibv_import_device() looks at its descriptor before it loads a provider, who
// could tell what it is.
URNIC_DECLARE(int, fstat, int fd, struct stat* out);
int urnic_shim_fstat(int fd, struct stat* out) {
    const int result = urnic::shim::call<int>(urnic::shim::Function::k_fstat, fd, out);
    if (result == 0 && urnic::shim::active()) {
        const int saved = errno;
        if (urnic::is_context_token(fd, *out)) {
            urnic::show_as_device(*out);
        }
        errno = saved;
    }
    return result;
}

// umad devices, which are sockets; for all other descriptors these cost a load and a jump.
URNIC_DECLARE(ssize_t, read, int fd, void* buffer, size_t size);
ssize_t urnic_shim_read(int fd, void* buffer, size_t size) {
    return urnic::shim::is_umad(fd)
               ? urnic::shim::read_umad(fd, buffer, size)
               : urnic::shim::call<ssize_t>(urnic::shim::Function::k_read, fd, buffer, size);
}
URNIC_DECLARE(ssize_t, __read_chk, int fd, void* buffer, size_t size, size_t room);
ssize_t urnic_shim___read_chk(int fd, void* buffer, size_t size, size_t room) {
    return urnic::shim::is_umad(fd) && size <= room
               ? urnic::shim::read_umad(fd, buffer, size)
               : urnic::shim::call<ssize_t>(urnic::shim::Function::k___read_chk, fd, buffer, size, room);
}
URNIC_DECLARE(ssize_t, write, int fd, const void* buffer, size_t size);
ssize_t urnic_shim_write(int fd, const void* buffer, size_t size) {
    return urnic::shim::is_umad(fd)
               ? urnic::shim::write_umad(fd, buffer, size)
               : urnic::shim::call<ssize_t>(urnic::shim::Function::k_write, fd, buffer, size);
}
// Variadic, too.
URNIC_DECLARE(int, ioctl, int fd, unsigned long request, void* argument);
int urnic_shim_ioctl(int fd, unsigned long request, void* argument) {
    return urnic::shim::is_umad(fd)
               ? urnic::shim::ioctl_umad(fd, request, argument)
               : urnic::shim::call<int>(urnic::shim::Function::k_ioctl, fd, request, argument);
}
