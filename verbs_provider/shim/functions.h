// The C library functions that the shim stands in front of, and how it reaches the real ones.
#pragma once

namespace urnic::shim {

// Besides today's names: the `__*_2` and `__*_chk` spellings of programs built with _FORTIFY_SOURCE and the
// `__*xstat*` ones of programs built against a glibc before 2.33.
#define URNIC_SHIM_FUNCTIONS(X) \
    X(open)                     \
    X(open64)                   \
    X(__open)                   \
    X(__open64)                 \
    X(__open_2)                 \
    X(__open64_2)               \
    X(openat)                   \
    X(openat64)                 \
    X(__openat_2)               \
    X(__openat64_2)             \
    X(fopen)                    \
    X(fopen64)                  \
    X(freopen)                  \
    X(freopen64)                \
    X(stat)                     \
    X(stat64)                   \
    X(lstat)                    \
    X(lstat64)                  \
    X(fstat)                    \
    X(fstatat)                  \
    X(fstatat64)                \
    X(__xstat)                  \
    X(__xstat64)                \
    X(__lxstat)                 \
    X(__lxstat64)               \
    X(__fxstatat)               \
    X(__fxstatat64)             \
    X(statx)                    \
    X(access)                   \
    X(eaccess)                  \
    X(euidaccess)               \
    X(faccessat)                \
    X(readlink)                 \
    X(readlinkat)               \
    X(__readlink_chk)           \
    X(__readlinkat_chk)         \
    X(realpath)                 \
    X(__realpath_chk)           \
    X(canonicalize_file_name)   \
    X(opendir)                  \
    X(scandir)                  \
    X(scandir64)                \
    X(scandirat)                \
    X(scandirat64)              \
    X(chdir)                    \
    X(socket)                   \
    X(read)                     \
    X(__read_chk)               \
    X(write)                    \
    X(ioctl)                    \
    X(madvise)                  \
    X(process_madvise)          \
    X(mremap)                   \
    X(realloc)                  \
    X(syscall)

// Of libmnl, which few programs have: looked up when one calls them.
#define URNIC_SHIM_LIBMNL_FUNCTIONS(X) \
    X(mnl_socket_open)                 \
    X(mnl_socket_open2)                \
    X(mnl_socket_bind)                 \
    X(mnl_socket_sendto)               \
    X(mnl_socket_recvfrom)             \
    X(mnl_socket_close)                \
    X(mnl_socket_get_fd)               \
    X(mnl_socket_get_portid)           \
    X(mnl_socket_setsockopt)           \
    X(mnl_socket_getsockopt)

enum class Function : int {
#define URNIC_SHIM_ENUM(name) k_##name,
    URNIC_SHIM_FUNCTIONS(URNIC_SHIM_ENUM) URNIC_SHIM_LIBMNL_FUNCTIONS(URNIC_SHIM_ENUM)
#undef URNIC_SHIM_ENUM
        kCount,
};

/// Address of the next definition of `function` after the shim's, or null (errno ENOSYS) where this C library
/// has none.
[[nodiscard]] void* real_function(Function function);

/// The same where it has been looked up already, else null.
[[nodiscard]] void* known_function(Function function);

/// Looks those of the C library up. dlsym() takes the loader's lock, so it must not wait for the first call,
/// which may come in a child of a threaded program.
void resolve_all();

}  // namespace urnic::shim
