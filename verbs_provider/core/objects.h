// The provider's verbs objects. Each begins with the public struct that libibverbs and the application see.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "abi/control.h"
#include "abi/queues.h"
#include "verbs_provider/core/address.h"
#include "verbs_provider/core/event_targets.h"
#include "verbs_provider/core/lock.h"
#include "verbs_provider/core/private_abi.h"
#include "verbs_provider/core/session.h"
#include "verbs_provider/memory/memory.h"

namespace urnic::provider {

struct Cq;
struct Pd;
struct Qp;

/// A zeroed object, or nullptr with errno set to ENOMEM. Ended by free_object().
template <class T>
T* make_object() {
    void* memory = nullptr;
    if (posix_memalign(&memory, alignof(T) < sizeof(void*) ? sizeof(void*) : alignof(T), sizeof(T)) != 0) {
        errno = ENOMEM;
        return nullptr;
    }
    return new (memory) T{};
}
template <class T>
void free_object(T* object) {
    object->~T();
    std::free(object);
}

/// QP numbers are 24 bits: two levels of 4096. Beside each QP stand its CQs: who polls another CQ, in which
/// the daemon put a completion of this QP, must not touch the QP, which may be destroyed meanwhile.
struct QpTable {
    static constexpr std::uint32_t kLeafBits = 12;
    static constexpr std::uint32_t kLeafSize = 1U << kLeafBits;
    static constexpr std::uint32_t kMaxQpNum = (1U << 24U) - 1;
    struct Entry {
        std::atomic<Qp*> qp;
        std::atomic<const Cq*> send_cq;
        std::atomic<const Cq*> recv_cq;
    };
    struct Leaf {
        Entry entries[kLeafSize];
    };
    std::atomic<Leaf*> leaves[kLeafSize];

    /// The QP of that number if its sends, or receives, complete in `cq`; else nullptr. Under the lock of
    /// `cq`, which the destruction of such a QP takes.
    [[nodiscard]] Qp* find(std::uint32_t qp_num, const Cq& cq, bool is_recv) const {
        const Leaf* leaf = leaves[(qp_num >> kLeafBits) % kLeafSize].load(std::memory_order_acquire);
        if (leaf == nullptr) {
            return nullptr;
        }
        const Entry& entry = leaf->entries[qp_num % kLeafSize];
        const std::atomic<const Cq*>& completes_in = is_recv ? entry.recv_cq : entry.send_cq;
        return completes_in.load(std::memory_order_acquire) == &cq ? entry.qp.load(std::memory_order_relaxed)
                                                                   : nullptr;
    }
    /// Under the context's objects mutex. 0; ENOMEM; EPROTO: no number of a QP, or of one that lives.
    int insert(std::uint32_t qp_num, Qp& qp);
    void remove(std::uint32_t qp_num);
};

/// A completion channel; the application knows it by its end of a socket pair.
struct Channel {
    Channel* next = nullptr;
    int read_fd = -1;  // the application's
    int take_fd = -1;  // the same end, to take events back; the application may close its own at any time
    int own_fd = -1;   // the daemon's end, to add events
    std::uint32_t handle = 0;

    void close_fds();
};

/// Events that wait for room in the application's socket; hardly ever more than one.
struct EventQueue {
    abi::AsyncEvent* items;
    std::size_t count;
    std::size_t room;

    bool push(const abi::AsyncEvent& event);
    void pop();
};

struct Context {
    /// libibverbs puts new fields of struct verbs_context before those it has.
    std::byte room_to_grow[256];
    struct verbs_context verbs;

