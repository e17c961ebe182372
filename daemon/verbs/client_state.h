// One application process: the verbs objects that it owns. The control thread's own.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/cm/qp_owner.h"
#include "daemon/ipc/message.h"
#include "daemon/ipc/peer.h"
#include "daemon/state/control_state.h"
#include "daemon/verbs/app_memory.h"
#include "daemon/verbs/doorbell_slots.h"
#include "daemon/verbs/objects.h"
#include "daemon/verbs/ring_memory.h"

namespace urnic::dataplane {
class ClientDoorbells;
}  // namespace urnic::dataplane

namespace urnic::daemon {

class CmClient;

/// What a client leaves behind that takes long to end.
struct ClientRemains : Disposable {
    UniqueFd memory_file;
    std::unique_ptr<RingMemory> rings;
    Memfd doorbells;
    std::vector<UniqueFd> wake_fds;
};

struct ClientState final : QpOwner {
    ClientState(ControlState& control, const Peer& peer, std::uint32_t id, std::string program);
    ClientState(const ClientState&) = delete;
    ClientState& operator=(const ClientState&) = delete;
    /// Ends everything that is left of what the client owns, without needing memory for that: QPs, SRQs, XRC
    /// domains, AHs, CQs, MWs, MRs, DMs, PDs, then its place on the workers.
    ~ClientState() override;
    /// Ends some of it, for which others wait well below a millisecond. Returns whether that was not all;
    /// from the first call on the client makes no requests any more.
    [[nodiscard]] bool end_some();
    /// Its own, or an XRC target that it has opened.
    [[nodiscard]] bool has_qp(const RnicState& rnic, std::uint32_t qp_num) const override;

    ControlState& control;
    std::uint32_t id;
    pid_t pid;
    uid_t uid;
    User& user;  // with all its other clients
    std::string program;
    AppMemory memory;
    Memfd doorbells;
    std::vector<UniqueFd> wake_fds;  // of each worker
    /// Of each worker that knows the client: the first ones.
    std::vector<std::unique_ptr<dataplane::ClientDoorbells>> on_worker;
    std::unique_ptr<RingMemory> rings;  // once a ring was wanted
    /// Made in good time, so that ending needs no memory.
    std::unique_ptr<ClientRemains> remains = std::make_unique<ClientRemains>();
    std::vector<DoorbellSlots> doorbell_slots;  // of each worker
    std::uint64_t registered_bytes = 0;
    std::uint64_t device_memory_bytes = 0;
    bool is_ending = false;
    std::uint32_t num_memberships = 0;  // in multicast groups
    std::unique_ptr<CmClient> cm;       // once it has opened a channel

    static constexpr std::uint32_t kLastQpHandle = (1U << 31U) - 1;
    HandleTable<ContextObject> contexts{user.count(Resource::kContexts)};
    HandleTable<PdObject> pds{user.count(Resource::kPds)};
    HandleTable<ChannelObject> channels{user.count(Resource::kChannels)};
    HandleTable<MrObject> mrs{user.count(Resource::kMrs)};
    HandleTable<CqObject> cqs{user.count(Resource::kCqs)};
    HandleTable<QpObject> qps{user.count(Resource::kQps), {.first = 1, .last = kLastQpHandle}};
    HandleTable<AhObject> ahs{user.count(Resource::kAhs)};
    HandleTable<MwObject> mws{user.count(Resource::kMws)};
    HandleTable<DmObject> dms{user.count(Resource::kDms)};
    HandleTable<SrqObject> srqs{user.count(Resource::kSrqs)};
    HandleTable<XrcdObject> xrcds{user.count(Resource::kXrcds)};
    // Handles of QPs too, and so from another part of their space.
    HandleTable<XrcTargetObject> xrc_targets{user.count(Resource::kQps), {.first = kLastQpHandle + 1}};
};

/// Ends some objects of a context, of all for nullptr. Returns whether there were any.
[[nodiscard]] bool end_some_objects(ClientState& client, const ContextObject* context);

/// Takes a piece of the client's ring memory. 0 or errno.
[[nodiscard]] int allocate_rings(ClientState& client, std::size_t bytes, RingPiece& piece);

}  // namespace urnic::daemon
