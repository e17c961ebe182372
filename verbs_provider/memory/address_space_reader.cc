#include "verbs_provider/memory/address_space_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include "verbs_provider/memory/raw_syscall.h"

namespace urnic::memory {
namespace {

// <linux/fs.h> of Linux 6.11; Debian 12's headers are older than that.
struct ProcmapQuery {
    std::uint64_t size;
    std::uint64_t query_flags;
    std::uint64_t query_addr;
    std::uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
    std::uint32_t dev_major, dev_minor;
    std::uint32_t vma_name_size, build_id_size;
    std::uint64_t vma_name_addr, build_id_addr;
};
static_assert(sizeof(ProcmapQuery) == 104);
constexpr std::uint32_t kProcmapQuery = 0xC0686611;  // _IOWR('f', 17, struct procmap_query)
enum ProcmapFlags : std::uint64_t {
    kVmaReadable = 0x01,
    kVmaWritable = 0x02,
    kVmaExecutable = 0x04,
    kVmaShared = 0x08,
    kCoveringOrNext = 0x10,
};

void classify_by_name(std::string_view name, VmArea& mapping) {
    mapping.is_stack = name == "[stack]";
    const bool ordinary =
        name.empty() || name == "[heap]" || name.starts_with("[anon:") || mapping.inode != 0;
    mapping.is_special = !ordinary && !mapping.is_stack;
}

int open_readonly(const char* path, int extra_flags = 0) {
    return static_cast<int>(raw_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | extra_flags));
}

/// Cuts the text up to `separator` off the front of `line`.
std::string_view take_until(std::string_view& line, char separator) {
    const auto at = line.find(separator);
    const std::string_view taken = line.substr(0, at);
    line.remove_prefix(at == std::string_view::npos ? line.size() : at + 1);
    return taken;
}

std::uint64_t number(std::string_view text, int base) {
    std::uint64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value, base);
    return value;
}

/// "7f00-7f10 rw-p 00000000 00:01 27    /name"
VmArea parse_line(std::string_view line) {
    VmArea mapping;
    mapping.range.start = number(take_until(line, '-'), 16);
    mapping.range.end = number(take_until(line, ' '), 16);
    const std::string_view permissions = take_until(line, ' ');
    if (permissions.size() == 4) {
        mapping.protection = (permissions[0] == 'r' ? PROT_READ : 0) |
                             (permissions[1] == 'w' ? PROT_WRITE : 0) |
                             (permissions[2] == 'x' ? PROT_EXEC : 0);
        mapping.shared = permissions[3] == 's';
    }
    mapping.file_offset = number(take_until(line, ' '), 16);
    mapping.device_major = static_cast<std::uint32_t>(number(take_until(line, ':'), 16));
    mapping.device_minor = static_cast<std::uint32_t>(number(take_until(line, ' '), 16));
    mapping.inode = number(take_until(line, ' '), 10);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    classify_by_name(line, mapping);
    return mapping;
}

/// A line of smaps: the head of a mapping, or one of its properties. Returns whether the mapping lies behind
/// the range.
bool take_smaps_line(std::string_view line, Range range, VmArea& mapping, AdvisedAreas& to) {
    const bool is_property = !line.empty() && line.front() >= 'A' && line.front() <= 'Z';
    if (!is_property) {
        mapping = parse_line(line);
        return mapping.range.start >= range.end;
    }
    if (line.starts_with("VmFlags:") && overlap(mapping.range, range)) {
        // Names of two letters, each behind a space.
        const bool is_undumped = line.find(" dd") != std::string_view::npos;
        const bool is_wiped = line.find(" wf") != std::string_view::npos;
        if (is_undumped || is_wiped) {
            to.push_back({mapping.range, is_undumped, is_wiped});
        }
    }
    return false;
}

}  // namespace

int AddressSpaceReader::read_mappings(Range range, Mappings& to) {
    // Opened anew each time: a descriptor kept for long would name the parent's memory after a fork, or
    // something else altogether in a program that closes all descriptors.
    const int fd = open_readonly("/proc/self/maps");
    if (fd < 0) {
        return fd;
    }
    int result = -ENOTTY;
    if (query_works_) {
        result = query_mappings(fd, range, to);
        query_works_ = result != -ENOTTY;
    }
    if (!query_works_) {
        result = parse_mappings(fd, range, to);
    }
    raw_syscall(SYS_close, fd);
    return result;
}

