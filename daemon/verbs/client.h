// One application process: the verbs objects it owns and the requests it makes. All on the control thread.
//
// A request is one row of a table (client.cc): operation, exact length, number of descriptors, handler. A
// handler answers 0 or an errno value, or throws std::bad_alloc, which is answered with ENOMEM; it leaves
// nothing behind when it fails. What a client owned goes without any memory being needed for that.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "abi/control.h"
#include "daemon/ipc/message.h"
#include "daemon/state/control_state.h"
#include "daemon/verbs/app_memory.h"
#include "daemon/verbs/objects.h"

namespace urnic::dataplane {

/// Who is at the other end of a connection, as the kernel says.
struct Peer {
    pid_t pid = 0;
    uid_t uid = 0;
    UniqueFd pidfd;
};

/// Places in one worker's doorbell bitmap.
class DoorbellSlots {
  public:
    /// Nullopt when all are taken.
    [[nodiscard]] std::optional<std::uint32_t> allocate();
    void free(std::uint32_t slot) { free_.push_back(slot); }  // has room since allocate()

  private:
    std::vector<std::uint32_t> free_;
    std::uint32_t next_ = 0;
};

class ClientDoorbells;
class CmClient;

class Client {
  public:
    /// Answers Hello. EPROTO: another ABI version (the reply is whole then); else out of memory or
    /// descriptors.
    [[nodiscard]] static int hello(ControlState& control, const Peer& peer, std::uint32_t id,
                                   const Request& request, Reply& reply, std::unique_ptr<Client>& client);
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;
    /// Ends everything that the client owned: QPs, SRQs, XRC domains, AHs, CQs, MWs, MRs, DMs, PDs, then its
    /// place on the workers.
    ~Client();

    /// Carries out a request other than Hello and Status. 0 or errno; EOPNOTSUPP: unknown operation, EINVAL:
    /// a wrong length, a wrong number of descriptors, a handle that is not there, or what the operation says.
    [[nodiscard]] int handle(Request& request, Reply& reply);

    /// Raises an event of the port in every context of the device.
    void raise(const RnicState& device, AsyncEventType type) const;

    [[nodiscard]] std::uint32_t id() const { return id_; }
    [[nodiscard]] pid_t pid() const { return pid_; }
    [[nodiscard]] uid_t uid() const { return uid_; }
    [[nodiscard]] const std::string& program() const { return program_; }
    [[nodiscard]] const HandleTable<MrObject>& mrs() const { return mrs_; }
    [[nodiscard]] const HandleTable<CqObject>& cqs() const { return cqs_; }
    [[nodiscard]] const HandleTable<QpObject>& qps() const { return qps_; }
    [[nodiscard]] const HandleTable<XrcTargetObject>& xrc_targets() const { return xrc_targets_; }
    [[nodiscard]] const HandleTable<SrqObject>& srqs() const { return srqs_; }
    [[nodiscard]] std::uint64_t registered_bytes() const { return registered_bytes_; }
    [[nodiscard]] std::uint32_t memberships() const { return memberships_; }
    [[nodiscard]] const CmClient* cm() const { return cm_.get(); }

