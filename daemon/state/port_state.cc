#include "daemon/state/port_state.h"

#include "daemon/state/control_state.h"
#include "os/log.h"

namespace urnic::daemon {

namespace {

bool& place_of(dataplane::PortState& state, PortFact fact) {
    switch (fact) {
        case PortFact::kWanted:
            return state.wanted;
        case PortFact::kLink:
            return state.link;
        case PortFact::kManaged:
            return state.managed;
        case PortFact::kPresent:
            break;
    }
    return state.present;
}

const char* reason(const dataplane::PortState& state) {
    if (!state.wanted) {
        return " as an operator wants it";
    }
    return !state.present ? ": its NIC or interface is gone"
           : !state.link  ? ": no link"
                          : ": its subnet manager has not made it active";
}

}  // namespace

void report_port(ControlState& control, RnicState& device, PortFact fact, bool value) {
    dataplane::PortState& state = device.device->port_state;
    const bool was_up = state.is_up();
    const bool had_link = state.has_link();
    place_of(state, fact) = value;
    if (state.has_link() != had_link) {
        for (RnicObserver* observer : control.observers) {
            observer->on_link(device, state.has_link());
        }
    }
    const bool up = state.is_up();
    if (up == was_up) {
        return;
    }
    for (const auto& worker : control.workers) {
        worker->call([&] { worker->set_port(device.device->index, up); });
    }
    log_info("the port of {} is {}{}", device.device->name, up ? "up" : "down", up ? "" : reason(state));
    for (RnicObserver* observer : control.observers) {
        observer->on_port_state(device, up);
    }
}

}  // namespace urnic::daemon
