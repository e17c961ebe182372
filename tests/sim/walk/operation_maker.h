// Makes the random operations of one end of a connection: right ones, and now and then one that has to fail.
#pragma once

#include "tests/sim/sim_device.h"
#include "tests/sim/walk/oracle.h"
#include "tests/sim/walk/plan.h"

namespace urnic::sim {

class OperationMaker {
  public:
    static constexpr std::uint32_t kMaxInlineBytes = 256;
    static constexpr std::uint32_t kMaxSge = 4;

    /// The memory that operations name.
    struct Places {
        const Region* source;          // of SEND and WRITE
        Region landing;                // of READs and atomics
        Region area;                   // of the peer: WRITE, READ
        Region words;                  // of the peer: atomics
        Region counter;                // of the peer's device
        std::uint32_t window_key = 0;  // of a type 1 window here
    };
    /// What the connection allows.
    struct Limits {
        std::uint32_t mtu_bytes = 1'024;
        std::uint32_t receive_bytes = 0;  // room of each of the peer's receives
        bool has_rd_atomic = true;        // READs and atomics may be outstanding
        std::uint32_t poison_per_10000 = 0;
    };
    OperationMaker(const WalkPlan& plan, Random& random, const Places& places)
        : plan_(plan), random_(random), places_(places) {}

    /// Memory that was registered anew.
    void set_landing(const Region& landing) { places_.landing = landing; }
    void set_area(const Region& area) { places_.area = area; }

    /// Fills the oracle's next operation and the request for it. The caller decides what is signaled and
    /// posts both.
    void make(Oracle& oracle, const Limits& limits, Operation& operation, SendRequest& request);
    /// A WRITE of nothing: its completion tells that all before it are done.
    static void make_last(Operation& operation, SendRequest& request);

  private:
    struct Made {
        Oracle& oracle;
        const Limits& limits;
        Operation& operation;
        SendRequest& request;
    };
    [[nodiscard]] std::uint32_t random_length(const Limits& limits, std::uint32_t most);
    void make_local(Made& made);
    void make_send(Made& made);
    void make_write(Made& made);
    [[nodiscard]] bool make_read(Made& made);
    [[nodiscard]] bool make_atomic(Made& made);
    void take_source(Made& made, std::uint32_t length);
    [[nodiscard]] bool take_landed(Made& made, std::uint32_t most);
    [[nodiscard]] bool take_landing(Made& made, std::uint32_t length);
    void put_inline(Made& made);
    void poison(Made& made);
    void poison_local(Made& made);

    const WalkPlan& plan_;
    Random& random_;
    Places places_;
    std::uint64_t landing_end_ = 0;  // free-running; the place is this modulo the region's size
};

}  // namespace urnic::sim
