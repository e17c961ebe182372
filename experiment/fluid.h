// Where DCQCN comes to rest: the fixed point of its fluid model, for N flows of one bottleneck.
#pragma once

#include <cstdint>

#include "congestion/dcqcn.h"
#include "netsim/switch/switch.h"

namespace urnic::experiment {

struct FluidModel {
    congestion::DcqcnParameters dcqcn;
    TimeNs min_time_between_cnps_ns = 0;
    netsim::EcnOptions ecn;
    BitsPerSecond rate = 0;  // of the bottleneck
    std::uint32_t flows = 0;
    std::uint32_t packet_bytes = 0;  // on the wire
};

struct FluidPoint {
    bool is_valid = false;   // false: these parameters are none that the model is for, or nothing marks
    double marked = 0;       // part of the packets
    double queue_bytes = 0;  // that marks so many
    double alpha = 0;
    double target_gbit = 0;  // of each flow; the rate is an N-th of the bottleneck's
};

/// The model of "Congestion Control for Large-Scale RDMA Deployments" (SIGCOMM 2015, section 5) and "ECN or
/// Delay" (CoNEXT 2016, section 3), solved by halving. It is for parameters that cut with each CNP.
[[nodiscard]] FluidPoint fixed_point(const FluidModel& model);

/// What the model does in time, from the line's rate and an empty queue on, where all flows are alike: it
/// need not come to rest, and beyond Pmax it cannot.
struct FluidCourse {
    double utilisation = 0;  // of the bottleneck
    double queue_bytes = 0;  // on average
    double least_queue_bytes = 0;
    double most_queue_bytes = 0;
};
/// From `from` to `end`; a mark is felt `feedback_ns` after the packet came to the queue. fixed_point(model)
/// is valid.
[[nodiscard]] FluidCourse course(const FluidModel& model, TimeNs from, TimeNs end, TimeNs feedback_ns);

/// The short form of the second paper: the marking probability about the cube root of
/// AI N^2 / (tau' C^2) (1/B + N/(T C))^2.
[[nodiscard]] double approximate_marking(const FluidModel& model);

}  // namespace urnic::experiment
