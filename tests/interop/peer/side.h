// One side of a test between two RNICs: a queue pair, registered memory, and what the other side has told
// about its own.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/interop/peer/link.h"

namespace urnic::interop {

struct Options {
    std::string device;  // empty: the first
    std::string host;    // empty: listen
    int port = 18600;
    int gid_index = 1;
    int mtu = 1024;    // path MTU
    int timeout = 20;  // local ACK timeout, as ibv_qp_attr has it
    int retries = 6;   // 7 would be for ever with rxe
    int count = 20;    // atomics
    int rounds = 1;    // times that the messages of all sizes are sent
    std::string test;
};

/// What was found wrong; ends the test.
class Wrong : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

inline void check(bool right, const std::string& what) {
    if (!right) {
        throw Wrong(what);
    }
}

struct Address {
    ibv_gid gid;
    std::uint32_t qpn;
    std::uint32_t psn;
    std::uint64_t memory;
    std::uint32_t rkey;
    std::uint32_t active_mtu;  // bytes
};

inline constexpr std::size_t kMemory = 1U << 20U;
inline constexpr int kDepth = 256;
inline constexpr std::uint32_t kQkey = 0x11111111;

struct Closer {
    void operator()(ibv_context* it) const { ibv_close_device(it); }
    void operator()(ibv_pd* it) const { ibv_dealloc_pd(it); }
    void operator()(ibv_mr* it) const { ibv_dereg_mr(it); }
    void operator()(ibv_cq* it) const { ibv_destroy_cq(it); }
    void operator()(ibv_qp* it) const { ibv_destroy_qp(it); }
    void operator()(ibv_ah* it) const { ibv_destroy_ah(it); }
    void operator()(ibv_mw* it) const { ibv_dealloc_mw(it); }
};
template <typename T>
using Owned = std::unique_ptr<T, Closer>;

/// How a queue pair answers and repeats, where a case wants it otherwise.
struct Patience {
    int rnr_retry = 6;
    int min_rnr_timer = 12;
};

class Side {
  public:
    Side(const Options& options, Link link);

    /// The side that asks: the one that connected.
    [[nodiscard]] bool active() const { return !options_.host.empty(); }
    [[nodiscard]] const Options& options() const { return options_; }
    [[nodiscard]] Link& link() { return link_; }
    [[nodiscard]] const Address& peer() const { return peer_; }
    [[nodiscard]] ibv_pd* pd() const { return pd_.get(); }
    [[nodiscard]] ibv_mr* mr() const { return mr_.get(); }
    [[nodiscard]] ibv_qp* qp() const { return qp_.get(); }
    [[nodiscard]] std::span<std::uint8_t> memory() { return memory_; }

    /// Makes a queue pair and connects it with the other side's (a UD one only becomes ready).
    void connect(ibv_qp_type type, Patience patience = {});
    /// UD: how the other side, or a group, is addressed.
    [[nodiscard]] Owned<ibv_ah> address_handle(const ibv_gid& gid) const;

    /// `sge.length` 0 posts one without memory.
    void post_receive(std::uint64_t id, const ibv_sge& sge);
    /// A signaled request.
    void post(ibv_send_wr request);
    [[nodiscard]] ibv_sge piece(std::size_t offset, std::size_t length) const;
    /// A WRITE or READ between the same places of both memories.
    [[nodiscard]] ibv_send_wr request(ibv_wr_opcode opcode, ibv_sge& sge, std::uint64_t remote_offset) const;
    /// The next completion. Throws Wrong when none comes.
    ibv_wc completion();
    /// The next completion, which must be a success with this id.
    ibv_wc success(std::uint64_t id);

  private:
    void to_init(ibv_qp_type type) const;
    void to_ready_rc(ibv_qp_type type, Patience patience) const;
    void to_ready_ud() const;

    Options options_;
    Link link_;
    Owned<ibv_context> context_;
    Owned<ibv_pd> pd_;
    std::vector<std::uint8_t> memory_;
    Owned<ibv_mr> mr_;
    Owned<ibv_cq> cq_;
    Owned<ibv_qp> qp_;
    Address mine_{}, peer_{};
};

/// Byte `index` of the message number `message` of one side.
[[nodiscard]] inline std::uint8_t pattern(std::uint32_t message, std::size_t index) {
    return static_cast<std::uint8_t>((index * 7) + (index >> 8U) + (message * 37) + 11);
}
void fill(std::span<std::uint8_t> bytes, std::uint32_t message);
/// Throws Wrong with the first byte that differs.
void verify(std::span<const std::uint8_t> bytes, std::uint32_t message, const std::string& what);
/// Throws Wrong when a byte is not `value`.
void verify_untouched(std::span<const std::uint8_t> bytes, std::uint8_t value, const std::string& what);

}  // namespace urnic::interop
