#include "daemon/control/netlink_objects.h"

#include <cstring>
#include <optional>

#include "daemon/cm/client.h"
#include "daemon/cm/service.h"
#include "daemon/control/long_answer.h"
#include "daemon/control/qp_snapshot.h"

namespace urnic::daemon {

namespace {

// <rdma/ib_verbs.h> of the kernel: ib_srq_type.
constexpr std::uint8_t kSrqBasic = 0;
constexpr std::uint8_t kSrqXrc = 1;

/// As many messages as the entries need.
class Entries {
  public:
    Entries(NetlinkAnswer& answer, const Question& question, int table, int entry)
        : answer_(answer), question_(question), table_type_(table), entry_type_(entry) {
        begin();
    }

    /// `put` puts the attributes of one entry into a message: false: they did not fit.
    template <typename Put>
    void add(const Put& put) {
        if (!try_add(put)) {
            end();
            begin();
            // An entry alone fits.
            (void)try_add(put);
        }
    }
    /// A message without entries is none.
    void end() {
        table_.reset();
        if (is_filled_) {
            answer_.add(message_);
        }
    }

  private:
    void begin() {
        message_ = answer_.begin();
        is_filled_ = false;
        (void)put_device(message_.get(), question_);
        table_.emplace(message_.get(), table_type_);
    }
    template <typename Put>
    bool try_add(const Put& put) {
        NetlinkNest entry(message_.get(), entry_type_);
        if (entry.is_open() && put(message_.get())) {
            is_filled_ = true;
            return true;
        }
        entry.cancel();
        return false;
    }

