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
#include <vector>

#include "abi/netlink.h"
#include "daemon/cm/client.h"
#include "daemon/control/netlink_answer.h"
#include "daemon/control/netlink_objects.h"
#include "daemon/control/object_counter.h"
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

/// What an asker has on each RNIC, of his clients.
class Resources {
  public:
    explicit Resources(const ControlState& control)
        : control_(control), objects_(control.num_workers()), of_rnic_(control.devices.size()) {}

    /// A step. Returns whether there are more.
    bool count_some(const ClientFrom& client_from) {
        if (has_objects_) {
            has_objects_ = walk_.go_on(client_from, LongAnswer::kCountedPerStep, objects_);
            return true;
        }
        if (at_.table == 0) {
            const bool has_more = visit_some(
                client_from, LongAnswer::kCountedPerStep, at_,
                [](const ClientState& client) { return &client.contexts; },
                [&](const ClientState& /*client*/, const ContextObject& context) {
                    for (std::size_t i = 0; i < of_rnic_.size(); ++i) {
                        of_rnic_[i].contexts += context.device == control_.devices[i].get() ? 1 : 0;
                    }
                });
            if (!has_more) {
                at_ = {.table = 1};
            }
            return true;
        }
        return visit_some(client_from, LongAnswer::kCountedPerStep, at_, cm_ids_of,
                          [&](const ClientState& /*client*/, const CmId& id) {
                              for (std::size_t i = 0; i < of_rnic_.size(); ++i) {
                                  of_rnic_[i].cm_ids += is_on(id, *control_.devices[i]) ? 1 : 0;
                              }
                          });
    }
    [[nodiscard]] ObjectCounter::Sums objects(std::uint32_t index) const {
        return objects_.of(*control_.devices[index]);
    }
    [[nodiscard]] std::uint64_t contexts(std::uint32_t index) const { return of_rnic_[index].contexts; }
    [[nodiscard]] std::uint64_t cm_ids(std::uint32_t index) const { return of_rnic_[index].cm_ids; }

  private:
    struct Counts {
        std::uint64_t contexts = 0;
        std::uint64_t cm_ids = 0;
    };
    const ControlState& control_;
    ObjectWalk walk_{ObjectWalk::kNumTables};
    ObjectCounter objects_;
    bool has_objects_ = true;
    ObjectPosition at_;  // of the contexts, and then the ids
    std::vector<Counts> of_rnic_;
};

bool put_summary(nl_msg* to, const Question& question, const Resources& resources) {
    const ObjectCounter::Sums objects = resources.objects(question.index);
    const std::array<std::pair<const char*, std::uint64_t>, 7> counts{
        {{"pd", objects.pds},
         {"cq", objects.cqs},
         {"qp", objects.qps},
         {"cm_id", resources.cm_ids(question.index)},
         {"mr", objects.mrs},
         {"ctx", resources.contexts(question.index)},
         {"srq", objects.srqs}}};
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
using AddSome = bool (*)(NetlinkAnswer& answer, const Question& question, const ClientFrom& client_from,
                         ObjectPosition& at);

/// Has one of the two, or is that of the summary.
struct NetlinkCommand {
    std::uint32_t number;
    PutOne put_one;    // a message for an RNIC, or for each
    AddSome add_some;  // a dump for one
};
constexpr std::array kCommands{
    NetlinkCommand{RDMA_NLDEV_CMD_GET, put_node, nullptr},
    NetlinkCommand{RDMA_NLDEV_CMD_PORT_GET, put_port, nullptr},
    NetlinkCommand{RDMA_NLDEV_CMD_RES_GET, nullptr, nullptr},
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

/// A message for the RNIC that was asked for, or for each; `put_one` puts what is in one.
template <typename Put>
void put_messages(NetlinkAnswer& answer, Question question, bool is_of_one, const Put& put_one) {
    const std::uint32_t begin = is_of_one ? question.index : 0;
    const auto end = is_of_one ? begin + 1 : static_cast<std::uint32_t>(question.control.devices.size());
    for (question.index = begin; question.index < end; ++question.index) {
        const NetlinkAnswer::Message message = answer.begin();
        // Names are short, and so are the answers.
        if (put_one(message.get(), question)) {
            answer.add(message);
        }
    }
}

class NetlinkDialog final : public LongAnswer {
  public:
    NetlinkDialog(const ControlState& control, const nlmsghdr& header)
        : answer_(header), question_{control}, resources_(control) {}

    /// Reads the message. What is wrong with it is in the answer.
    void read(nlmsghdr* message) { error_ = find_out(message); }

    [[nodiscard]] int step(const ClientFrom& client_from, Reply& reply) override {
        if (error_ == 0 && add_some(client_from)) {
            return kUnfinished;
        }
        if (error_ == 0 && answer_.is_dump()) {
            answer_.end_dump();
        } else {
            answer_.acknowledge(error_);
        }
        const std::string text = answer_.take();
        UniqueFd file(::memfd_create("urnic-netlink", MFD_CLOEXEC));
        if (!file || ::pwrite(file.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
            return errno;
        }
        reply.set(abi::EmptyReply{});
        reply.give(std::move(file));
        return 0;
    }

  private:
    [[nodiscard]] int find_out(nlmsghdr* message);

    /// Returns whether there may be more.
    bool add_some(const ClientFrom& client_from) {
        if (command_ == nullptr) {
            return false;
        }
        if (command_->add_some != nullptr) {
            return command_->add_some(answer_, question_, client_from, at_);
        }
        if (command_->put_one != nullptr) {
            put_messages(answer_, question_, is_of_one_, command_->put_one);
            return false;
        }
        if (resources_.count_some(client_from)) {
            return true;
        }
        put_messages(answer_, question_, is_of_one_, [&](nl_msg* to, const Question& question) {
            return put_summary(to, question, resources_);
        });
        return false;
    }

    NetlinkAnswer answer_;
    Question question_;
    Resources resources_;
    const NetlinkCommand* command_ = nullptr;  // nullptr: the answer has nothing
    bool is_of_one_ = false;
    int error_ = 0;
    ObjectPosition at_;
};

/// 0 or what the message says of the error (errno).
int NetlinkDialog::find_out(nlmsghdr* message) {
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
        question_.index = nla_get_u32(index);
        if (question_.index >= question_.control.devices.size()) {
            return ENODEV;
        }
    }
    is_of_one_ = index != nullptr;
    question_.has_port = port != nullptr;
    if (port != nullptr && nla_get_u32(port) != kPortNumber) {
        return EINVAL;
    }
    const bool is_of_objects = attributes[RDMA_NLDEV_ATTR_STAT_RES] != nullptr;
    // `rdma` takes dumps instead of single objects; no counter can be bound to a QP.
    if (!answer_.is_dump() && (command->add_some != nullptr || is_of_objects)) {
        return EOPNOTSUPP;
    }
    if (index == nullptr && (command->add_some != nullptr || !answer_.is_dump())) {
        return EINVAL;
    }
    if (answer_.is_dump() && command->number == RDMA_NLDEV_CMD_STAT_GET) {
        // Of counters bound to QPs or MRs, of which there are none.
        return is_of_objects ? 0 : EINVAL;
    }
    command_ = command;
    return 0;
}

}  // namespace

int begin_netlink_answer(const ControlState& control, const Request& request,
                         std::unique_ptr<LongAnswer>& answer) {
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
    auto dialog = std::make_unique<NetlinkDialog>(control, header);
    dialog->read(reinterpret_cast<nlmsghdr*>(message.message));
    answer = std::move(dialog);
    return 0;
}

}  // namespace urnic::daemon
