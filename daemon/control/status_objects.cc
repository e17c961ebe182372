#include "daemon/control/status_objects.h"

#include <algorithm>
#include <numeric>

#include "daemon/cm/client.h"

namespace urnic::daemon {

namespace {

const char* type_name(QpType type) {
    switch (type) {
        case QpType::kRc:
            return "RC";
        case QpType::kUc:
            return "UC";
        case QpType::kUd:
            return "UD";
        case QpType::kXrcSend:
            return "XRC_SEND";
        case QpType::kXrcRecv:
            return "XRC_RECV";
        default:
            return "?";
    }
}

const ContextObject& context_of(const CqObject& cq) { return *cq.context; }
const ContextObject& context_of(const PdObject& pd) { return *pd.context; }
const ContextObject& context_of(const DmObject& dm) { return *dm.context; }
const ContextObject& context_of(const XrcdObject& xrcd) { return *xrcd.context; }
const ContextObject& context_of(const XrcTargetObject& target) { return *target.xrcd->context; }
/// MRs, MWs, AHs, SRQs and QPs.
template <typename Object>
const ContextObject& context_of(const Object& in_pd) {
    return *in_pd.pd->context;
}

template <typename Object>
std::size_t count_on(const RnicState& device, const HandleTable<Object>& objects) {
    return static_cast<std::size_t>(std::count_if(objects.begin(), objects.end(), [&](const auto& entry) {
        return context_of(*entry.second).device == &device;
    }));
}

void write_qps(JsonWriter& json, std::span<const QpSnapshot> qps) {
    json.array("qps", [&] {
        for (const QpSnapshot& qp : qps) {
            json.object({}, [&] {
                json.value("device", qp.slot->device->name);
                json.value("qpn", qp.slot->qp->qp_num());
                json.value("type", type_name(qp.type));
                json.value("state", qp_state_name(qp.attr.state));
                json.value("peer_qpn", qp.attr.dest_qp_num);
                json.value("sq_psn", qp.attr.sq_psn);  // of the next packet
                json.value("rq_psn", qp.attr.rq_psn);
                json.value("worker", qp.worker);
            });
        }
    });
}

void write_objects(JsonWriter& json, const ClientState& client) {
    json.array("cqs", [&] {
        for (const auto& [handle, cq] : client.cqs) {
            json.object({}, [&, &cq = cq] {
                json.value("device", cq->context->device->device->name);
                json.value("entries", cq->entries);
                json.value("qps", cq->users);
                json.value("overrun", cq->cq->overrun());
            });
        }
    });
    json.array("srqs", [&] {
        for (const auto& [handle, srq] : client.srqs) {
            json.object({}, [&, &srq = srq] {
                json.value("device", srq->pd->context->device->device->name);
                json.value("number", srq->srq->identity().number);
                json.value("type", srq->xrcd != nullptr ? "XRC" : "BASIC");
                json.value("entries", srq->entries);
                json.value("qps", srq->users);
                json.value("worker", srq->worker);
            });
        }
    });
    json.array("mrs", [&] {
        for (const auto& [handle, mr] : client.mrs) {
            json.object({}, [&, &mr = mr] {
                json.value("device", mr->pd->context->device->device->name);
                json.value("addr", mr->addr);
                json.value("length", mr->length_bytes);
                json.value("converted", mr->window != nullptr);
            });
        }
    });
}

}  // namespace

void write_object_counts(JsonWriter& json, const RnicState& device,
                         const std::vector<const ClientState*>& clients) {
    const auto write = [&](const char* name, const auto& count_of) {
        json.value(name, std::accumulate(clients.begin(), clients.end(), std::size_t{0},
                                         [&](std::size_t sum, const ClientState* client) {
                                             return sum + count_of(*client);
                                         }));
    };
    const auto write_table = [&](const char* name, auto objects) {
        write(name, [&](const ClientState& client) { return count_on(device, client.*objects); });
    };
    write("qps", [&](const ClientState& client) {
        return count_on(device, client.qps) + count_on(device, client.xrc_targets);
    });
    write_table("cqs", &ClientState::cqs);
    write_table("mrs", &ClientState::mrs);
    write_table("pds", &ClientState::pds);
    write_table("ahs", &ClientState::ahs);
    write_table("mws", &ClientState::mws);
    write_table("dms", &ClientState::dms);
    write_table("srqs", &ClientState::srqs);
    write_table("xrc_domains", &ClientState::xrcds);
}

std::size_t count_qps(const std::vector<const ClientState*>& clients, std::uint32_t worker) {
    const QpSnapshots qps = list_qps(clients);
    return static_cast<std::size_t>(
        std::count_if(qps.begin(), qps.end(), [&](const QpSnapshot& qp) { return qp.worker == worker; }));
}

void write_client(JsonWriter& json, const ClientState& client, std::span<const QpSnapshot> qps) {
    json.object({}, [&] {
        json.value("id", client.id);
        json.value("pid", client.pid);
        json.value("uid", client.uid);
        json.value("program", client.program);
        json.value("registered_bytes", client.registered_bytes);
        json.value("mcast_attachments", client.num_memberships);
        if (const CmClient* cm = client.cm.get(); cm != nullptr) {
            json.value("cm_channels", cm->num_channels());
            json.value("cm_ids", cm->num_ids());
            json.value("cm_listeners", cm->num_listeners());
        }
        write_qps(json, qps);
        write_objects(json, client);
    });
}

}  // namespace urnic::daemon
