// What one application does with rdma_cm: its channels, its ids, and the commands of librdmacm, which are
// those of the kernel's ucma (<rdma/rdma_user_cm.h>), with its errors. Everything in a command may be wrong.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "abi/control.h"
#include "base/handle_table.h"
#include "daemon/cm/channel.h"
#include "daemon/cm/id.h"
#include "daemon/cm/qp_owner.h"
#include "daemon/cm/service.h"
#include "daemon/ipc/message.h"
#include "rnic/cm/events.h"
#include "rnic/subnet/sa_groups.h"

namespace urnic::daemon {

class CmClient {
  public:
    /// The service, the owner and the user live longer.
    CmClient(CmService& service, const QpOwner& owner, User& user)
        : service_(service), owner_(owner), user_(user) {}
    CmClient(const CmClient&) = delete;
    CmClient& operator=(const CmClient&) = delete;
    /// Ends every connection that is left, as their states demand.
    ~CmClient();
    /// Ends some. Returns whether there may be more. From the first call on no request comes in.
    [[nodiscard]] bool end_some();

    /// `theirs`: the application's end. 0 or errno.
    [[nodiscard]] int open_channel(std::uint32_t& handle, UniqueFd& theirs);
    /// With its ids. 0, kUnfinished or ENOENT.
    [[nodiscard]] int close_channel(std::uint32_t handle);
    /// 0, kUnfinished or errno; the reply says what is in the channels in any case.
    [[nodiscard]] int command(const abi::CmCommandRequest& request, abi::CmCommandReply& reply);
    /// Tells channels of events of which nothing could be reported before.
    void announce_owed();

    // Called by the service while a manager runs: neither may call it.

    /// The id that stands for the request; nullptr: there is no room for one.
    [[nodiscard]] CmId* on_request(CmId& listener, RnicState& device, const cm::Event& event);
    void on_event(CmId& id, const cm::Event& event);

    /// Of InfiniBand: the answer to the id's request for a path; nullptr: there was none.
    void on_path(CmId& id, const subnet::SaRequests::Answer* answer);
    /// Of InfiniBand: see SubnetMemberships::Effects.
    void on_group(CmGroup& group, const SubnetMemberships::Record* record, int error);

    [[nodiscard]] const HandleTable<CmId>& ids() const { return ids_; }
    [[nodiscard]] std::size_t num_ids() const { return ids_.size(); }
    [[nodiscard]] std::size_t num_channels() const { return channels_.size(); }
    [[nodiscard]] std::size_t num_listeners() const;

    /// A command under way.
    struct Call {
        CmChannel& channel;
        std::span<const std::uint8_t> in;
        std::span<std::uint8_t> out;
        std::uint32_t out_bytes = 0;
        const CmChannel* other = nullptr;  // whose events the command has changed, too
        abi::CmIdSnapshot snapshot{};      // of the id that the answer is about, or none

        /// Answers with as much of `answer` as there is room for; ENOSPC: less than `least`.
        template <typename T>
        int answer(const T& answer, std::size_t least = sizeof(T));
    };

    // Commands, in files by what they are about.
    int create_id(const rdma_ucm_create_id& command, Call& call);
    int destroy_id(const rdma_ucm_destroy_id& command, Call& call);
    int bind_ip(const rdma_ucm_bind_ip& command, Call& call);
    int bind(const rdma_ucm_bind& command, Call& call);
    int resolve_ip(const rdma_ucm_resolve_ip& command, Call& call);
    int resolve_addr(const rdma_ucm_resolve_addr& command, Call& call);
    int resolve_route(const rdma_ucm_resolve_route& command, Call& call);
    int query_route(const rdma_ucm_query& command, Call& call);
    int query(const rdma_ucm_query& command, Call& call);
    int connect(const rdma_ucm_connect& command, Call& call);
    int listen(const rdma_ucm_listen& command, Call& call);
    int accept(const rdma_ucm_accept& command, Call& call);
    int reject(const rdma_ucm_reject& command, Call& call);
    int disconnect(const rdma_ucm_disconnect& command, Call& call);
    int init_qp_attr(const rdma_ucm_init_qp_attr& command, Call& call);
    int get_event(const rdma_ucm_get_event& command, Call& call);
    int set_option(const rdma_ucm_set_option& command, Call& call);
    int notify(const rdma_ucm_notify& command, Call& call);
    int join_ip_mcast(const rdma_ucm_join_ip_mcast& command, Call& call);
    int join_mcast(const rdma_ucm_join_mcast& command, Call& call);
    int leave_mcast(const rdma_ucm_destroy_id& command, Call& call);
    int migrate_id(const rdma_ucm_migrate_id& command, Call& call);

  private:
    /// 0, ENOENT, or EINVAL: it is another channel's.
    [[nodiscard]] int find(const Call& call, std::uint32_t handle, CmId*& id) const;
    CmId& add_id(CmChannel& channel);
    [[nodiscard]] bool end(CmId& id, std::size_t& left);
    [[nodiscard]] bool take_back_events(CmId& id, std::size_t& left);
    void stop(CmId& id);
    [[nodiscard]] bool end_ids_of(const CmChannel* channel);

    int bind_to(CmId& id, const Endpoint& local);
    int resolve(CmId& id, const Endpoint& source, const Endpoint& destination);
    int resolve_ip_address(CmId& id, const Endpoint& destination);
    int resolve_gid(CmId& id, const Endpoint& destination);
    [[nodiscard]] RnicState* find_port_towards(const Endpoint& destination) const;
    int find_source(CmId& id, const Endpoint& destination);
    int reach(CmId& id, RnicState& device, std::uint8_t ip_index, const wire::Gid& destination);
    int reach_port(CmId& id, RnicState& device, std::uint8_t ip_index, const wire::Gid& destination);
    int ask_for_path(CmId& id, std::uint32_t timeout_ms);
    int set_paths(CmId& id, std::span<const std::uint8_t> records);
    int join_group(std::uint32_t id, std::uint64_t uid, const Endpoint& address, subnet::JoinState kind,
                   Call& call);
    int join(CmGroup& group, const Endpoint& address);
    int join_by_administration(CmGroup& group, const Endpoint& address);
    void leave_group(CmGroup& group);
    /// As an event; `status`: 0, or an errno value of what went wrong.
    void raise(CmId& id, std::uint32_t type, int status = 0);
    [[nodiscard]] cm::Route route_of(const CmId& id) const;
    int connect_stream(CmId& id, const rdma_ucm_conn_param& param);
    [[nodiscard]] bool may_name_qp(CmId& id, std::uint32_t qp_num) const;
    int resolve_service(CmId& id, const rdma_ucm_conn_param& param);
    int answer_request(CmId& id, const rdma_ucm_conn_param& param);

    CmService& service_;
    const QpOwner& owner_;
    User& user_;
    bool is_ending_ = false;
    HandleTable<CmChannel> channels_{user_.count(Resource::kCmChannels)};
    // librdmacm finds ids and groups by what it takes for signed numbers.
    static constexpr HandleRange kIds{1, std::numeric_limits<std::int32_t>::max()};
    HandleTable<CmId> ids_{user_.count(Resource::kCmIds), kIds};
    HandleTable<CmGroup> groups_{user_.count(Resource::kCmGroups), kIds};
};

template <typename T>
int CmClient::Call::answer(const T& answer, std::size_t least) {
    if (out.size() < least) {
        return ENOSPC;
    }
    out_bytes = static_cast<std::uint32_t>(std::min(out.size(), sizeof answer));
    std::memcpy(out.data(), &answer, out_bytes);
    return 0;
}

}  // namespace urnic::daemon
