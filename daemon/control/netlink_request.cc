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
#include <string>
#include <utility>

#include "abi/netlink.h"
#include "daemon/cm/client.h"
#include "daemon/control/netlink_answer.h"
#include "daemon/control/netlink_objects.h"
#include "daemon/control/port_counters.h"
#include "daemon/verbs/client_state.h"
#include "daemon/verbs/device.h"

namespace urnic::daemon {

namespace {

// <rdma/ib_verbs.h> of the kernel: RDMA_NODE_IB_CA.
constexpr std::uint8_t kNodeTypeCa = 1;

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
    std::uint64_t cm_ids = 0;
    std::uint64_t mrs = 0;
    std::uint64_t contexts = 0;
    std::uint64_t srqs = 0;
    for (const ClientState* client : question.clients) {
        for (const auto& [handle, pd] : client->pds) pds += is_here(*pd->context) ? 1 : 0;
        for (const auto& [handle, cq] : client->cqs) cqs += is_here(*cq->context) ? 1 : 0;
        for (const auto& [handle, qp] : client->qps) qps += is_here(*qp->pd->context) ? 1 : 0;
        for (const auto& [handle, qp] : client->xrc_targets) qps += is_here(*qp->xrcd->context) ? 1 : 0;
        if (client->cm != nullptr) {
            for (const auto& [handle, id] : client->cm->ids()) cm_ids += is_on(*id, question.rnic()) ? 1 : 0;
        }
        for (const auto& [handle, mr] : client->mrs) mrs += is_here(*mr->pd->context) ? 1 : 0;
        for (const auto& [handle, context] : client->contexts) contexts += is_here(*context) ? 1 : 0;
        for (const auto& [handle, srq] : client->srqs) srqs += is_here(*srq->pd->context) ? 1 : 0;
    }
    const std::array<std::pair<const char*, std::uint64_t>, 7> counts{{{"pd", pds},
                                                                       {"cq", cqs},
                                                                       {"qp", qps},
                                                                       {"cm_id", cm_ids},
                                                                       {"mr", mrs},
                                                                       {"ctx", contexts},
                                                                       {"srq", srqs}}};
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
    NetlinkCommand{RDMA_NLDEV_CMD_RES_QP_GET, nullptr, add_qp_entries},
    NetlinkCommand{RDMA_NLDEV_CMD_RES_CM_ID_GET, nullptr, add_cm_id_entries},
    NetlinkCommand{RDMA_NLDEV_CMD_RES_CQ_GET, nullptr, add_cq_entries},
    NetlinkCommand{RDMA_NLDEV_CMD_RES_MR_GET, nullptr, add_mr_entries},
    NetlinkCommand{RDMA_NLDEV_CMD_RES_PD_GET, nullptr, add_pd_entries},
    NetlinkCommand{RDMA_NLDEV_CMD_RES_SRQ_GET, nullptr, add_srq_entries},
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
