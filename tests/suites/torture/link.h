// Two connected QPs, one thread's, with everything that they need.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>

#include "tests/suites/torture/random.h"
#include "tests/suites/torture/shared.h"

namespace urnic::torture {

/// Operations of a batch at most: each has a slot of its own in the memory of both sides.
inline constexpr unsigned kSlots = 16;
/// UD puts 40 bytes in front of the data.
inline constexpr std::uint32_t kGrhBytes = 40;
inline constexpr std::uint32_t kMaxInline = 64;

/// One end of a link. What is null does not exist.
struct Side {
    ibv_context* context = nullptr;
    ibv_gid gid{};
    ibv_pd* pd = nullptr;
    ibv_comp_channel* channel = nullptr;
    ibv_cq* cq = nullptr;
    ibv_srq* srq = nullptr;
    std::uint32_t srq_number = 0;
    ibv_xrcd* xrcd = nullptr;
    ibv_mr* mr = nullptr;
    ibv_mw* mw = nullptr;
    std::uint32_t rkey = 0;
    ibv_qp* qp = nullptr;
    ibv_ah* ah = nullptr;
    std::uint8_t* memory = nullptr;
    unsigned events = 0;

    [[nodiscard]] std::uint8_t* slot(unsigned index) const { return memory + index * slot_bytes; }
    std::size_t slot_bytes = 0;
};

enum class Receives : std::uint8_t { kQp, kSrq };

/// How a link is made; drawn before anything is created.
struct LinkPlan {
    ibv_qp_type type = IBV_QPT_RC;  // IBV_QPT_XRC_SEND: the second side receives through an XRC SRQ
    std::array<unsigned, 2> devices{};
    bool own_contexts = false;
    bool channels = false;
    Receives receives = Receives::kQp;
    int window = 0;  // 1, 2: the peer's memory is reached through a memory window of that type
    ibv_mtu mtu = IBV_MTU_1024;
    std::uint32_t psn = 0;
};

class Link {
  public:
    Link(Shared& shared, Random& random, std::uint8_t* memory, std::size_t bytes);
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;

    /// Creates and connects. Returns false when the device does not offer what the plan needs; nothing is
    /// left then.
    [[nodiscard]] bool open(const LinkPlan& plan);
    /// Destroys everything. QPs may be in any state and have anything outstanding.
    void close();

    [[nodiscard]] const LinkPlan& plan() const { return plan_; }
    [[nodiscard]] Side& side(unsigned index) { return sides_[index]; }
    [[nodiscard]] Random& random() { return random_; }
    [[nodiscard]] Shared& shared() { return shared_; }
    [[nodiscard]] bool xrc() const { return plan_.type == IBV_QPT_XRC_SEND; }
    /// The next completion, polled or waited for; fails when none comes.
    [[nodiscard]] ibv_wc wait(unsigned side);
    void post_receive(unsigned side, std::uint64_t wr_id, std::uint8_t* at, std::uint32_t length);
    void to_error(unsigned side);

  private:
    [[nodiscard]] bool create_side(unsigned index);
    [[nodiscard]] bool create_receives(Side& side, bool receiver);
    [[nodiscard]] ibv_qp* create_qp(Side& side, bool receiver);
    void connect(unsigned index);
    void connect_ud(Side& side, const Side& peer);
    [[nodiscard]] bool bind_window(Side& side);
    void wait_for_event(Side& side);

    Shared& shared_;
    Random& random_;
    std::uint8_t* memory_;
    std::size_t bytes_;
    LinkPlan plan_;
    std::array<Side, 2> sides_;
};

}  // namespace urnic::torture
