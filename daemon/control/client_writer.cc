#include "daemon/control/client_writer.h"

#include <array>

#include "daemon/cm/client.h"

namespace urnic::daemon {

namespace {

/// An array of a client's, and the last table that it has objects of.
struct ObjectArray {
    const char* name;
    std::size_t last_table;
};
constexpr std::array kObjectArrays{ObjectArray{"qps", 1}, ObjectArray{"cqs", 2}, ObjectArray{"srqs", 3},
                                   ObjectArray{"mrs", 4}};

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

}  // namespace

void ClientWriter::enter(const ClientState& client) {
    json_.begin_object({});
    json_.value("id", client.id);
    json_.value("pid", client.pid);
    json_.value("uid", client.uid);
    json_.value("program", client.program);
    json_.value("registered_bytes", client.registered_bytes);
    json_.value("mcast_attachments", client.num_memberships);
    if (const CmClient* cm = client.cm.get(); cm != nullptr) {
        json_.value("cm_channels", cm->num_channels());
        json_.value("cm_ids", cm->num_ids());
        json_.value("cm_listeners", cm->num_listeners());
    }
    json_.begin_array(kObjectArrays.front().name);
}

void ClientWriter::visit(const ClientState& client, QpObject& qp, std::size_t /*table*/) {
    qps_.push_back(snapshot_of(client, qp));
}

void ClientWriter::visit(const ClientState& client, const XrcTargetObject& target, std::size_t /*table*/) {
    qps_.push_back(snapshot_of(client, target));
}

void ClientWriter::visit(const ClientState& /*client*/, const CqObject& cq, std::size_t /*table*/) {
    json_.object({}, [&] {
        json_.value("device", cq.context->device->device->name);
        json_.value("entries", cq.entries);
        json_.value("qps", cq.users);
        json_.value("overrun", cq.cq->overrun());
    });
}

void ClientWriter::visit(const ClientState& /*client*/, const SrqObject& srq, std::size_t /*table*/) {
    json_.object({}, [&] {
        json_.value("device", srq.pd->context->device->device->name);
        json_.value("number", srq.srq->identity().number);
        json_.value("type", srq.xrcd != nullptr ? "XRC" : "BASIC");
        json_.value("entries", srq.entries);
        json_.value("qps", srq.users);
        json_.value("worker", srq.worker);
    });
}

void ClientWriter::visit(const ClientState& /*client*/, const MrObject& mr, std::size_t /*table*/) {
    json_.object({}, [&] {
        json_.value("device", mr.pd->context->device->device->name);
        json_.value("addr", mr.addr);
        json_.value("length", mr.length_bytes);
        json_.value("converted", mr.window != nullptr);
    });
}

void ClientWriter::write_qps() {
    query_qps(control_, qps_);
    for (const QpSnapshot& qp : qps_) {
        json_.object({}, [&] {
            json_.value("device", qp.slot->device->name);
            json_.value("qpn", qp.slot->qp->qp_num());
            json_.value("type", type_name(qp.type));
            json_.value("state", qp_state_name(qp.attr.state));
            json_.value("peer_qpn", qp.attr.dest_qp_num);
            json_.value("sq_psn", qp.attr.sq_psn);  // of the next packet
            json_.value("rq_psn", qp.attr.rq_psn);
            json_.value("worker", qp.worker);
        });
    }
    qps_.clear();
}

void ClientWriter::leave_table(std::size_t index) {
    write_qps();
    for (std::size_t i = 0; i < kObjectArrays.size(); ++i) {
        if (kObjectArrays[i].last_table == index) {
            json_.end_array();
            if (i + 1 < kObjectArrays.size()) {
                json_.begin_array(kObjectArrays[i + 1].name);
            }
        }
    }
}

/// Of one that ended meanwhile, what is left is empty.
void ClientWriter::leave(std::size_t index) {
    for (std::size_t table = index; table < kNumTables; ++table) {
        leave_table(table);
    }
    json_.end_object();
}

}  // namespace urnic::daemon
