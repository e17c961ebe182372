// The command fd of a context: a memory file with a name of its own, by which other processes import the
// context.
#pragma once

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abi/control.h"

namespace urnic {

/// Whether `fd`, of which fstat() gave `status`, is a command fd of ours, of this process or another.
[[nodiscard]] inline bool is_context_token(int fd, const struct stat& status) {
    if (!S_ISREG(status.st_mode) || status.st_nlink != 0) {
        return false;  // most files, with no system call
    }
    char path[32];
    char target[64] = {};
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    constexpr char kPrefix[] = "/memfd:";
    constexpr size_t kPrefixBytes = sizeof kPrefix - 1;
    constexpr size_t kNameBytes = sizeof abi::kContextTokenName - 1;
    return readlink(path, target, sizeof target - 1) > 0 && strncmp(target, kPrefix, kPrefixBytes) == 0 &&
           strncmp(target + kPrefixBytes, abi::kContextTokenName, kNameBytes) == 0;
}

/// libibverbs takes nothing but a character device for a command fd, and looks for a device with its number
/// (the file "dev" in sysfs): ours is made to look like one with the number that all our devices have.
inline void show_as_device(struct stat& status) {
    status.st_mode = (status.st_mode & ~static_cast<mode_t>(S_IFMT)) | S_IFCHR;
    status.st_rdev = 0;
}

}  // namespace urnic
