// What status and congestion requests show of the clients' QPs, read on each QP's own worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/fraction.h"
#include "congestion/settings.h"
#include "daemon/control/object_walk.h"
#include "daemon/state/control_state.h"
#include "daemon/verbs/client_state.h"

namespace urnic::daemon {

struct QpSnapshot {
    const ClientState* client = nullptr;
    dataplane::QpSlot* slot = nullptr;
    QpType type = QpType::kRc;
    std::uint32_t worker = 0;
    // From here on: as of query_qps().
    abi::QpAttr attr{};
    wire::Path path{};
    const congestion::Settings* settings = nullptr;  // nullptr: the QP has no rate
    BitsPerSecond rate = 0;
    BitsPerSecond target = 0;
    Fraction alpha;
    std::uint64_t cnps = 0;
};
using QpSnapshots = std::vector<QpSnapshot>;
/// What tells its series apart on the page of metrics.
[[nodiscard]] std::string qp_labels(const QpSnapshot& qp);

[[nodiscard]] QpSnapshot snapshot_of(const ClientState& client, QpObject& qp);
[[nodiscard]] QpSnapshot snapshot_of(const ClientState& client, const XrcTargetObject& qp);

/// The QPs of each client, in the order of the clients. An XRC target QP is there for each client that has a
/// handle to it.
[[nodiscard]] QpSnapshots list_qps(const std::vector<const ClientState*>& clients);

/// Adds the next `most` of them at most, those that are XRC targets in the end. Returns whether there may be
/// more.
[[nodiscard]] bool list_some_qps(const ClientFrom& client_from, std::size_t most, ObjectPosition& at,
                                 QpSnapshots& qps);

/// Reads the QPs, with one call for each worker that has any.
void query_qps(const ControlState& control, QpSnapshots& qps);

}  // namespace urnic::daemon
