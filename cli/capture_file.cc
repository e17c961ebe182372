#include "cli/capture_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "cli/launch_error.h"
#include "cli/private_file.h"
#include "os/rollback.h"

namespace urnic::cli {

namespace {
constexpr std::size_t kWriteBytes = std::size_t{1} << 18U;
constexpr int kPatienceMs = 3000;
}  // namespace

CaptureFile::CaptureFile(std::filesystem::path path, Ring ring, std::string head)
    : path_(std::move(path)), ring_(ring), head_(std::move(head)) {
    open_next();
}

CaptureFile::CaptureFile(UniqueFd fd, std::string name, const std::string& head)
    : name_(std::move(name)), fd_(std::move(fd)), buffer_(head) {}

void CaptureFile::open_next() {
    std::filesystem::path next = path_;
    if (ring_.files != 0) {
        next.replace_filename(
            fmt::format("{}_{:05}{}", path_.stem().string(), ++number_, path_.extension().string()));
        if (files_.size() == ring_.files) {
            std::error_code ignored;  // somebody has moved it
            std::filesystem::remove(files_.front(), ignored);
            files_.pop_front();
        }
        files_.push_back(next);
    }
    name_ = next.string();
    // The names of a ring are guessed easily.
    fd_ = open_private_file(name_, ring_.files != 0 ? Replace::kFile : Replace::kContents);
    buffer_ = head_;
    file_bytes_ = head_.size();
}

void CaptureFile::begin_block(std::size_t bytes) {
    if (buffer_.size() >= kWriteBytes) flush();
    if (ring_.files != 0 && file_bytes_ + bytes > ring_.bytes && file_bytes_ > head_.size()) {
        while (!buffer_.empty()) flush();
        open_next();
    }
    file_bytes_ += bytes;
}

void CaptureFile::add(const std::string& block) {
    begin_block(block.size());
    buffer_ += block;
}

void CaptureFile::add(const PcapngPacket& packet) {
    begin_block(pcapng_packet_bytes(packet));
    append_pcapng_packet(packet, buffer_);
}

void CaptureFile::finish() {
    // Who shares the descriptor, as the shell does with "-", has its flags back behind.
    const int flags = ::fcntl(fd_.get(), F_GETFL);
    (void)::fcntl(fd_.get(), F_SETFL, flags | O_NONBLOCK);
    const Rollback restore([&] { (void)::fcntl(fd_.get(), F_SETFL, flags); });
    while (!buffer_.empty()) flush();
}

void CaptureFile::flush() {
    std::size_t done = 0;
    while (done < buffer_.size()) {
        const ssize_t written = ::write(fd_.get(), buffer_.data() + done, buffer_.size() - done);
        if (written < 0 && errno == EINTR) break;
        if (written < 0 && errno == EAGAIN) {
            pollfd room{fd_.get(), POLLOUT, 0};
            if (::poll(&room, 1, kPatienceMs) == 0) {
                throw LaunchError(fmt::format("nobody reads {} any more: its last {} bytes are lost", name_,
                                              buffer_.size() - done));
            }
            continue;
        }
        if (written < 0 && errno == EPIPE) throw ReaderGone();
        if (written < 0) {
            throw LaunchError(
                fmt::format("{} cannot be written any more: {}. The capture has ended; what is in "
                            "the file is readable",
                            name_, std::strerror(errno)));
        }
        done += static_cast<std::size_t>(written);
    }
    buffer_.erase(0, done);
}

}  // namespace urnic::cli
