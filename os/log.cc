#include "os/log.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdint>
#include <iterator>
#include <mutex>

namespace urnic {

namespace {

/// A pipe that can be written to has room for so much (pipe(7)); a socket and a terminal, too.
constexpr std::size_t kMostLineBytes = PIPE_BUF;

bool has_room() {
    pollfd error{STDERR_FILENO, POLLOUT, 0};
    return ::poll(&error, 1, 0) == 1;
}

void write_some(std::string_view text) {
    (void)!::write(STDERR_FILENO, text.data(), std::min(text.size(), kMostLineBytes));
}

}  // namespace

void write_log_line(std::string_view line) {
    // Between the question and the answer no other thread takes the room.
    static std::mutex mutex;
    static std::uint64_t lost = 0;
    const std::lock_guard lock(mutex);
    if (!has_room()) {
        ++lost;
        return;
    }
    if (lost != 0) {
        std::array<char, 96> text;
        const auto end = fmt::format_to_n(
            text.begin(), text.size(),
            "urnicd: warning: {} messages before this one were lost, since nobody read stderr\n", lost);
        lost = 0;
        write_some({text.data(), std::min(end.size, text.size())});
        if (!has_room()) {
            ++lost;
            return;
        }
    }
    write_some(line);
}

}  // namespace urnic
