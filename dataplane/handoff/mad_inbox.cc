#include "dataplane/handoff/mad_inbox.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <system_error>

namespace urnic::dataplane {

MadInbox::MadInbox() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!fd_) {
        throw std::system_error(errno, std::generic_category(), "eventfd");
    }
}

bool MadInbox::push(const ReceivedMad& mad) {
    const bool taken = mads_.push(mad);
    // After the push: either the control thread, which takes the flag back before it looks, finds the MAD, or
    // this finds the flag taken back.
    if (!signalled_.exchange(true)) {
        (void)::eventfd_write(fd_.get(), 1);
    }
    return taken;
}

void MadInbox::wake_for_rest() {
    if (mads_.read_available() != 0 && !signalled_.exchange(true)) {
        (void)::eventfd_write(fd_.get(), 1);
    }
}

void MadInbox::acknowledge() {
    eventfd_t count = 0;
    (void)::eventfd_read(fd_.get(), &count);
    signalled_.exchange(false);
}

}  // namespace urnic::dataplane
