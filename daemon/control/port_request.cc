#include "daemon/control/port_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "daemon/state/port_state.h"

namespace urnic::daemon {

namespace {

/// The port of a switch, and the network that it is in.
struct Trunk {
    const EmulatedNetworkInfo* network = nullptr;
    std::uint32_t port = 0;
};

/// "FABRIC:s1>s2": a link between the switches of an emulated subnet.
Trunk find_trunk(const ControlState& control, const std::string& name) {
    for (const EmulatedNetworkInfo& network : control.networks) {
        for (std::size_t i = 0; network.set_link && i < network.trunks.size(); ++i) {
            if (network.fabric + ":" + network.trunks[i] == name) {
                return {&network, static_cast<std::uint32_t>(network.devices.size() + i)};
            }
        }
    }
    return {};
}

int answer_trunk_request(ControlState& control, User& user, const Trunk& trunk, abi::PortAction action,
                         Reply& reply) {
    if (action != abi::PortAction::kQuery) {
        if (action != abi::PortAction::kDown && action != abi::PortAction::kUp) {
            return EINVAL;
        }
        if (!user.is_privileged()) {
            user.refuse("to change the state of a link: that is for root and the daemon's own user");
            return EPERM;
        }
        trunk.network->set_link(trunk.port, action == abi::PortAction::kUp);
    }
    abi::PortReply body{};
    control.workers[0]->call(
        [&] { body.up = trunk.network->view(trunk.port).state == netsim::IbPortState::kDown ? 0 : 1; });
    reply.set(body);
    return 0;
}

}  // namespace

int answer_port_request(ControlState& control, User& user, const Request& request, Reply& reply) {
    if (request.length != sizeof(abi::PortRequest) || !request.fds.empty()) {
        return EINVAL;
    }
    const auto message = request.as<abi::PortRequest>();
    const std::string name(std::begin(message.device),
                           std::find(std::begin(message.device), std::end(message.device), '\0'));
    RnicState* device = control.find_device(name);
    if (const Trunk trunk = find_trunk(control, name); device == nullptr && trunk.network != nullptr) {
        return answer_trunk_request(control, user, trunk, message.action, reply);
    }
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
