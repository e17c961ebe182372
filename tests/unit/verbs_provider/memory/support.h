// What the tests of registered memory share.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "verbs_provider/memory/address_space_reader.h"
#include "verbs_provider/memory/memory.h"
#include "verbs_provider/memory/testing.h"

namespace urnic::memory {

inline std::uint64_t address_of(const volatile void* at) { return reinterpret_cast<std::uint64_t>(at); }

/// What pages of test memory hold; copied in whole pages because sanitizers make loops over bytes slow.
class Pattern {
  public:
    Pattern() {
        for (std::size_t i = 0; i < sizeof(bytes_); ++i) {
            bytes_[i] = static_cast<char>(i);
        }
    }
    const char* page(char seed, std::size_t number) const {
        return bytes_ + static_cast<unsigned char>(static_cast<std::size_t>(seed) + number);
    }

  private:
    char bytes_[kPageBytes + 256];
};

/// Private anonymous memory (or another kind) with inaccessible pages around it, so that it merges with
/// nothing. `near`: somewhere else than where the kernel places mappings itself, so that nothing comes to lie
/// in a hole.
class Area {
  public:
    explicit Area(std::size_t bytes, int protection = PROT_READ | PROT_WRITE,
                  int flags = MAP_PRIVATE | MAP_ANONYMOUS, int fd = -1, void* near = nullptr)
        : bytes_(bytes) {
        base_ = static_cast<char*>(
            ::mmap(near, bytes + 2 * kPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        at_ = static_cast<char*>(::mmap(base_ + kPageBytes, bytes, protection, flags | MAP_FIXED, fd, 0));
        if (base_ == MAP_FAILED || at_ == MAP_FAILED) {
            std::perror("mmap");
            std::abort();
        }
    }
    ~Area() {
        ::munmap(base_, kPageBytes);
        ::munmap(at_ + moved_, bytes_ - moved_ + kPageBytes);
    }
    Area(const Area&) = delete;
    Area& operator=(const Area&) = delete;

    /// The first bytes are elsewhere now, and others may have mappings in their place.
    void note_moved(std::size_t bytes) { moved_ = bytes; }

    char* data() const { return at_; }
    char& operator[](std::size_t i) const { return at_[i]; }
    std::size_t size() const { return bytes_; }
    std::uint64_t address() const { return address_of(at_); }
    Range range() const { return {address(), address() + bytes_}; }
    /// Byte i becomes seed + i + i / kPageBytes.
    void fill(char seed) const {
        const Pattern pattern;
        for (std::size_t page = 0; page * kPageBytes < bytes_; ++page) {
            std::memcpy(at_ + page * kPageBytes, pattern.page(seed, page), kPageBytes);
        }
    }
    bool holds(char seed) const {
        const Pattern pattern;
        for (std::size_t page = 0; page * kPageBytes < bytes_; ++page) {
            if (std::memcmp(at_ + page * kPageBytes, pattern.page(seed, page), kPageBytes) != 0) {
                return false;
            }
        }
        return true;
    }

  private:
    std::size_t bytes_;
    std::size_t moved_ = 0;
    char* base_ = nullptr;
    char* at_ = nullptr;
};

/// What the daemon sees: another mapping of the memory file at offset = address.
class DaemonView {
  public:
    DaemonView(std::uint64_t addr, std::size_t bytes) : start_(page_floor(addr)), skip_(addr - start_) {
        bytes_ = page_ceiling(skip_ + bytes);
        at_ = static_cast<char*>(::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, memory_file(),
                                        static_cast<off_t>(start_)));
        if (at_ == MAP_FAILED) {
            std::perror("mmap of the memory file");
            std::abort();
        }
    }
    ~DaemonView() { ::munmap(at_, bytes_); }
    DaemonView(const DaemonView&) = delete;
    DaemonView& operator=(const DaemonView&) = delete;
    char* data() const { return at_ + skip_; }
    char& operator[](std::size_t i) const { return data()[i]; }

  private:
    std::uint64_t start_, skip_;
    std::size_t bytes_ = 0;
    char* at_ = nullptr;
};

inline Mappings mappings_in(Range range) {
    AddressSpaceReader reader;
    Mappings mappings;
    EXPECT_EQ(reader.read_mappings(range, mappings), 0);
    return mappings;
}

/// Runs `body` in a forked child; true when it returned true there.
inline bool in_child(const std::function<bool()>& body) {
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
        ::_exit(body() ? 0 : 1);
    }
    int status = -1;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Bytes of memory the file really holds.
inline std::uint64_t memory_file_bytes() {
    struct stat status {};
    EXPECT_EQ(::fstat(memory_file(), &status), 0);
    return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

}  // namespace urnic::memory
