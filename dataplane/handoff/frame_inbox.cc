#include "dataplane/handoff/frame_inbox.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace urnic::dataplane {

FrameInbox::FrameInbox() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!fd_) {
        throw std::system_error(errno, std::generic_category(), "eventfd");
    }
}

bool FrameInbox::push(std::span<const std::byte> frame) {
    if (frame.size() > kFrameBytes) {
        return false;
    }
    Frame copy;
    copy.length = static_cast<std::uint16_t>(frame.size());
    std::memcpy(copy.bytes.data(), frame.data(), frame.size());
    const bool is_for_all = (copy.bytes[0] & std::byte{1}) != std::byte{0};  // IEEE 802: the group bit
    Frames& frames = is_for_all ? for_all_ : for_us_;
    const bool taken = frames.bounded_push(copy);
    // After the push: either the control thread, which takes the flag back before it looks, finds the frame,
    // or this finds the flag taken back.
    if (!signalled_.exchange(true)) {
        (void)::eventfd_write(fd_.get(), 1);
    }
    return taken;
}

void FrameInbox::wake_for_rest() {
    if ((!for_us_.empty() || !for_all_.empty()) && !signalled_.exchange(true)) {
        (void)::eventfd_write(fd_.get(), 1);
    }
}

void FrameInbox::acknowledge() {
    eventfd_t count = 0;
    (void)::eventfd_read(fd_.get(), &count);
    signalled_.exchange(false);
}

}  // namespace urnic::dataplane