    Session* session;
    std::uint32_t handle;
    abi::DeviceCaps caps;
    // Events: the daemon's socket is read by the service thread, which sends on to the application's end
    // (verbs.context.async_fd) through event_out.
    Mutex event_mutex;
    int event_in;
    int event_out;
    EventQueue events;  // between the two
    // Objects; the mutex guards the lists and changes to the QP table.
    Mutex objects_mutex;
    Pd* pds;  // librdmacm forgets one that the daemon did not end: it is found here
    Cq* cqs;
    Qp* qps;
    Channel* channels;
    QpTable qp_table;
    EventTargets event_targets;
    Context* of_child;    // made by a child of fork that uses what it has of its parent's
    Context* next;        // in the session's list
    Context* next_by_fd;  // in the hooks' list
};

struct Td {
    struct ibv_td td;
    std::atomic<std::uint32_t> users;
};

/// A protection domain, or a parent domain: then `parent_of` is the domain it stands for.
struct Pd {
    struct ibv_pd pd;
    Pd* previous;  // in the context's list, unless it is a parent domain or was imported
    Pd* next;
    Pd* parent_of;
    Td* td;
    // The application's allocators for objects of this parent domain; nullptr: the heap.
    void* (*alloc)(struct ibv_pd*, void* context, std::size_t bytes, std::size_t alignment,
                   std::uint64_t resource);
    void (*free)(struct ibv_pd*, void* context, void* memory, std::uint64_t resource);
    void* allocator_context;
    bool imported;
    // Parent domains made from this one; of a parent domain and of one that was imported, all users.
    std::atomic<std::uint32_t> parents;
};

/// What an object is, as allocators are told it. The upper 32 bits are the driver's id: RDMA_DRIVER_UNKNOWN.
enum Resource : std::uint64_t { kResourceQp = 1, kResourceCq = 2, kResourceSrq = 3 };

/// make_object() for a T that lies where the allocators of `pd` (nullptr: no domain) want it, or on the heap
/// where they leave it to us. Ended by free_object_in(), before the object lets go of its domain. errno:
/// ENOMEM as well when they have no memory, EINVAL when what they gave is not aligned.
template <class T>
T* make_object_in(Pd* pd) {
    if (pd == nullptr || pd->alloc == nullptr) {
        return make_object<T>();
    }
    void* memory = pd->alloc(&pd->pd, pd->allocator_context, sizeof(T), alignof(T), T::kResource);
    if (memory == IBV_ALLOCATOR_USE_DEFAULT) {
        return make_object<T>();
    }
    if (memory == nullptr || reinterpret_cast<std::uintptr_t>(memory) % alignof(T) != 0) {
        if (memory != nullptr) {
            pd->free(&pd->pd, pd->allocator_context, memory, T::kResource);
        }
        errno = memory == nullptr ? ENOMEM : EINVAL;
        return nullptr;
    }
    T* object = new (memory) T{};
    object->allocated_by = pd;
    return object;
}
template <class T>
void free_object_in(T* object) {
    Pd* pd = object->allocated_by;
    if (pd == nullptr) {
        free_object(object);
        return;
    }
    object->~T();
    pd->free(&pd->pd, pd->allocator_context, object, T::kResource);
}

struct Ah {
    struct ibv_ah ah;
    std::uint32_t key;  // what work requests carry
};

struct Mr {
    PrivateMr base;
    memory::Registration registration;
    std::uint64_t iova;
};

struct Dm {
    struct ibv_dm dm;
    std::byte* memory;
    std::size_t length;
    std::size_t mapped_bytes;
};

/// A CQ's memory: one ring for each worker.
struct CqRings {
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
    std::uint32_t entries = 0;
    std::uint32_t taken[abi::kMaxWorkers] = {};
    std::uint32_t end[abi::kMaxWorkers] = {};  // of rings that were replaced: nothing is new from there on