int AddressSpaceReader::query_mappings(int fd, Range range, Mappings& to) {
    std::array<char, 4096> name;  // NOLINT(cppcoreguidelines-pro-type-member-init): the kernel fills it
    std::uint64_t at = range.start;
    while (at < range.end) {
        ProcmapQuery query{};
        query.size = sizeof(query);
        query.query_flags = kCoveringOrNext;
        query.query_addr = at;
        query.vma_name_size = name.size();
        query.vma_name_addr = reinterpret_cast<std::uint64_t>(name.data());
        const long result = raw_syscall(SYS_ioctl, fd, kProcmapQuery, &query);
        if (result == -ENOENT) {
            return 0;  // nothing mapped from here on
        }
        if (result < 0) {
            return static_cast<int>(result);
        }
        if (query.vma_start >= range.end) {
            return 0;
        }
        VmArea mapping;
        mapping.range = {query.vma_start, query.vma_end};
        mapping.file_offset = query.vma_offset;
        mapping.inode = query.inode;
        mapping.device_major = query.dev_major;
        mapping.device_minor = query.dev_minor;
        mapping.protection = ((query.vma_flags & kVmaReadable) != 0 ? PROT_READ : 0) |
                             ((query.vma_flags & kVmaWritable) != 0 ? PROT_WRITE : 0) |
                             ((query.vma_flags & kVmaExecutable) != 0 ? PROT_EXEC : 0);
        mapping.shared = (query.vma_flags & kVmaShared) != 0;
        const std::size_t name_length = query.vma_name_size == 0 ? 0 : query.vma_name_size - 1;
        classify_by_name({name.data(), name_length}, mapping);
        to.push_back(mapping);
        at = query.vma_end;
    }
    return 0;
}

int AddressSpaceReader::parse_mappings(int fd, Range range, Mappings& to) {
    std::size_t length = 0;
    while (true) {
        if (text_.size() - length < 8192) {
            text_.resize(text_.size() + 65536);
        }
        const long got = raw_syscall(SYS_read, fd, text_.data() + length, text_.size() - length);
        if (got < 0) {
            return static_cast<int>(got);
        }
        if (got == 0) {
            break;
        }
        length += static_cast<std::size_t>(got);
    }
    std::string_view text(text_.data(), length);
    while (!text.empty()) {
        const VmArea mapping = parse_line(take_until(text, '\n'));
        if (mapping.range.start >= range.end) {
            break;
        }
        if (mapping.range.end > range.start) {
            to.push_back(mapping);
        }
    }
    return 0;
}

int AddressSpaceReader::read_advice(Range range, AdvisedAreas& to) {
    const int fd = open_readonly("/proc/self/smaps");
    if (fd < 0) {
        return fd;
    }
    const long result = read_lines(fd, range, to);
    raw_syscall(SYS_close, fd);
    return static_cast<int>(result);
}

long AddressSpaceReader::read_lines(int fd, Range range, AdvisedAreas& to) {
    constexpr std::size_t kChunkBytes = 65536;
    text_.resize(std::max(text_.size(), kChunkBytes));
    VmArea mapping;
    std::size_t held = 0;
    while (true) {
        const long got = raw_syscall(SYS_read, fd, text_.data() + held, text_.size() - held);
        if (got <= 0) {
            return got;
        }
        std::string_view text(text_.data(), held + static_cast<std::size_t>(got));
        while (text.find('\n') != std::string_view::npos) {
            if (take_smaps_line(take_until(text, '\n'), range, mapping, to)) {
                return 0;
            }
        }
        held = text.size();
        std::memmove(text_.data(), text.data(), held);
    }
}

int AddressSpaceReader::read_thread_blocks(ThreadBlocks& to) {
    const int fd = open_readonly("/proc/self/task", O_DIRECTORY);
    if (fd < 0) {
        return fd;
    }
    struct Entry {  // struct linux_dirent64
        std::uint64_t inode;
        std::int64_t offset;
        std::uint16_t length;
        std::uint8_t type;
        char name[1];  // as long as it takes, NUL-terminated
    };
    alignas(Entry) std::array<char, 4096> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    const long process = raw_syscall(SYS_getpid);
    long got = 0;
    while ((got = raw_syscall(SYS_getdents64, fd, buffer.data(), buffer.size())) > 0) {
        for (long at = 0; at < got;) {
            const auto* entry = reinterpret_cast<const Entry*>(buffer.data() + at);
            at += entry->length;
            const auto tid = static_cast<long>(number(entry->name, 10));
            std::uint64_t head = 0;
            std::size_t head_bytes = 0;
            if (tid > 0 && raw_syscall(SYS_get_robust_list, tid, &head, &head_bytes) == 0 && head != 0) {
                to.push_back({head, tid == process});  // the list's head lies inside struct pthread
            }
        }
    }
    raw_syscall(SYS_close, fd);
    return static_cast<int>(got);
}

}  // namespace urnic::memory
