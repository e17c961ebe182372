// The operations this provider offers, as libibverbs calls them.
#pragma once

#include "verbs_provider/core/objects.h"

namespace urnic::provider {

// device.cc
int query_device(struct ibv_context*, const struct ibv_query_device_ex_input*, struct ibv_device_attr_ex*,
                 std::size_t attr_size);
int query_port(struct ibv_context*, std::uint8_t port_num, struct ibv_port_attr*);
int query_rt_values(struct ibv_context*, struct ibv_values_ex*);

// import.cc
struct verbs_context* import_context(struct ibv_device*, int cmd_fd);
struct ibv_pd* import_pd(struct ibv_context*, std::uint32_t handle);
void unimport_pd(struct ibv_pd*);
struct ibv_mr* import_mr(struct ibv_pd*, std::uint32_t handle);
void unimport_mr(struct ibv_mr*);
struct ibv_dm* import_dm(struct ibv_context*, std::uint32_t handle);
void unimport_dm(struct ibv_dm*);
/// A child of fork has none of its parent's objects, but the descriptor that names the context: this is the
/// context itself, or in a child one that it has imported for itself. nullptr with errno set.
Context* usable_context(Context& context);

// provider.cc
/// The device of that name, which libibverbs has in a list just now; nullptr: it has not.
struct ibv_device* find_device(const char* name);
/// Makes the context, taking over `cmd_fd`, with what the daemon answered; its event socket is fds[0].
/// nullptr with errno set; then the daemon's context is left as it is.
struct verbs_context* make_context(struct ibv_device* device, int cmd_fd, Session* session,
                                   std::uint32_t handle, const abi::DeviceCaps& caps, ReplyFds& fds);

// pd.cc
struct ibv_pd* alloc_pd(struct ibv_context*);
int dealloc_pd(struct ibv_pd*);
struct ibv_td* alloc_td(struct ibv_context*, struct ibv_td_init_attr*);
int dealloc_td(struct ibv_td*);
struct ibv_pd* alloc_parent_domain(struct ibv_context*, struct ibv_parent_domain_init_attr*);
/// Counts a user of a parent domain (nothing for an ordinary one) and back.
void ref_parent_domain(Pd* pd);
void unref_parent_domain(Pd* pd);

// mr.cc
struct ibv_mr* reg_mr(struct ibv_pd*, void* addr, std::size_t length, std::uint64_t iova, int access);
int rereg_mr(PrivateMr*, int flags, struct ibv_pd*, void* addr, std::size_t length, int access);
int dereg_mr(PrivateMr*);
struct ibv_mr* alloc_null_mr(struct ibv_pd*);
/// The region as the daemon described it; after an error nullptr, `mr` is freed then, and errno says it.
/// `type` is its kind for libibverbs (kMrNull...), which fills in what belongs to an ordinary one itself.
struct ibv_mr* finish_mr(Mr* mr, int error, struct ibv_pd* pd, const abi::RegMrReply& reply,
                         std::size_t length, int type);

// mw.cc
struct ibv_mw* alloc_mw(struct ibv_pd*, enum ibv_mw_type);
int dealloc_mw(struct ibv_mw*);

// dm.cc
struct ibv_dm* alloc_dm(struct ibv_context*, struct ibv_alloc_dm_attr*);
int free_dm(struct ibv_dm*);
/// The object for memory that the daemon gave, and takes back when it fails: nullptr with errno set.
struct ibv_dm* make_dm(Context& context, const abi::DmReply& reply, const ReplyFds& fds);
struct ibv_mr* reg_dm_mr(struct ibv_pd*, struct ibv_dm*, std::uint64_t offset, std::size_t length,
                         unsigned int access);

// cq.cc
struct ibv_cq* create_cq(struct ibv_context*, int entries, struct ibv_comp_channel*, int comp_vector);
struct ibv_cq_ex* create_cq_ex(struct ibv_context*, struct ibv_cq_init_attr_ex*);
int resize_cq(struct ibv_cq*, int entries);
int modify_cq(struct ibv_cq*, struct ibv_modify_cq_attr*);
int destroy_cq(struct ibv_cq*);
int req_notify_cq(struct ibv_cq*, int solicited_only);
/// Removes what is left of a QP's completions. Under the CQ's lock.
void clean_cq(Cq& cq, std::uint32_t qp_num);
/// The same of an XRC SRQ's.
void clean_cq_of_srq(Cq& cq, std::uint32_t srq_number);

// poll.cc
int poll_cq(struct ibv_cq*, int num_entries, struct ibv_wc*);
/// Copies the oldest completion out. Under the CQ's lock. Returns whether there was one.
bool take_one(Cq& cq, abi::Cqe& cqe);
/// Under the CQ's lock.
bool has_completion(const Cq& cq);
/// After a poll that may leave completions behind: if the CQ was armed while it held them, they get their
/// event now. NICs raise it as soon as such a CQ is armed, and programs that poll a bounded number of
/// completions for each event (perftest's two-way event mode) wait for ever without it. Under the CQ's lock.
void notify_rest(Cq& cq);

// poll_ex.cc
void set_poll_functions(Cq& cq, std::uint64_t wc_flags);

// flush.cc: completions made here once the daemon is dead.
/// Makes the completion of the oldest outstanding work request of the QPs of `cq`. Under the CQ's lock.
bool flush_one(Cq& cq, abi::Cqe& cqe);
/// Puts an event into the channel of `cq` if it is armed and there is something to poll.
void notify_flush(Cq& cq);

// qp.cc
struct ibv_qp* create_qp(struct ibv_pd*, struct ibv_qp_init_attr*);
struct ibv_qp* create_qp_ex(struct ibv_context*, struct ibv_qp_init_attr_ex*);
int modify_qp(struct ibv_qp*, struct ibv_qp_attr*, int mask);
int query_qp(struct ibv_qp*, struct ibv_qp_attr*, int mask, struct ibv_qp_init_attr*);
int destroy_qp(struct ibv_qp*);
struct ibv_qp* open_qp(struct ibv_context*, struct ibv_qp_open_attr*);

// srq.cc
struct ibv_srq* create_srq(struct ibv_pd*, struct ibv_srq_init_attr*);
struct ibv_srq* create_srq_ex(struct ibv_context*, struct ibv_srq_init_attr_ex*);
int modify_srq(struct ibv_srq*, struct ibv_srq_attr*, int mask);
int query_srq(struct ibv_srq*, struct ibv_srq_attr*);
int get_srq_num(struct ibv_srq*, std::uint32_t* number);
int destroy_srq(struct ibv_srq*);
int post_srq_recv(struct ibv_srq*, struct ibv_recv_wr*, struct ibv_recv_wr** bad_wr);

// xrcd.cc
struct ibv_xrcd* open_xrcd(struct ibv_context*, struct ibv_xrcd_init_attr*);
int close_xrcd(struct ibv_xrcd*);

// qp_attr.cc
abi::QpAttr to_abi(const struct ibv_qp_attr& attr, int mask);
void from_abi(const abi::QpAttr& in, struct ibv_qp_attr& attr);

// qp_options.cc
int modify_qp_rate_limit(struct ibv_qp*, struct ibv_qp_rate_limit_attr*);
int query_qp_data_in_order(struct ibv_qp*, enum ibv_wr_opcode, std::uint32_t flags);

// ah.cc
struct ibv_ah* create_ah(struct ibv_pd*, struct ibv_ah_attr*);
int destroy_ah(struct ibv_ah*);
/// The daemon's form of an address vector, and back.
abi::AddressVector to_abi(const struct ibv_ah_attr& attr);
struct ibv_ah_attr from_abi(const abi::AddressVector& av);

// mcast.cc
int attach_mcast(struct ibv_qp*, const union ibv_gid*, std::uint16_t lid);
int detach_mcast(struct ibv_qp*, const union ibv_gid*, std::uint16_t lid);

// post.cc
int post_send(struct ibv_qp*, struct ibv_send_wr*, struct ibv_send_wr** bad_wr);
int post_recv(struct ibv_qp*, struct ibv_recv_wr*, struct ibv_recv_wr** bad_wr);
/// Posts the bind of a type 1 window.
int bind_mw(struct ibv_qp*, struct ibv_mw*, struct ibv_mw_bind*);
/// The bits of an R_Key that are the application's (IBA 10.6.3). The others are the window's index.
inline constexpr std::uint32_t kConsumerKeyMask = 0xff;
/// `rkey`: its low 8 bits become those of the window's new key. Returns the new key.
std::uint32_t fill_bind(abi::SendWqe& wqe, const Mw& mw, std::uint32_t rkey,
                        const struct ibv_mw_bind_info& info);
/// Rings the doorbell of the QP's worker, and wakes the worker if it sleeps.
void ring_doorbell(Qp& qp);
/// Notes that the QP is in ERR: from now on posted receives ring the doorbell, so that they are flushed.
void mark_error(Qp& qp);

// post_ex.cc
/// 0, or EOPNOTSUPP when `ops` (enum ibv_qp_create_send_ops_flags) asks for more than the type has.
int set_post_functions(Qp& qp, QpType type, std::uint64_t ops);

// event.cc
/// Serves a completion channel's creation; the fd of its read end, or -1 with errno set.
int create_channel(Context& context);
/// The application closed `fd`: if it was a channel of this context, the channel ends.
void end_channel_of_fd(Context& context, int fd);
Channel* find_channel(Context& context, int read_fd);
/// Forwards events from the daemon to the application. Returns whether its socket is full.
bool forward_events(Context& context);
void send_fatal(Context& context);
/// Discards the unread events of a destroyed object, which is no event target any more, and waits until those
/// that the application has read are acknowledged. How many those are was counted here (may_report_*()): the
/// daemon is not believed. `has_async_events`: the daemon says that there were any, or says nothing; an event
/// that it denies passes no more.
void drain_cq_events(Cq& cq, bool has_async_events);
void drain_qp_events(Qp& qp, bool has_async_events);
void drain_srq_events(Srq& srq, bool has_async_events);
/// libibverbs has read an event from the context's socket, or from a channel: returns whether it may pass it
/// on, and counts it then. Not if it names no object, or one that is destroyed.
bool may_report_async(Context& context, const abi::AsyncEvent& event);
bool may_report_completion(Context& context, std::uint64_t element);
/// Writes the CQ's event into its channel. Returns false if the CQ has none, or the channel is full.
bool notify_channel(Cq& cq);

// libibverbs_hooks.cc
/// Diverts libibverbs' own write() and close() calls to this provider. Returns whether that succeeded.
bool install_hooks();
/// Lets the preloaded library ask about registered memory (memory/calls.h). Without that library nobody asks.
void install_memory_calls();
/// Contexts whose command fd the hooks know.
void register_context(Context& context);
void unregister_context(Context& context);
/// Taken before any other lock; a fork takes it too.
Mutex& hooks_mutex();

}  // namespace urnic::provider
