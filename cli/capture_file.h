// Where captured packets go: a pcapng file, several in a ring, or a descriptor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>

#include "base/pcapng.h"
#include "os/unique_fd.h"

namespace urnic::cli {

/// The reader at the other end of a pipe has ended.
struct ReaderGone {};

class CaptureFile {
  public:
    /// A number of files of so many bytes; when there are as many, the oldest is removed. 0: one file without
    /// end.
    struct Ring {
        std::uint32_t files = 0;
        std::uint64_t bytes = 0;
    };
    /// `head` begins each file. Throws LaunchError.
    CaptureFile(std::filesystem::path path, Ring ring, std::string head);
    /// Writes to a descriptor that others have opened; `name` is for messages.
    CaptureFile(UniqueFd fd, std::string name, const std::string& head);

    /// Appends one block. What is added is not written before flush(), unless it is much.
    void add(const std::string& block);
    void add(const PcapngPacket& packet);
    /// Throws LaunchError, which says where and why, and ReaderGone. Returns early, with what is not written
    /// kept, when a signal comes.
    void flush();
    /// The same to the end, whatever signals come; gives a reader that stalls some seconds.
    void finish();
    [[nodiscard]] const std::string& name() const { return name_; }

  private:
    void open_next();
    /// There is to be room for a block of so many bytes.
    void begin_block(std::size_t bytes);

    std::filesystem::path path_;
    Ring ring_;
    std::string head_;
    std::string name_;
    UniqueFd fd_;
    std::string buffer_;
    std::uint64_t file_bytes_ = 0;
    std::uint32_t number_ = 0;
    std::deque<std::filesystem::path> files_;
};

}  // namespace urnic::cli
