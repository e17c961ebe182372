// One side of a connection made with stock libibverbs, for tests that run under `urnic run`.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace urnic::e2e {

/// How long a test waits for something that must come. Long enough for a busy machine.
inline constexpr int kPatienceMs = 30'000;
/// Lets others run until `there()`: every wait for what a QP, a CQ or the daemon brings goes through here.
/// Returns false when it did not come within kPatienceMs; whoever waited says what. A test that has waited in
/// vain once has failed, and is not patient any more: a hundred missing completions do not take a hundred
/// times as long.
[[nodiscard]] bool comes(const std::function<bool()>& there);
/// comes() for input on a descriptor.
[[nodiscard]] bool becomes_readable(int fd);
/// The room before a datagram, and the Q_Key of those in the tests.
inline constexpr std::size_t kGrhBytes = 40;
inline constexpr std::uint32_t kQkey = 0x11111111;

struct ContextDeleter {
    void operator()(ibv_context* context) const { ibv_close_device(context); }
};
using Context = std::unique_ptr<ibv_context, ContextDeleter>;

/// Opens the device of that name; fails the test and returns null when it is not there.
[[nodiscard]] Context open_device(const std::string& name);

/// The next asynchronous event of a context, acknowledged: its element is good for comparing alone. None:
/// none came.
[[nodiscard]] std::optional<ibv_async_event> next_event(ibv_context* context);
/// It must come and be of this type, or the test fails.
ibv_async_event next_event(ibv_context* context, ibv_event_type type);
/// Whether one has come.
[[nodiscard]] bool has_event(const ibv_context* context);

/// A child that does not outlive this process, however a test ends; 0 in the child.
[[nodiscard]] pid_t fork_child();

/// Page-aligned zeroed memory.
class Buffer {
  public:
    explicit Buffer(std::size_t length_bytes);
    ~Buffer();
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    [[nodiscard]] std::uint8_t* data() const { return data_; }
    [[nodiscard]] std::size_t size() const { return length_bytes_; }

  private:
    std::uint8_t* data_;
    std::size_t length_bytes_;
};

struct EndpointOptions {
    ibv_qp_type type = IBV_QPT_RC;
    std::uint32_t max_send_wr = 128;
    std::uint32_t max_recv_wr = 128;
    std::uint32_t max_sge = 16;
    std::uint32_t max_inline = 256;
    int cq_entries = 1024;
    std::size_t buffer_bytes = 4U << 20U;
    bool signal_all = false;
    bool with_channel = false;
    bool extended = false;  // ibv_create_qp_ex and ibv_create_cq_ex
    // Of the extended CQ:
    std::uint64_t wc_flags = IBV_WC_STANDARD_FLAGS;
    std::uint32_t cq_flags = 0;  // ibv_create_cq_attr_flags
};

/// Device, PD, CQ, QP and one registered buffer. Members are public for tests to use directly.
class Endpoint {
  public:
    explicit Endpoint(const std::string& device, const EndpointOptions& options = {});
    ~Endpoint();
    Endpoint(const Endpoint&) = delete;
    Endpoint& operator=(const Endpoint&) = delete;

    [[nodiscard]] bool ok() const { return qp != nullptr && mr != nullptr; }
    [[nodiscard]] std::uint8_t* at(std::size_t offset) const { return buffer.data() + offset; }
    [[nodiscard]] std::uint64_t address(std::size_t offset) const {
        return reinterpret_cast<std::uint64_t>(at(offset));
    }
    [[nodiscard]] ibv_sge sge(std::size_t offset, std::size_t length) const {
        return {address(offset), static_cast<std::uint32_t>(length), mr->lkey};
    }

