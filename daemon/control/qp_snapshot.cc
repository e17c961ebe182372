#include "daemon/control/qp_snapshot.h"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/control/exposition.h"

namespace urnic::daemon {

namespace {

void query_qp(QpSnapshot& snapshot) {
    const Qp& qp = *snapshot.slot->qp;
    qp.query(snapshot.attr);
    snapshot.path = qp.path();
    if (qp.config().congestion != nullptr) {
        snapshot.settings = qp.flow().settings();
        snapshot.rate = qp.flow().rate();
        snapshot.target = qp.flow().control().target();
        snapshot.alpha = qp.flow().control().alpha();
        snapshot.cnps = qp.flow().cnps();
    }
}

}  // namespace

std::string qp_labels(const QpSnapshot& qp) {
    return fmt::format("device=\"{}\",qpn=\"{:#x}\"", escaped_label(qp.slot->device->name),
                       qp.slot->qp->qp_num());
}

QpSnapshot snapshot_of(const ClientState& client, QpObject& qp) {
    return {.client = &client, .slot = &qp.slot, .type = qp.type, .worker = qp.worker};
}

QpSnapshot snapshot_of(const ClientState& client, const XrcTargetObject& qp) {
    return {.client = &client,
            .slot = &qp.target->slot,
            .type = QpType::kXrcRecv,
            .worker = qp.xrcd->domain->worker};
}

QpSnapshots list_qps(const std::vector<const ClientState*>& clients) {
    QpSnapshots qps;
    for (const ClientState* client : clients) {
        for (const auto& [handle, qp] : client->qps) {
            qps.push_back(snapshot_of(*client, *qp));
        }
        for (const auto& [handle, qp] : client->xrc_targets) {
            qps.push_back(snapshot_of(*client, *qp));
        }
    }
    return qps;
}

bool list_some_qps(const ClientFrom& client_from, std::size_t most, ObjectPosition& at, QpSnapshots& qps) {
    const auto add = [&](const ClientState& client, auto& qp) { qps.push_back(snapshot_of(client, qp)); };
    if (at.table == 0) {
        if (!visit_some(
                client_from, most, at, [](const ClientState& client) { return &client.qps; }, add)) {
            at = {.table = 1};
        }
        return true;
    }
    return visit_some(
        client_from, most, at, [](const ClientState& client) { return &client.xrc_targets; }, add);
}

void query_qps(const ControlState& control, QpSnapshots& qps) {
    for (std::uint32_t w = 0; w < control.num_workers(); ++w) {
        const auto is_here = [w](const QpSnapshot& qp) { return qp.worker == w; };
        if (std::none_of(qps.begin(), qps.end(), is_here)) {
            continue;
        }
        control.workers[w]->call([&] {
            for (QpSnapshot& qp : qps) {
                if (is_here(qp)) {
                    query_qp(qp);
                }
            }
        });
    }
}

}  // namespace urnic::daemon