    // Handlers, one file for each kind of object.
    int attach_memory(const abi::AttachMemoryRequest& request, Request& message, Reply& reply);
    int open_device(const abi::OpenDeviceRequest& request, Request& message, Reply& reply);
    int close_device(const abi::HandleRequest& request, Request& message, Reply& reply);
    int query_port(const abi::QueryPortRequest& request, Request& message, Reply& reply);
    int alloc_pd(const abi::ContextRequest& request, Request& message, Reply& reply);
    int dealloc_pd(const abi::HandleRequest& request, Request& message, Reply& reply);
    int reg_mr(const abi::RegMrRequest& request, Request& message, Reply& reply);
    int dereg_mr(const abi::HandleRequest& request, Request& message, Reply& reply);
    int create_channel(const abi::ContextRequest& request, Request& message, Reply& reply);
    int destroy_channel(const abi::HandleRequest& request, Request& message, Reply& reply);
    int create_cq(const abi::CreateCqRequest& request, Request& message, Reply& reply);
    int resize_cq(const abi::ResizeCqRequest& request, Request& message, Reply& reply);
    int modify_cq(const abi::ModifyCqRequest& request, Request& message, Reply& reply);
    int destroy_cq(const abi::HandleRequest& request, Request& message, Reply& reply);
    int create_qp(const abi::CreateQpRequest& request, Request& message, Reply& reply);
    int modify_qp(const abi::ModifyQpRequest& request, Request& message, Reply& reply);
    int query_qp(const abi::HandleRequest& request, Request& message, Reply& reply);
    int destroy_qp(const abi::HandleRequest& request, Request& message, Reply& reply);
    int create_ah(const abi::CreateAhRequest& request, Request& message, Reply& reply);
    int destroy_ah(const abi::HandleRequest& request, Request& message, Reply& reply);
    int alloc_mw(const abi::AllocMwRequest& request, Request& message, Reply& reply);
    int dealloc_mw(const abi::HandleRequest& request, Request& message, Reply& reply);
    int rereg_mr(const abi::ReregMrRequest& request, Request& message, Reply& reply);
    int alloc_null_mr(const abi::HandleRequest& request, Request& message, Reply& reply);
    int alloc_dm(const abi::AllocDmRequest& request, Request& message, Reply& reply);
    int free_dm(const abi::HandleRequest& request, Request& message, Reply& reply);
    int reg_dm_mr(const abi::RegDmMrRequest& request, Request& message, Reply& reply);
    int import_device(const abi::ImportDeviceRequest& request, Request& message, Reply& reply);
    int import_pd(const abi::ImportRequest& request, Request& message, Reply& reply);
    int import_mr(const abi::ImportRequest& request, Request& message, Reply& reply);
    int import_dm(const abi::ImportRequest& request, Request& message, Reply& reply);
    int attach_mcast(const abi::McastRequest& request, Request& message, Reply& reply);
    int detach_mcast(const abi::McastRequest& request, Request& message, Reply& reply);
    int create_srq(const abi::CreateSrqRequest& request, Request& message, Reply& reply);
    int modify_srq(const abi::ModifySrqRequest& request, Request& message, Reply& reply);
    int query_srq(const abi::HandleRequest& request, Request& message, Reply& reply);
    int destroy_srq(const abi::HandleRequest& request, Request& message, Reply& reply);
    int open_xrcd(const abi::OpenXrcdRequest& request, Request& message, Reply& reply);
    int close_xrcd(const abi::HandleRequest& request, Request& message, Reply& reply);
    int open_qp(const abi::OpenQpRequest& request, Request& message, Reply& reply);
    int open_cm_channel(const abi::OpenCmChannelRequest& request, Request& message, Reply& reply);
    int close_cm_channel(const abi::HandleRequest& request, Request& message, Reply& reply);
    int cm_command(const abi::CmCommandRequest& request, Request& message, Reply& reply);

  private:
    Client(ControlState& control, const Peer& peer, std::uint32_t id, std::string program);

