#include "daemon/control/status_request.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

namespace urnic::daemon {

namespace {

/// Pieces of a step: a megabyte at most, which takes a fraction of a millisecond.
constexpr std::size_t kPiecesPerStep = 64;

/// Writes some more of the text into the file. 0, kUnfinished or errno.
int write_some(StatusAnswer& answer) {
    const std::vector<std::string>& pieces = answer.text->pieces();
    std::array<iovec, kPiecesPerStep> parts{};
    const std::size_t count = std::min(parts.size(), pieces.size() - answer.num_written);
    ssize_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::string& piece = pieces[answer.num_written + i];
        parts[i] = {const_cast<char*>(piece.data()), piece.size()};
        bytes += static_cast<ssize_t>(piece.size());
    }
    const ssize_t written = ::writev(answer.file.get(), parts.data(), static_cast<int>(count));
    if (written != bytes) {
        return written < 0 ? errno : ENOSPC;
    }
    answer.num_written += count;
    return answer.num_written < pieces.size() ? kUnfinished : 0;
}

}  // namespace

int answer_status_request(const ControlState& control, StatusCache<StatusText>& cache, const User& user,
                          TimeNs now, const ClientFrom& client_from, const Request& request, Reply& reply,
                          std::unique_ptr<StatusAnswer>& answer) {
    if (request.length != sizeof(abi::StatusRequest) || !request.fds.empty()) {
        return EINVAL;
    }
    if (answer == nullptr) {
        UniqueFd file(::memfd_create("urnic-status", MFD_CLOEXEC));
        if (!file) {
            return errno;
        }
        answer = std::make_unique<StatusAnswer>();
        answer->file = std::move(file);
        answer->text =
            cache.text_for(user, now, [&] { return std::make_shared<StatusText>(control, user, now); });
    }
    if (!answer->text->is_whole()) {
        if (answer->text->write_some(client_from)) {
            return kUnfinished;
        }
        cache.keep(user, answer->text);
    }
    if (const int error = write_some(*answer); error != 0) {
        return error;
    }
    reply.set(abi::EmptyReply{});
    reply.give(std::move(answer->file));
    return 0;
}

}  // namespace urnic::daemon
