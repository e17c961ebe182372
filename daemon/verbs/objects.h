// The verbs objects of one client as the control thread keeps them.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/handle_table.h"
#include "daemon/state/control_state.h"
#include "daemon/state/device_memory.h"
#include "daemon/state/multicast_groups.h"
#include "daemon/state/pd_numbers.h"
#include "daemon/state/xrc_domain.h"
#include "daemon/verbs/app_memory.h"
#include "daemon/verbs/ring_memory.h"
#include "dataplane/worker/completion_channel.h"
#include "dataplane/worker/worker.h"
#include "os/disposer.h"
#include "os/event_socket.h"
#include "os/unique_fd.h"

namespace urnic::daemon {

struct ContextObject : Disposable {
    RnicState* device = nullptr;
    UniqueFd async_fd;             // our end of the event socket
    WakeBudget* budget = nullptr;  // its user's
    // The command fd, which names the context to whoever has it; none if the context was imported by
    // another's.
    UniqueFd token;
    ContextToken id;  // of `token`, or of the one that was imported
    bool imported = false;
    std::uint64_t imported_serial = 0;  // ContextOwner::serial of that one

    [[nodiscard]] EventSocket events() const { return {async_fd.get(), budget}; }
};

struct PdObject {
    ContextObject* context = nullptr;
    std::uint32_t number = 0;  // daemon-wide: what MemoryRegion::pd and QpConfig::pd hold
    PdNumbers::Number keeps_number;
    std::uint32_t users = 0;  // MRs, MWs, QPs, SRQs and AHs
};

struct ChannelObject : Disposable {
    ContextObject* context = nullptr;
    UniqueFd socket;  // our end
    dataplane::CompletionChannel channel;
    std::uint32_t users = 0;
};

struct DmObject {
    ContextObject* context = nullptr;
    std::shared_ptr<DeviceMemory> memory;
    std::uint32_t users = 0;  // MRs
};

struct MrObject {
    PdObject* pd = nullptr;
    std::uint32_t key = 0;
    std::uint64_t addr = 0;
    std::uint64_t length_bytes = 0;       // of the application's memory
    AppMemory::Window* window = nullptr;  // nullptr: not converted
    DmObject* dm = nullptr;               // device memory: nothing of the application's
    bool is_null = false;                 // nor does a null region have any
    MemoryRegion region;                  // as published
};

struct MwObject {
    MwObject(PdObject& of_pd, WindowType type) : pd(&of_pd), window(type, of_pd.number) {}
    PdObject* pd;
    MemoryWindow window;
    std::uint32_t key = 0;  // the first
};

struct CqObject {
    ContextObject* context = nullptr;
    ChannelObject* channel = nullptr;
    std::unique_ptr<dataplane::NotifyingCq> cq;
    RingPiece memory;
    RingPiece previous;  // before the last resize: the application may still read it
    std::uint32_t entries = 0;
    std::uint32_t users = 0;  // QPs, once for each direction, and XRC SRQs
};

/// A handle to an XRC domain.
struct XrcdObject {
    ContextObject* context = nullptr;
    XrcDomain* domain = nullptr;
    std::uint32_t users = 0;  // this client's SRQs and target QPs
};

/// A handle to an XRC target QP.
struct XrcTargetObject {
    XrcdObject* xrcd = nullptr;
    XrcTarget* target = nullptr;
    dataplane::QpEventSubscriber listener;
};

struct SrqObject {
    PdObject* pd = nullptr;
    XrcdObject* xrcd = nullptr;  // XRC
    CqObject* cq = nullptr;      // XRC
    std::unique_ptr<dataplane::NotifyingSrq> srq;
    RingPiece memory;
    std::uint32_t entries = 0;
    std::uint32_t stride = 0;
    std::uint32_t max_sge = 0;
    std::uint32_t worker = 0;  // and that of all QPs that use it
    std::uint32_t users = 0;   // QPs
};

struct AhObject {
    PdObject* pd = nullptr;
    std::uint32_t key = 0;
    std::uint16_t neighbour = wire::kNoNeighbour;
};

struct QpObject {
    QpType type = QpType::kRc;
    PdObject* pd = nullptr;
    CqObject* send_cq = nullptr;
    CqObject* recv_cq = nullptr;  // none: XRC initiator
    SrqObject* srq = nullptr;
    dataplane::QpSlot slot;
    RingPiece memory;
    std::uint32_t worker = 0;
    bool has_sent_last = false;  // it ends, and what was posted has been sent
    Memberships memberships;     // multicast
};

}  // namespace urnic::daemon
