#include "daemon/verbs/process_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace urnic::daemon {

namespace {

/// A client's list of mounts is read so far; its /proc is among the first.
constexpr std::size_t kMaxMountLines = 4096;

struct FileIdentity {
    std::uint32_t device_major = 0;
    std::uint32_t device_minor = 0;
    std::uint64_t inode = 0;
    std::uint32_t mode = 0;

    [[nodiscard]] bool has_device_of(const FileIdentity& other) const {
        return device_major == other.device_major && device_minor == other.device_minor;
    }
};

/// What the kernel has cached: no file system is asked.
bool identify(int fd, const char* path, FileIdentity& identity) {
    struct statx info {};
    if (::statx(fd, path, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC,
                STATX_TYPE | STATX_MODE | STATX_INO, &info) != 0) {
        return false;
    }
    identity = {info.stx_dev_major, info.stx_dev_minor, info.stx_ino, info.stx_mode};
    return true;
}

/// Returns whether a line of mountinfo (proc_pid_mountinfo(5)) is of a procfs on that device. What a user
/// chooses has no spaces in it (they are escaped), and stands before the only " - ".
bool is_procfs_line(std::string_view line, std::string_view device) {
    const std::size_t fields_end = line.find(" - ");
    return fields_end != std::string_view::npos && line.substr(fields_end + 3).starts_with("proc ") &&
           line.substr(0, fields_end).find(device) != std::string_view::npos;
}

/// Returns whether the file lies in procfs: in the daemon's own, or in one that the client sees (in a
/// container it has another). A device number says it, which no user can choose; statfs() would ask the file
/// system.
bool is_in_procfs(pid_t pid, const FileIdentity& file) {
    FileIdentity own;
    struct statfs filesystem {};
    if (identify(AT_FDCWD, "/proc", own) && own.has_device_of(file)) {
        return ::statfs("/proc", &filesystem) == 0 && filesystem.f_type == PROC_SUPER_MAGIC;
    }
    if (pid <= 0) {
        return false;
    }
    const auto close_file = [](std::FILE* opened) { (void)std::fclose(opened); };
    const std::unique_ptr<std::FILE, decltype(close_file)> mounts(
        std::fopen(fmt::format("/proc/{}/mountinfo", pid).c_str(), "re"), close_file);
    const std::string device = fmt::format(" {}:{} ", file.device_major, file.device_minor);
    std::array<char, 4096> line{};
    for (std::size_t i = 0;
         mounts && i < kMaxMountLines && std::fgets(line.data(), line.size(), mounts.get()); ++i) {
        if (is_procfs_line(line.data(), device)) {
            return true;
        }
    }
    return false;
}

/// The entry "mem" of a directory of procfs itself, whatever the client has mounted over it.
UniqueFd find_entry(int directory) {
    open_how how{};
    how.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
    how.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH;
    return UniqueFd(static_cast<int>(::syscall(SYS_openat2, directory, "mem", &how, sizeof how)));
}

/// 0: it is. Only a process's directory has an entry of that name that its owner alone may read and write.
int check_process_memory(pid_t pid, int directory, int memory) {
    FileIdentity process;
    FileIdentity found;
    FileIdentity given;
    if (!identify(directory, "", process) || !S_ISDIR(process.mode) || !identify(memory, "", given) ||
        given.mode != (S_IFREG | S_IRUSR | S_IWUSR) || !given.has_device_of(process) ||
        !is_in_procfs(pid, process)) {
        return EINVAL;
    }
    const UniqueFd entry = find_entry(directory);
    if (!entry && (errno == ENOSYS || errno == EPERM)) {
        return ENOSYS;
    }
    const bool is_same = entry && identify(entry.get(), "", found) && found.mode == given.mode &&
                         found.has_device_of(given) && found.inode == given.inode;
    return is_same ? 0 : EINVAL;
}

/// pread() takes addresses that are no file offsets as errors; those of user space are all positive.
off_t offset_of(std::uint64_t va) { return static_cast<off_t>(va); }

}  // namespace

int ProcessMemory::attach(pid_t pid, const UniqueFd& directory, UniqueFd& memory) {
    if (memory_) {
        return EEXIST;
    }
    if (const int error = check_process_memory(pid, directory.get(), memory.get()); error != 0) {
        return error;
    }
    memory_ = std::move(memory);
    fd_.store(memory_.get(), std::memory_order_release);
    return 0;
}

bool ProcessMemory::read(std::uint64_t va, std::byte* to, std::size_t length_bytes) const {
    return ::pread(fd_.load(std::memory_order_acquire), to, length_bytes, offset_of(va)) ==
           static_cast<ssize_t>(length_bytes);
}

bool ProcessMemory::write(std::uint64_t va, const std::byte* from, std::size_t length_bytes) const {
    return ::pwrite(fd_.load(std::memory_order_acquire), from, length_bytes, offset_of(va)) ==
           static_cast<ssize_t>(length_bytes);
}

}  // namespace urnic::daemon