    [[nodiscard]] abi::CqHeader& header() const { return *reinterpret_cast<abi::CqHeader*>(memory); }
    [[nodiscard]] abi::Cqe& entry(std::uint32_t worker, std::uint32_t index) const {
        auto* ring = reinterpret_cast<abi::Cqe*>(memory + abi::cq_ring_offset(worker, entries));
        return ring[index & (entries - 1)];
    }
    /// The oldest entry of a worker's ring that has not been taken, or nullptr.
    [[nodiscard]] abi::Cqe* front(std::uint32_t worker) const {
        abi::Cqe& cqe = entry(worker, taken[worker]);
        return cqe.seq.load(std::memory_order_acquire) == taken[worker] + 1 ? &cqe : nullptr;
    }
    /// The same of rings that were replaced.
    [[nodiscard]] abi::Cqe* front_of_replaced(std::uint32_t worker) const {
        return taken[worker] != end[worker] ? front(worker) : nullptr;
    }
    void unmap();
};

struct Cq {  // NOLINT(clang-analyzer-optin.performance.Padding): grouped by meaning, few of them
    static constexpr std::uint64_t kResource = kResourceCq;
    union {
        struct ibv_cq cq;
        struct ibv_cq_ex cq_ex;
    };
    abi::Cqe current;                   // extended polling: the completion that read_*() describe
    std::uint64_t wallclock_offset_ns;  // CLOCK_REALTIME minus CLOCK_MONOTONIC, once `has_wallclock`
    bool has_wallclock;                 // in this polling block
    bool moderated;           // the daemon holds events back: none is due as soon as there is a completion
    bool is_librdmacms;       // librdmacm made it, for an rsocket or an endpoint of its own
    bool was_armed_nonempty;  // it held completions when it was armed; kept for moderated CQs alone
    Context* context;
    FastLock lock;
    std::atomic<pthread_t>
        poller;  // the thread between ibv_start_poll() and ibv_end_poll(); it holds the lock
    std::atomic<bool> has_woken_worker;  // what was posted, since somebody last gave way
    std::uint32_t num_workers;
    std::uint32_t next_worker;  // where the next poll begins
    CqRings rings;
    // Completions from before a resize: first those copied to the heap, then the rings that were replaced.
    bool has_leftover;
    CqRings old_rings;
    abi::Cqe* backlog;
    std::uint32_t backlog_count;
    std::uint32_t backlog_next;
    Channel* channel;
    std::atomic<std::uint32_t> users;  // QPs and XRC SRQs
    EventTarget event_target;
    Pd* parent_domain;
    Pd* allocated_by;  // whose allocators gave its memory; nullptr: the heap
    Cq* next;
    Cq* previous;
};
static_assert(offsetof(Cq, cq) == 0);

/// Holds a CQ's lock; does nothing for a thread that is in the middle of an extended poll of this CQ, which
/// may ask for a notification, post or destroy a QP there.
class CqGuard {
  public:
    explicit CqGuard(Cq& cq) : cq_(cq), taken_(cq.poller.load(std::memory_order_relaxed) != pthread_self()) {
        if (taken_) {
            cq_.lock.lock();
        }
    }
    ~CqGuard() {
        if (taken_) {
            cq_.lock.unlock();
        }
    }
    CqGuard(const CqGuard&) = delete;
    CqGuard& operator=(const CqGuard&) = delete;

  private:
    Cq& cq_;
    bool taken_;
};

/// One of a QP's two rings, as its producer sees it.
struct WorkRing {
    std::byte* slots = nullptr;
    std::uint32_t entries = 0;
    std::uint32_t stride = 0;
    std::uint32_t max_sge = 0;
    std::atomic<std::uint32_t> head{0};  // next index to fill; written under the QP's lock
    std::atomic<std::uint32_t> done{0};  // all before it have completed; written by who polls the CQ

