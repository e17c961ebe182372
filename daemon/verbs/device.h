// Contexts and protection domains of a client, for its other objects.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/verbs/client_state.h"

namespace urnic::daemon {

/// A context with an event socket, whose other end goes with the reply. 0 or errno.
[[nodiscard]] int make_context(const ClientState& client, RnicState& device,
                               std::unique_ptr<ContextObject>& context, Reply& reply);
/// Afterwards nobody finds the context by its command fd.
void forget_context(ClientState& client, const ContextObject& context);
/// Adds a PD of that number, a new one or one that another client has, too. 0 or errno.
[[nodiscard]] int add_pd(ClientState& client, ContextObject& context, PdNumbers::Number number, Reply& reply);
/// ibv_port_state.
[[nodiscard]] std::uint8_t port_state_of(const dataplane::Device& device);
/// Raises an event of the port in every context of the device.
void raise_port_event(const ClientState& client, const RnicState& device, AsyncEventType type);
/// Ends some PDs and channels of a context, of all for nullptr; nothing uses them any more. Returns whether
/// there were any.
[[nodiscard]] bool remove_pds_and_channels(ClientState& client, const ContextObject* context);

}  // namespace urnic::daemon
