#include "daemon/control/netlink_request.h"

#include <rdma/rdma_netlink.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "abi/netlink.h"
#include "daemon/control/netlink_answer.h"
#include "daemon/control/port_counters.h"
#include "daemon/control/qp_snapshot.h"
#include "daemon/verbs/client_state.h"
#include "daemon/verbs/device.h"

namespace urnic::daemon {

namespace {

// <rdma/ib_verbs.h> of the kernel: RDMA_NODE_IB_CA, ib_srq_type.
constexpr std::uint8_t kNodeTypeCa = 1;
constexpr std::uint8_t kSrqBasic = 0;
constexpr std::uint8_t kSrqXrc = 1;
constexpr std::uint32_t kPortNumber = 1;

/// What one request is about.
struct Question {
    const ControlState& control;
    const std::vector<const ClientState*>& clients;
    std::uint32_t index = 0;  // of the RNIC
    bool has_port = false;

    [[nodiscard]] const RnicState& rnic() const { return *control.devices[index]; }
    [[nodiscard]] const dataplane::Device& device() const { return *rnic().device; }
};

/// Returns whether all of them did.
bool have_put(std::initializer_list<int> results) {
    return std::all_of(results.begin(), results.end(), [](int result) { return result == 0; });
}

bool put_device(nl_msg* to, const Question& question) {
    return have_put({nla_put_u32(to, RDMA_NLDEV_ATTR_DEV_INDEX, question.index),
                     nla_put_string(to, RDMA_NLDEV_ATTR_DEV_NAME, question.device().name.c_str())});
}

/// GUIDs lie in network order; the attribute is a number.
std::uint64_t guid_value(std::uint64_t guid) {
    return std::endian::native == std::endian::little ? __builtin_bswap64(guid) : guid;
}

// --- messages about one RNIC

bool put_node(nl_msg* to, const Question& question) {
    const dataplane::Device& device = question.device();
    const std::uint64_t guid = guid_value(device.node_guid);
    return put_device(to, question) &&
           have_put(
               {// Of this command alone the number of ports.
                nla_put_u32(to, RDMA_NLDEV_ATTR_PORT_INDEX, device.caps.num_ports),
                nla_put_string(to, RDMA_NLDEV_ATTR_FW_VERSION, question.control.version.c_str()),
                nla_put_u64(to, RDMA_NLDEV_ATTR_NODE_GUID, guid),
                nla_put_u64(to, RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, guid),
                nla_put_u8(to, RDMA_NLDEV_ATTR_DEV_NODE_TYPE, kNodeTypeCa),
                nla_put_string(to, RDMA_NLDEV_ATTR_DEV_PROTOCOL, device.is_infiniband() ? "ib" : "roce")});
}

bool put_port(nl_msg* to, const Question& question) {
    const dataplane::Device& device = question.device();
    if (!put_device(to, question) || nla_put_u32(to, RDMA_NLDEV_ATTR_PORT_INDEX, kPortNumber) != 0) {
        return false;
    }
    if (device.is_infiniband()) {
        std::uint64_t prefix = 0;
        std::memcpy(&prefix, device.gids[0].data(), sizeof prefix);
        const bool is_put =
            have_put({nla_put_u64(to, RDMA_NLDEV_ATTR_CAP_FLAGS, device.subnet.capability_mask),
                      nla_put_u64(to, RDMA_NLDEV_ATTR_SUBNET_PREFIX, guid_value(prefix)),
                      nla_put_u32(to, RDMA_NLDEV_ATTR_LID, device.subnet.lid),
                      nla_put_u32(to, RDMA_NLDEV_ATTR_SM_LID, device.subnet.sm_lid),
                      nla_put_u8(to, RDMA_NLDEV_ATTR_LMC, device.subnet.lmc)});
        if (!is_put) {
            return false;
        }
    }
    return have_put({nla_put_u8(to, RDMA_NLDEV_ATTR_PORT_STATE, port_state_of(device)),
                     nla_put_u8(to, RDMA_NLDEV_ATTR_PORT_PHYS_STATE,
                                static_cast<std::uint8_t>(device.port_state.phys()))});
}

/// Of what the asker may see.
bool put_summary(nl_msg* to, const Question& question) {
    const auto is_here = [&](const ContextObject& context) { return context.device == &question.rnic(); };
    std::uint64_t pds = 0;
    std::uint64_t cqs = 0;
    std::uint64_t qps = 0;
    std::uint64_t mrs = 0;
    std::uint64_t contexts = 0;
    std::uint64_t srqs = 0;
    for (const ClientState* client : question.clients) {
        for (const auto& [handle, pd] : client->pds) pds += is_here(*pd->context) ? 1 : 0;
        for (const auto& [handle, cq] : client->cqs) cqs += is_here(*cq->context) ? 1 : 0;
        for (const auto& [handle, qp] : client->qps) qps += is_here(*qp->pd->context) ? 1 : 0;
        for (const auto& [handle, qp] : client->xrc_targets) qps += is_here(*qp->xrcd->context) ? 1 : 0;
        for (const auto& [handle, mr] : client->mrs) mrs += is_here(*mr->pd->context) ? 1 : 0;
        for (const auto& [handle, context] : client->contexts) contexts += is_here(*context) ? 1 : 0;
        for (const auto& [handle, srq] : client->srqs) srqs += is_here(*srq->pd->context) ? 1 : 0;
    }
    const std::array<std::pair<const char*, std::uint64_t>, 6> counts{
        {{"pd", pds}, {"cq", cqs}, {"qp", qps}, {"mr", mrs}, {"ctx", contexts}, {"srq", srqs}}};
    if (!put_device(to, question)) {
        return false;
    }
    const NetlinkNest summary(to, RDMA_NLDEV_ATTR_RES_SUMMARY);
    return std::all_of(counts.begin(), counts.end(), [&](const auto& count) {
        const NetlinkNest entry(to, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY);
        return entry.is_open() &&
               have_put({nla_put_string(to, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, count.first),
                         nla_put_u64(to, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, count.second)});
    });
}

bool put_counters(nl_msg* to, const Question& question) {
    if (!put_device(to, question) || nla_put_u32(to, RDMA_NLDEV_ATTR_PORT_INDEX, kPortNumber) != 0) {
        return false;
    }
    const auto sums = sum_counters(question.device(), question.control.num_workers());
    bool is_put = true;
    const NetlinkNest counters(to, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
    for_each_counter(question.device().counters[0], [&](const char* name, std::uint64_t /*of_one_worker*/) {
        const NetlinkNest entry(to, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY);
        is_put = is_put && entry.is_open() &&
                 have_put({nla_put_string(to, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, name),
                           nla_put_u64(to, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, sums.at(name))});
    });
    return is_put;
}

// --- messages with entries, one for each object of the asker's on an RNIC

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

void add_qps(NetlinkAnswer& answer, const Question& question) {
    QpSnapshots qps = list_qps(question.clients);
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
}

/// `put(message, object)` puts what is of this kind; the process is put as well.
template <typename Table, typename ContextOf, typename Put>
void add_objects(NetlinkAnswer& answer, const Question& question, int table, int entry,
                 Table ClientState::*objects, const ContextOf& context_of, const Put& put) {
    Entries entries(answer, question, table, entry);
    for (const ClientState* client : question.clients) {
        for (const auto& [handle, object] : client->*objects) {
            if (context_of(*object)->device == &question.rnic()) {
                entries.add(
                    [&, &object = object](nl_msg* to) { return put(to, *object) && put_pid(to, *client); });
            }
        }
    }
    entries.end();
}

void add_cqs(NetlinkAnswer& answer, const Question& question) {
    add_objects(
        answer, question, RDMA_NLDEV_ATTR_RES_CQ, RDMA_NLDEV_ATTR_RES_CQ_ENTRY, &ClientState::cqs,
        [](const CqObject& cq) { return cq.context; },
        [](nl_msg* to, const CqObject& cq) {
            return have_put({nla_put_u32(to, RDMA_NLDEV_ATTR_RES_CQE, cq.entries),
                             nla_put_u64(to, RDMA_NLDEV_ATTR_RES_USECNT, cq.users)});
        });
}

/// Without keys and addresses, which the kernel gives to CAP_NET_ADMIN alone.
void add_mrs(NetlinkAnswer& answer, const Question& question) {
    add_objects(
        answer, question, RDMA_NLDEV_ATTR_RES_MR, RDMA_NLDEV_ATTR_RES_MR_ENTRY, &ClientState::mrs,
        [](const MrObject& mr) { return mr.pd->context; },
        [](nl_msg* to, const MrObject& mr) {
            return have_put({nla_put_u64(to, RDMA_NLDEV_ATTR_RES_MRLEN, mr.length_bytes),
                             nla_put_u32(to, RDMA_NLDEV_ATTR_RES_PDN, mr.pd->number)});
        });
}

void add_pds(NetlinkAnswer& answer, const Question& question) {
    add_objects(
        answer, question, RDMA_NLDEV_ATTR_RES_PD, RDMA_NLDEV_ATTR_RES_PD_ENTRY, &ClientState::pds,
        [](const PdObject& pd) { return pd.context; },
        [](nl_msg* to, const PdObject& pd) {
            return have_put({nla_put_u64(to, RDMA_NLDEV_ATTR_RES_USECNT, pd.users),
                             nla_put_u32(to, RDMA_NLDEV_ATTR_RES_PDN, pd.number)});
        });
}

void add_srqs(NetlinkAnswer& answer, const Question& question) {
    add_objects(
        answer, question, RDMA_NLDEV_ATTR_RES_SRQ, RDMA_NLDEV_ATTR_RES_SRQ_ENTRY, &ClientState::srqs,
        [](const SrqObject& srq) { return srq.pd->context; },
        [](nl_msg* to, const SrqObject& srq) {
            return have_put(
                {nla_put_u32(to, RDMA_NLDEV_ATTR_RES_SRQN, srq.srq->identity().number),
                 nla_put_u8(to, RDMA_NLDEV_ATTR_RES_TYPE, srq.xrcd != nullptr ? kSrqXrc : kSrqBasic),
                 nla_put_u32(to, RDMA_NLDEV_ATTR_RES_PDN, srq.pd->number)});
        });
}

// --- requests

using PutOne = bool (*)(nl_msg* to, const Question& question);
using AddAll = void (*)(NetlinkAnswer& answer, const Question& question);

/// Has one of the two.
struct NetlinkCommand {
    std::uint32_t number;
    PutOne put_one;  // a message for an RNIC, or for each
    AddAll add_all;  // a dump for one
};
constexpr std::array kCommands{
    NetlinkCommand{RDMA_NLDEV_CMD_GET, put_node, nullptr},
    NetlinkCommand{RDMA_NLDEV_CMD_PORT_GET, put_port, nullptr},
    NetlinkCommand{RDMA_NLDEV_CMD_RES_GET, put_summary, nullptr},
    NetlinkCommand{RDMA_NLDEV_CMD_STAT_GET, put_counters, nullptr},
    NetlinkCommand{RDMA_NLDEV_CMD_RES_QP_GET, nullptr, add_qps},
    NetlinkCommand{RDMA_NLDEV_CMD_RES_CQ_GET, nullptr, add_cqs},
    NetlinkCommand{RDMA_NLDEV_CMD_RES_MR_GET, nullptr, add_mrs},
    NetlinkCommand{RDMA_NLDEV_CMD_RES_PD_GET, nullptr, add_pds},
    NetlinkCommand{RDMA_NLDEV_CMD_RES_SRQ_GET, nullptr, add_srqs},
};

const NetlinkCommand* find_command(std::uint16_t type) {
    const auto* const found =
        std::find_if(kCommands.begin(), kCommands.end(), [&](const NetlinkCommand& command) {
            return RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command.number) == type;
        });
    return found == kCommands.end() ? nullptr : found;
}

void put_messages(NetlinkAnswer& answer, Question question, const NetlinkCommand& command, bool is_of_one) {
    const std::uint32_t begin = is_of_one ? question.index : 0;
    const auto end = is_of_one ? begin + 1 : static_cast<std::uint32_t>(question.control.devices.size());
    for (question.index = begin; question.index < end; ++question.index) {
        const NetlinkAnswer::Message message = answer.begin();
        // Names are short, and so are the answers.
        if (command.put_one(message.get(), question)) {
            answer.add(message);
        }
    }
}

/// 0 or what the message says of the error (errno).
int answer_message(NetlinkAnswer& answer, Question question, nlmsghdr* message) {
    const NetlinkCommand* const command = find_command(message->nlmsg_type);
    if (command == nullptr) {
        return EOPNOTSUPP;
    }
    nla_policy policy[RDMA_NLDEV_ATTR_MAX]{};
    policy[RDMA_NLDEV_ATTR_DEV_INDEX].type = NLA_U32;
    policy[RDMA_NLDEV_ATTR_PORT_INDEX].type = NLA_U32;
    nlattr* attributes[RDMA_NLDEV_ATTR_MAX]{};
    if (nlmsg_parse(message, 0, attributes, RDMA_NLDEV_ATTR_MAX - 1, policy) < 0) {
        return EINVAL;
    }
    const nlattr* const index = attributes[RDMA_NLDEV_ATTR_DEV_INDEX];
    const nlattr* const port = attributes[RDMA_NLDEV_ATTR_PORT_INDEX];
    if (index != nullptr) {
        question.index = nla_get_u32(index);
        if (question.index >= question.control.devices.size()) {
            return ENODEV;
        }
    }
    question.has_port = port != nullptr;
    if (port != nullptr && nla_get_u32(port) != kPortNumber) {
        return EINVAL;
    }
    const bool is_of_objects = attributes[RDMA_NLDEV_ATTR_STAT_RES] != nullptr;
    // `rdma` takes dumps instead of single objects; no counter can be bound to a QP.
    if (!answer.is_dump() && (command->add_all != nullptr || is_of_objects)) {
        return EOPNOTSUPP;
    }
    if (index == nullptr && (command->add_all != nullptr || !answer.is_dump())) {
        return EINVAL;
    }
    if (answer.is_dump() && command->number == RDMA_NLDEV_CMD_STAT_GET) {
        // Of counters bound to QPs or MRs, of which there are none.
        return is_of_objects ? 0 : EINVAL;
    }
    if (command->add_all != nullptr) {
        command->add_all(answer, question);
    } else {
        put_messages(answer, question, *command, index != nullptr);
    }
    return 0;
}

}  // namespace

int answer_netlink_request(const ControlState& control, const std::vector<const ClientState*>& clients,
                           const Request& request, Reply& reply) {
    if (request.length != sizeof(abi::NetlinkRequest) || !request.fds.empty()) {
        return EINVAL;
    }
    auto message = request.as<abi::NetlinkRequest>();
    nlmsghdr header{};
    std::memcpy(&header, message.message, sizeof header);
    if (message.message_bytes < sizeof header || message.message_bytes > sizeof message.message ||
        header.nlmsg_len < sizeof header || header.nlmsg_len > message.message_bytes) {
        return EINVAL;
    }
    static_assert(offsetof(abi::NetlinkRequest, message) % alignof(nlmsghdr) == 0);
    NetlinkAnswer answer(header);
    const int error =
        answer_message(answer, Question{control, clients}, reinterpret_cast<nlmsghdr*>(message.message));
    if (error == 0 && answer.is_dump()) {
        answer.end_dump();
    } else {
        answer.acknowledge(error);
    }
    const std::string text = answer.take();
    UniqueFd file(::memfd_create("urnic-netlink", MFD_CLOEXEC));
    if (!file || ::pwrite(file.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
        return errno;
    }
    reply.set(abi::EmptyReply{});
    reply.give(std::move(file));
    return 0;
}

}  // namespace urnic::daemon
