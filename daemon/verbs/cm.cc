// librdmacm's commands of a client. They need no Hello to have opened a device; what they do is in cm/.
#include <cerrno>

#include "daemon/cm/client.h"
#include "daemon/verbs/client.h"

namespace urnic::dataplane {

int Client::open_cm_channel(const abi::OpenCmChannelRequest& /*request*/, Request& /*message*/,
                            Reply& reply) {
    if (control_.cm == nullptr) {
        return EOPNOTSUPP;
    }
    if (!cm_) {
        cm_ = std::make_unique<CmClient>(*control_.cm, uid_ == 0);
    }
    abi::HandleReply body{};
    int reader = -1;
    if (const int error = cm_->open_channel(body.handle, reader); error != 0) {
        return error;
    }
    reply.set(body);
    reply.fds.push_back(reader);
    return 0;
}

int Client::close_cm_channel(const abi::HandleRequest& request, Request& /*message*/, Reply& /*reply*/) {
    return cm_ ? cm_->close_channel(request.handle) : ENOENT;
}

int Client::cm_command(const abi::CmCommandRequest& request, Request& /*message*/, Reply& reply) {
    if (!cm_) {
        return EINVAL;
    }
    abi::CmCommandReply body{};
    const int error = cm_->command(request, body);
    reply.set(body);
    return error;
}

}  // namespace urnic::dataplane