    void post_recv(std::uint64_t wr_id, std::vector<ibv_sge> sges) const;
    /// Posts one request; fails the test when it is refused.
    void post(ibv_send_wr& request) const;
    /// The next completion, waited for; status IBV_WC_GENERAL_ERR and a failed test when none comes.
    [[nodiscard]] ibv_wc poll_one() const;
    /// The next completion must be a success of this request.
    void expect_success(std::uint64_t wr_id, ibv_wc_opcode opcode) const;
    /// Returns whether no completion comes within a moment.
    [[nodiscard]] bool quiet() const;
    [[nodiscard]] ibv_qp_state state() const;

    Context context;
    Buffer buffer;
    ibv_pd* pd = nullptr;
    ibv_comp_channel* channel = nullptr;
    ibv_cq* cq = nullptr;
    ibv_cq_ex* cq_ex = nullptr;
    ibv_qp* qp = nullptr;
    ibv_qp_ex* qp_ex = nullptr;
    ibv_mr* mr = nullptr;

    [[nodiscard]] ibv_qp_type type() const { return qp->qp_type; }

  private:
    void create_queues(const EndpointOptions& options);
};

/// The GID of the port's IPv4 address; over InfiniBand the port's only one.
constexpr std::uint8_t kUsualGid = 0xff;
/// The way to a port of `peer`, for QPs and address handles: its GID, and its LID over InfiniBand.
[[nodiscard]] ibv_ah_attr address_of(ibv_context* peer, std::uint8_t gid_index = kUsualGid);

struct PathOptions {
    ibv_mtu mtu = IBV_MTU_4096;
    std::uint8_t gid_index = kUsualGid;
    std::uint16_t pkey_index = 0;
    std::uint8_t timeout = 14;
    std::uint8_t retry_cnt = 7;
    std::uint8_t rnr_retry = 7;
    std::uint8_t min_rnr_timer = 1;
    std::uint8_t max_rd_atomic = 16;
    unsigned access =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    std::uint32_t psn_a = 0xfffffd;  // wraps in every test
    std::uint32_t psn_b = 0x123456;
    std::uint32_t qkey = 0x11111111;  // UD
};

/// Takes both QPs to RTS; those of UD know nothing of each other then.
void connect(const Endpoint& a, const Endpoint& b, const PathOptions& path = {});
/// One step each, for tests of the transitions. Return what ibv_modify_qp returned.
int to_init(const Endpoint& endpoint, const PathOptions& path = {});
int to_rtr(const Endpoint& endpoint, const Endpoint& peer, std::uint32_t rq_psn,
           const PathOptions& path = {});
int to_rts(const Endpoint& endpoint, std::uint32_t sq_psn, const PathOptions& path = {});
int to_state(const Endpoint& endpoint, ibv_qp_state state);

/// Bytes that differ from position to position and from seed to seed.
void fill(std::uint8_t* to, std::size_t length, std::uint32_t seed);
/// Position of the first byte that is not fill()'s, or -1.
[[nodiscard]] std::ptrdiff_t first_difference(const std::uint8_t* data, std::size_t length,
                                              std::uint32_t seed);
/// Position of the first byte that is not `value`, or -1.
[[nodiscard]] std::ptrdiff_t first_other(const std::uint8_t* data, std::size_t length, std::uint8_t value);

/// A request with one element, signaled.
[[nodiscard]] ibv_send_wr request(ibv_wr_opcode opcode, std::uint64_t wr_id, ibv_sge* sges, int num_sge,
                                  unsigned flags = IBV_SEND_SIGNALED);
/// The same, with its remote side for WRITE and READ.
[[nodiscard]] ibv_send_wr rdma(ibv_wr_opcode opcode, std::uint64_t wr_id, ibv_sge* sges, int num_sge,
                               const Endpoint& peer, std::size_t remote_offset,
                               unsigned flags = IBV_SEND_SIGNALED);
[[nodiscard]] ibv_send_wr atomic(ibv_wr_opcode opcode, std::uint64_t wr_id, ibv_sge* sge,
                                 const Endpoint& peer, std::size_t remote_offset, std::uint64_t compare_add,
                                 std::uint64_t swap = 0);

}  // namespace urnic::e2e