    int start(Reply& reply);
    /// 0 or errno; rings_ is made when the first ring is wanted.
    int allocate_rings(std::size_t bytes, RingPiece& piece);
    int map_region(const abi::RegMrRequest& request, MemoryRegion& region, AppMemory::Window*& window);
    [[nodiscard]] int check_mr_room(const PdObject& pd) const;
    int add_mr(std::unique_ptr<MrObject> made, Reply& reply);
    int add_dm(ContextObject& context, std::shared_ptr<DeviceMemory> memory, Reply& reply);
    /// What a QP is made from.
    struct QpParts {
        PdObject* pd = nullptr;
        CqObject* send_cq = nullptr;
        CqObject* recv_cq = nullptr;
        SrqObject* srq = nullptr;
    };
    /// 0, or EINVAL for handles that are not there or do not belong together.
    [[nodiscard]] int find_parts(const abi::CreateQpRequest& request, QpParts& parts) const;
    static void use_parts(const QpParts& parts, QpObject& qp, QpConfig& config);
    void publish_qp(QpObject& qp, QpTablePages& room);
    /// The QP behind a handle, XRC targets too; nullptr: none.
    [[nodiscard]] QpSlot* find_qp(std::uint32_t handle, Worker*& worker) const;
    static int resolve_path(const QpSlot& qp, Worker& worker, const abi::QpAttr& attr, wire::Path& path);
    void publish_srq(SrqObject& srq);
    int resize_srq(SrqObject& srq, std::uint32_t entries);
    int create_xrc_target(const abi::CreateQpRequest& request, Reply& reply);
    void attach_target(XrcTargetObject& handle, XrcdObject& xrcd, XrcTarget& target,
                       std::uint64_t user_handle);
    void detach_target(XrcTargetObject& handle);

    int make_context(RnicState& device, std::unique_ptr<ContextObject>& context, Reply& reply) const;
    int add_pd(ContextObject& context, std::uint32_t number, Reply& reply);
    [[nodiscard]] const ContextOwner* owner_of(const ContextObject& context) const;
    void forget_context(const ContextObject& context);

    // Ends objects whose users are gone already. A context of nullptr means: of every context.
    void send_posted(const ContextObject* context);
    void remove_qps(const ContextObject* context);
    void remove_xrc_targets(const ContextObject* context);
    void remove_srqs(const ContextObject* context);
    void remove_xrcds(const ContextObject* context);
    void remove_ahs(const ContextObject* context);
    void remove_cqs(const ContextObject* context);
    void remove_mws(const ContextObject* context);
    void remove_mrs(const ContextObject* context);
    void remove_dms(const ContextObject* context);
    void remove_pds_and_channels(const ContextObject* context);
    /// No QP uses those CQs for which `leaves` says so any more: afterwards no worker knows them.
    template <typename Leaves>
    void release_cqs(Leaves&& leaves);
    void forget_qp(QpObject& qp);
    void forget_memberships(QpObject& qp);
    void forget_srq(SrqObject& srq);
    static void forget_ah(const AhObject& ah);
    void forget_cq(CqObject& cq);
    void forget_mr(MrObject& mr);
    static void forget_mw(MwObject& mw);
    void forget_dm(const DmObject& dm);

    ControlState& control_;
    std::uint32_t id_;
    pid_t pid_;
    uid_t uid_;
    std::string program_;
    AppMemory memory_;
    Memfd doorbells_;
    std::vector<UniqueFd> wake_fds_;  // of each worker
    std::vector<std::unique_ptr<ClientDoorbells>>
        on_worker_;  // of each worker that knows the client: the first ones
    std::unique_ptr<RingMemory> rings_;
    std::vector<DoorbellSlots> doorbell_slots_;  // of each worker
    std::uint64_t registered_bytes_ = 0;
    std::uint64_t device_memory_bytes_ = 0;
    std::uint32_t memberships_ = 0;  // in multicast groups
    std::unique_ptr<CmClient> cm_;   // once it has opened a channel

    HandleTable<ContextObject> contexts_;
    HandleTable<PdObject> pds_;
    HandleTable<ChannelObject> channels_;
    HandleTable<MrObject> mrs_;
    HandleTable<CqObject> cqs_;
    HandleTable<QpObject> qps_;
    HandleTable<AhObject> ahs_;
    HandleTable<MwObject> mws_;
    HandleTable<DmObject> dms_;
    HandleTable<SrqObject> srqs_;
    HandleTable<XrcdObject> xrcds_;
    // Handles of QPs too, and so from another part of their space.
    HandleTable<XrcTargetObject> xrc_targets_{1U << 31U};
};

}  // namespace urnic::dataplane
