#include "daemon/control/netlink_answer.h"

#include <cstring>
#include <new>

#include "abi/netlink.h"

namespace urnic::daemon {

NetlinkAnswer::Message NetlinkAnswer::make(int type, int flags) const {
    Message message(nlmsg_alloc_size(abi::kMaxNetlinkBytes));
    if (message == nullptr ||
        nlmsg_put(message.get(), request_.nlmsg_pid, request_.nlmsg_seq, type, 0, flags) == nullptr) {
        throw std::bad_alloc();
    }
    return message;
}

NetlinkAnswer::Message NetlinkAnswer::begin() const {
    return make(request_.nlmsg_type, is_dump() ? NLM_F_MULTI : 0);
}

void NetlinkAnswer::add(const Message& message) {
    const nlmsghdr* header = nlmsg_hdr(message.get());
    bytes_.append(reinterpret_cast<const char*>(header), NLMSG_ALIGN(header->nlmsg_len));
}

void NetlinkAnswer::end_dump() {
    const Message message = make(NLMSG_DONE, NLM_F_MULTI);
    const int error = 0;
    (void)nlmsg_append(message.get(), const_cast<int*>(&error), sizeof error, NLMSG_ALIGNTO);
    add(message);
}

void NetlinkAnswer::acknowledge(int error) {
    if (error == 0 && (request_.nlmsg_flags & NLM_F_ACK) == 0) {
        return;
    }
    const Message message = make(NLMSG_ERROR, NLM_F_CAPPED);
    nlmsgerr body{-error, request_};
    (void)nlmsg_append(message.get(), &body, sizeof body, NLMSG_ALIGNTO);
    add(message);
}

}  // namespace urnic::daemon
