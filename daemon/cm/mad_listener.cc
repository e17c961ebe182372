#include "daemon/cm/mad_listener.h"

#include <cstdint>
#include <memory>
#include <new>

#include "dataplane/handoff/mad_inbox.h"

namespace urnic::daemon {

namespace {

constexpr std::uint32_t kMadsPerRound = 256;  // of a device, before requests have their turn

using MadHandler = std::function<void(RnicState&, const ReceivedMad&)>;

/// At most as many as fit into the inbox: who floods it keeps nobody else waiting.
void take_mads(RnicState& device, const MadHandler& handle) {
    device.mads->acknowledge();
    ReceivedMad mad;
    for (std::uint32_t taken = 0; taken < kMadsPerRound && device.mads->pop(mad); ++taken) {
        try {
            handle(device, mad);
        } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): lost, as any datagram may be
        }
    }
    device.mads->wake_for_rest();
}

}  // namespace

void listen_for_mads(ControlState& control, const MadHandler& handle) {
    for (const auto& entry : control.devices) {
        entry->mads = std::make_unique<dataplane::MadInbox>();
        entry->device->mads = entry->mads.get();
        control.event_loop.add(entry->mads->fd(), [handle, rnic = entry.get()] { take_mads(*rnic, handle); });
    }
}

}  // namespace urnic::daemon
