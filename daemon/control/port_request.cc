#include "daemon/control/port_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "daemon/state/port_state.h"

namespace urnic::daemon {

int answer_port_request(ControlState& control, User& user, const Request& request, Reply& reply) {
    if (request.length != sizeof(abi::PortRequest) || !request.fds.empty()) {
        return EINVAL;
    }
    const auto message = request.as<abi::PortRequest>();
    const std::string name(std::begin(message.device),
                           std::find(std::begin(message.device), std::end(message.device), '\0'));
    RnicState* device = control.find_device(name);
    if (device == nullptr) {
        std::string names;
        for (const auto& entry : control.devices) {
            names += (names.empty() ? "" : ", ") + entry->device->name;
        }
        return reply.refuse<abi::PortReply>(
            ENODEV, fmt::format("there is no RNIC \"{}\"; there are {}", name, names));
    }
    abi::PortReply body{};
    if (message.action != abi::PortAction::kQuery) {
        if (message.action != abi::PortAction::kDown && message.action != abi::PortAction::kUp) {
            return EINVAL;
        }
        // A port that goes down stops every user of the RNIC.
        if (!user.is_privileged()) {
            user.refuse("to change the state of {}: that is for root and the daemon's own user", name);
            return EPERM;
        }
        report_port(control, *device, PortFact::kWanted, message.action == abi::PortAction::kUp);
    }
    body.up = device->device->port_state.is_up() ? 1 : 0;
    reply.set(body);
    return 0;
}

}  // namespace urnic::daemon
