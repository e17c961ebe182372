#include "daemon/control/status_request.h"

#include <sys/mman.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "os/unique_fd.h"

namespace urnic::daemon {

namespace {

class StatusAnswer final : public LongAnswer {
  public:
    StatusAnswer(StatusCache<StatusText>& cache, const User& user, std::shared_ptr<StatusText> text,
                 UniqueFd file)
        : cache_(cache), user_(user), text_(std::move(text)), file_(std::move(file)) {}

    [[nodiscard]] int step(const ClientFrom& client_from, Reply& reply) override {
        if (!text_->is_whole()) {
            if (text_->write_some(client_from)) {
                return kUnfinished;
            }
            cache_.keep(user_, text_);
        }
        if (const int error = write_some(); error != 0) {
            return error;
        }
        reply.set(abi::EmptyReply{});
        reply.give(std::move(file_));
        return 0;
    }

  private:
    /// Pieces of a step: a megabyte at most, which takes a fraction of a millisecond.
    static constexpr std::size_t kPiecesPerStep = 64;

    /// Writes some more of the text into the file. 0, kUnfinished or errno.
    [[nodiscard]] int write_some() {
        const std::vector<std::string>& pieces = text_->pieces();
        std::array<iovec, kPiecesPerStep> parts{};
        const std::size_t count = std::min(parts.size(), pieces.size() - num_written_);
        ssize_t bytes = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const std::string& piece = pieces[num_written_ + i];
            parts[i] = {const_cast<char*>(piece.data()), piece.size()};
            bytes += static_cast<ssize_t>(piece.size());
        }
        const ssize_t written = ::writev(file_.get(), parts.data(), static_cast<int>(count));
        if (written != bytes) {
            return written < 0 ? errno : ENOSPC;
        }
        num_written_ += count;
        return num_written_ < pieces.size() ? kUnfinished : 0;
    }

    StatusCache<StatusText>& cache_;
    const User& user_;
    std::shared_ptr<StatusText> text_;
    UniqueFd file_;
    std::size_t num_written_ = 0;  // pieces of the text that are in the file
};

}  // namespace

int begin_status_answer(const ControlState& control, StatusCache<StatusText>& cache, const User& user,
                        TimeNs now, const Request& request, std::unique_ptr<LongAnswer>& answer) {
    if (request.length != sizeof(abi::StatusRequest) || !request.fds.empty()) {
        return EINVAL;
    }
    UniqueFd file(::memfd_create("urnic-status", MFD_CLOEXEC));
    if (!file) {
        return errno;
    }
    auto text = cache.text_for(user, now, [&] { return std::make_shared<StatusText>(control, user, now); });
    answer = std::make_unique<StatusAnswer>(cache, user, std::move(text), std::move(file));
    return 0;
}

}  // namespace urnic::daemon