    [[nodiscard]] std::byte* slot(std::uint32_t index) const {
        return slots + static_cast<std::size_t>(index & (entries - 1)) * stride;
    }
    [[nodiscard]] bool full(std::uint32_t index) const {
        return index - done.load(std::memory_order_acquire) >= entries;
    }
    /// A completion may be polled before the post that its request belongs to has stored `head`.
    [[nodiscard]] bool outstanding() const {
        return static_cast<std::int32_t>(head.load(std::memory_order_acquire) -
                                         done.load(std::memory_order_acquire)) > 0;
    }
    /// The daemon says that all before `index` have completed. What cannot be is not believed: no more than
    /// the ring holds.
    void complete_until(std::uint32_t index) {
        if (index - done.load(std::memory_order_relaxed) <= entries) [[likely]] {
            done.store(index, std::memory_order_release);
        }
    }
};

struct Xrcd {
    struct ibv_xrcd xrcd;
    std::uint32_t handle;
};

struct Srq {
    static constexpr std::uint64_t kResource = kResourceSrq;
    struct ibv_srq srq;
    Context* context;
    FastLock lock;
    WorkRing ring;  // `done` is what the daemon has taken, not what has completed
    std::uint32_t number;
    std::atomic<std::uint32_t> users;  // QPs
    EventTarget event_target;
    Cq* xrc_cq;  // XRC
    Pd* parent_domain;
    Pd* allocated_by;  // as in Cq
    std::byte* memory;
    std::size_t memory_bytes;
};
static_assert(offsetof(Srq, srq) == 0);

/// A memory window. The application may write what is public, so what finds the window is kept beside it.
struct Mw {
    struct ibv_mw mw;
    std::uint32_t index_bits;  // of every key of it: the upper 24 bits (IBA 10.6.3)
};
static_assert(offsetof(Mw, mw) == 0);

struct SendOpcode;

/// A bind of a type 2 window that is being built: once it is posted, the window has this key. What stands in
/// the ring is the daemon's to write as well, so it is kept here.
struct BuiltBind {
    struct ibv_mw* mw;
    std::uint32_t new_key;
};

/// An XRC target QP is a handle alone: it has neither rings nor CQs nor a doorbell.
struct Qp {
    static constexpr std::uint64_t kResource = kResourceQp;
    union {
        struct ibv_qp qp;
        struct ibv_qp_ex qp_ex;
        std::byte room[kPrivateQpRoom];
    };
    Context* context;
    Session* session;
    FastLock sq_lock;
    FastLock rq_lock;
    WorkRing sq;
    WorkRing rq;
    const SendOpcode* send_opcodes;  // what the QP's type offers, by opcode
    std::uint32_t max_inline;
    std::atomic<std::uint32_t> state;     // QpState as far as this side knows
    std::atomic<std::uint32_t> in_error;  // 1: a completion or event has shown that the QP is in ERR
    // Doorbell.
    std::atomic<std::uint64_t>* bell_word;  // nullptr: XRC target
    std::atomic<std::uint64_t>* bell_summary;
    std::uint64_t bell_bit;
    std::uint64_t bell_summary_bit;
    const std::atomic<std::uint32_t>* worker_sleeping;
    int worker_wake_fd;
    // Extended posting: requests from sq.head to build_next are being built.
    std::uint32_t build_next;
    int build_error;
    abi::SendWqe* build_wqe;
    WrOpcode build_opcode;    // of build_wqe
    BuiltBind* build_binds;   // room for sq.entries of them, made with the first
    std::uint32_t num_binds;  // built since ibv_wr_start()
    // The rest is for control calls.
    std::byte* memory;
    std::size_t memory_bytes;
    struct ibv_qp_cap cap;
    bool sq_sig_all;
    bool is_target;
    EventTarget event_target;
    Pd* parent_domain;
    Pd* allocated_by;  // as in Cq
    Qp* next;
    Qp* previous;
};
static_assert(offsetof(Qp, qp) == 0);

inline Context* context_of(struct ibv_context* context) {
    return reinterpret_cast<Context*>(reinterpret_cast<std::byte*>(context) -
                                      offsetof(Context, verbs.context));
}
inline Ah* ah_of(struct ibv_ah* ah) { return reinterpret_cast<Ah*>(ah); }
inline Pd* pd_of(struct ibv_pd* pd) { return reinterpret_cast<Pd*>(pd); }
inline Cq* cq_of(struct ibv_cq* cq) { return reinterpret_cast<Cq*>(cq); }
inline Cq* cq_of(struct ibv_cq_ex* cq) { return reinterpret_cast<Cq*>(cq); }
inline Srq* srq_of(struct ibv_srq* srq) { return reinterpret_cast<Srq*>(srq); }
inline Xrcd* xrcd_of(struct ibv_xrcd* xrcd) { return reinterpret_cast<Xrcd*>(xrcd); }
inline Mw* mw_of(struct ibv_mw* mw) { return reinterpret_cast<Mw*>(mw); }
inline Qp* qp_of(struct ibv_qp* qp) { return reinterpret_cast<Qp*>(qp); }
inline Qp* qp_of(struct ibv_qp_ex* qp) { return reinterpret_cast<Qp*>(qp); }

/// Inserts `object` at the head of a doubly linked list: a context may have tens of thousands of them.
template <class T>
void link(T*& head, T* object) {
    object->previous = nullptr;
    object->next = head;
    if (head != nullptr) {
        head->previous = object;
    }
    head = object;
}
/// Removes `object` from a doubly linked list.
template <class T>
void unlink_from(T*& head, T* object) {
    T*& link_to = object->previous != nullptr ? object->previous->next : head;
    link_to = object->next;
    if (object->next != nullptr) {
        object->next->previous = object->previous;
    }
}

/// Removes `object` from a singly linked list.
template <class T>
void unlink(T*& head, T* object) {
    for (T** at = &head; *at != nullptr; at = &(*at)->next) {
        if (*at == object) {
            *at = object->next;
            return;
        }
    }
}

}  // namespace urnic::provider