    NetlinkAnswer& answer_;
    const Question& question_;
    int table_type_;
    int entry_type_;
    NetlinkAnswer::Message message_;
    std::optional<NetlinkNest> table_;
    bool is_filled_ = false;
};

bool put_pid(nl_msg* to, const ClientState& client) {
    return nla_put_u32(to, RDMA_NLDEV_ATTR_RES_PID, static_cast<std::uint32_t>(client.pid)) == 0;
}

/// The attributes of a QP; its PD is not among them, because an XRC target has none.
bool put_qp(nl_msg* to, const QpSnapshot& qp) {
    const bool has_peer = qp.type != QpType::kUd;
    if (qp.attr.port_num != 0 && nla_put_u32(to, RDMA_NLDEV_ATTR_PORT_INDEX, qp.attr.port_num) != 0) {
        return false;
    }
    if (has_peer && !have_put({nla_put_u32(to, RDMA_NLDEV_ATTR_RES_RQPN, qp.attr.dest_qp_num),
                               nla_put_u32(to, RDMA_NLDEV_ATTR_RES_RQ_PSN, qp.attr.rq_psn)})) {
        return false;
    }
    return have_put({nla_put_u32(to, RDMA_NLDEV_ATTR_RES_LQPN, qp.slot->qp->qp_num()),
                     nla_put_u32(to, RDMA_NLDEV_ATTR_RES_SQ_PSN, qp.attr.sq_psn),
                     nla_put_u8(to, RDMA_NLDEV_ATTR_RES_TYPE, static_cast<std::uint8_t>(qp.type)),
                     nla_put_u8(to, RDMA_NLDEV_ATTR_RES_STATE, static_cast<std::uint8_t>(qp.attr.state))}) &&
           put_pid(to, *qp.client);
}

}  // namespace

const HandleTable<CmId>* cm_ids_of(const ClientState& client) {
    return client.cm == nullptr ? nullptr : &client.cm->ids();
}

bool add_qp_entries(NetlinkAnswer& answer, const Question& question, const ClientFrom& client_from,
                    ObjectPosition& at) {
    QpSnapshots qps;
    const bool has_more = list_some_qps(client_from, LongAnswer::kObjectsPerStep, at, qps);
    std::erase_if(qps, [&](const QpSnapshot& qp) { return qp.slot->device != question.rnic().device; });
    query_qps(question.control, qps);
    Entries entries(answer, question, RDMA_NLDEV_ATTR_RES_QP, RDMA_NLDEV_ATTR_RES_QP_ENTRY);
    for (const QpSnapshot& qp : qps) {
        // In RESET a QP is of no port.
        if (!question.has_port || qp.attr.port_num == kPortNumber) {
            entries.add([&](nl_msg* to) { return put_qp(to, qp); });
        }
    }
    entries.end();
    return has_more;
}

namespace {

/// Of what one command is about.
struct EntryTypes {
    int table;
    int entry;
};

/// `put(message, object)` puts what is of this kind; the process is put as well.
template <typename Table, typename ContextOf, typename Put>
bool add_objects(NetlinkAnswer& answer, const Question& question, const ClientFrom& client_from,
                 ObjectPosition& at, EntryTypes types, Table ClientState::*objects,
                 const ContextOf& context_of, const Put& put) {
    Entries entries(answer, question, types.table, types.entry);
    const bool has_more = visit_some(
        client_from, LongAnswer::kObjectsPerStep, at,
        [&](const ClientState& client) { return &(client.*objects); },
        [&](const ClientState& client, const auto& object) {
            if (context_of(object)->device == &question.rnic()) {
                entries.add([&](nl_msg* to) { return put(to, object) && put_pid(to, client); });
            }
        });
    entries.end();
    return has_more;
}

}  // namespace

bool add_cq_entries(NetlinkAnswer& answer, const Question& question, const ClientFrom& client_from,
                    ObjectPosition& at) {
    return add_objects(
        answer, question, client_from, at, {RDMA_NLDEV_ATTR_RES_CQ, RDMA_NLDEV_ATTR_RES_CQ_ENTRY},
        &ClientState::cqs, [](const CqObject& cq) { return cq.context; },
        [](nl_msg* to, const CqObject& cq) {
            return have_put({nla_put_u32(to, RDMA_NLDEV_ATTR_RES_CQE, cq.entries),
                             nla_put_u64(to, RDMA_NLDEV_ATTR_RES_USECNT, cq.users)});
        });
}

bool add_mr_entries(NetlinkAnswer& answer, const Question& question, const ClientFrom& client_from,
                    ObjectPosition& at) {
    return add_objects(
        answer, question, client_from, at, {RDMA_NLDEV_ATTR_RES_MR, RDMA_NLDEV_ATTR_RES_MR_ENTRY},
        &ClientState::mrs, [](const MrObject& mr) { return mr.pd->context; },
        [](nl_msg* to, const MrObject& mr) {
            return have_put({nla_put_u64(to, RDMA_NLDEV_ATTR_RES_MRLEN, mr.length_bytes),
                             nla_put_u32(to, RDMA_NLDEV_ATTR_RES_PDN, mr.pd->number)});
        });
}

bool add_pd_entries(NetlinkAnswer& answer, const Question& question, const ClientFrom& client_from,
                    ObjectPosition& at) {
    return add_objects(
        answer, question, client_from, at, {RDMA_NLDEV_ATTR_RES_PD, RDMA_NLDEV_ATTR_RES_PD_ENTRY},
        &ClientState::pds, [](const PdObject& pd) { return pd.context; },
        [](nl_msg* to, const PdObject& pd) {
            return have_put({nla_put_u64(to, RDMA_NLDEV_ATTR_RES_USECNT, pd.users),
                             nla_put_u32(to, RDMA_NLDEV_ATTR_RES_PDN, pd.number)});
        });
}

bool add_srq_entries(NetlinkAnswer& answer, const Question& question, const ClientFrom& client_from,
                     ObjectPosition& at) {
    return add_objects(
        answer, question, client_from, at, {RDMA_NLDEV_ATTR_RES_SRQ, RDMA_NLDEV_ATTR_RES_SRQ_ENTRY},
        &ClientState::srqs, [](const SrqObject& srq) { return srq.pd->context; },
        [](nl_msg* to, const SrqObject& srq) {
            return have_put(
                {nla_put_u32(to, RDMA_NLDEV_ATTR_RES_SRQN, srq.srq->identity().number),
                 nla_put_u8(to, RDMA_NLDEV_ATTR_RES_TYPE, srq.xrcd != nullptr ? kSrqXrc : kSrqBasic),
                 nla_put_u32(to, RDMA_NLDEV_ATTR_RES_PDN, srq.pd->number)});
        });
}

namespace {

/// Where the kernel has an id in rdma_cm_state.
std::uint8_t kernel_state_of(CmId::State state) {
    enum : std::uint8_t {
        kIdle = 0,
        kAddrResolved = 2,
        kRouteQuery = 3,
        kRouteResolved = 4,
        kConnect = 5,
        kDisconnect = 6,
        kAddrBound = 7,
        kListen = 8,
    };
    switch (state) {
        case CmId::State::kIdle:
            return kIdle;
        case CmId::State::kBound:
            return kAddrBound;
        case CmId::State::kAddrResolved:
            return kAddrResolved;
        case CmId::State::kAsksForRoute:
            return kRouteQuery;
        case CmId::State::kRouteResolved:
            return kRouteResolved;
        case CmId::State::kConnecting:
            return kConnect;
        case CmId::State::kDisconnected:
            return kDisconnect;
        case CmId::State::kListening:
            return kListen;
    }
    return kIdle;
}

/// The kernel's sockaddr_storage; none of an address that is not set.
bool put_endpoint(nl_msg* to, int type, const Endpoint& endpoint) {
    if (!endpoint.is_set()) {
        return true;
    }
    __kernel_sockaddr_storage storage{};
    (void)write_address(endpoint, storage);
    return nla_put(to, type, sizeof storage, &storage) == 0;
}

bool put_cm_id(nl_msg* to, const Question& question, const CmId& id) {
    const bool is_bound = id.device != nullptr;
    const cm::ConnectionInfo info =
        is_bound && id.connection != 0
            ? question.control.cm->manager(question.rnic()).info(id.connection).value_or(cm::ConnectionInfo{})
            : cm::ConnectionInfo{};
    if (is_bound && nla_put_u32(to, RDMA_NLDEV_ATTR_PORT_INDEX, kPortNumber) != 0) {
        return false;
    }
    if (info.local_qpn != 0 &&
        !have_put({nla_put_u32(to, RDMA_NLDEV_ATTR_RES_LQPN, info.local_qpn),
                   nla_put_u8(to, RDMA_NLDEV_ATTR_RES_TYPE, static_cast<std::uint8_t>(id.qp_type))})) {
        return false;
    }
    return have_put({nla_put_u32(to, RDMA_NLDEV_ATTR_RES_PS, id.space),
                     nla_put_u8(to, RDMA_NLDEV_ATTR_RES_STATE, kernel_state_of(id.state)),
                     nla_put_u32(to, RDMA_NLDEV_ATTR_RES_CM_IDN, id.handle)}) &&
           put_endpoint(to, RDMA_NLDEV_ATTR_RES_SRC_ADDR, id.local.at) &&
           put_endpoint(to, RDMA_NLDEV_ATTR_RES_DST_ADDR, id.remote);
}

}  // namespace

bool add_cm_id_entries(NetlinkAnswer& answer, const Question& question, const ClientFrom& client_from,
                       ObjectPosition& at) {
    Entries entries(answer, question, RDMA_NLDEV_ATTR_RES_CM_ID, RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY);
    const bool has_more = visit_some(
        client_from, LongAnswer::kObjectsPerStep, at, cm_ids_of,
        [&](const ClientState& client, const CmId& id) {
            // One without an RNIC of its own is of no port.
            if (is_on(id, question.rnic()) && (!question.has_port || id.device != nullptr)) {
                entries.add([&](nl_msg* to) { return put_cm_id(to, question, id) && put_pid(to, client); });
            }
        });
    entries.end();
    return has_more;
}

}  // namespace urnic::daemon
