// What clients have, as JSON for `urnic status`.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/json_writer.h"
#include "daemon/control/qp_snapshot.h"
#include "daemon/state/control_state.h"
#include "daemon/verbs/client_state.h"

namespace urnic::daemon {

/// Writes how many objects the clients have on that device, as members of an object.
void write_object_counts(JsonWriter& json, const RnicState& device,
                         const std::vector<const ClientState*>& clients);
/// How many of their QPs a worker has.
[[nodiscard]] std::size_t count_qps(const std::vector<const ClientState*>& clients, std::uint32_t worker);
/// Writes one client with its objects; `qps`: its own.
void write_client(JsonWriter& json, const ClientState& client, std::span<const QpSnapshot> qps);

}  // namespace urnic::daemon
