#include "tests/sim/walk/plan.h"

#include <algorithm>
#include <array>

namespace urnic::sim {

namespace {

constexpr std::array kImpairmentsNames = {"clear", "rough", "reordering", "storm"};
// Of ten walks.
constexpr std::array kImpairments = {Impairments::kClear,     Impairments::kRough, Impairments::kRough,
                                     Impairments::kRough,     Impairments::kRough, Impairments::kReordering,
                                     Impairments::kStorm,     Impairments::kRough, Impairments::kStorm,
                                     Impairments::kReordering};

struct Size {
    std::uint32_t max_message_bytes;
    std::uint32_t area_bytes;
    std::uint32_t buffer_bytes;
    std::uint32_t messages;
};
constexpr std::array kSizes = {
    Size{256, 4'096, 32'768, 24'000},       Size{4'096, 16'384, 131'072, 20'000},
    Size{16'384, 65'536, 262'144, 16'000},  Size{16'384, 32'768, 262'144, 16'000},
    Size{65'536, 131'072, 524'288, 12'000}, Size{1U << 20U, (1U << 20U) + 65'536, 2U << 20U, 8'000}};

void set_faults(WalkPlan& plan, Random& random) {
    LinkOptions& link = plan.link;
    const auto rate = [&random](std::uint32_t most) {
        return static_cast<std::uint32_t>(random.chance(250) ? 0 : random.below(most + 1));
    };
    switch (plan.impairments) {
        case Impairments::kClear:
            return;
        case Impairments::kRough:
            link.loss = rate(30);
            link.duplicate = rate(30);
            link.reorder = rate(30);
            link.corrupt = rate(10);
            break;
        case Impairments::kReordering:
            link.reorder = 20 + rate(280);
            link.duplicate = rate(50);
            break;
        case Impairments::kStorm:
            link.loss_burst = static_cast<std::uint32_t>(random.between(1, 8));
            link.loss = rate(100) / link.loss_burst;
            link.duplicate = rate(100);
            link.reorder = rate(100);
            link.corrupt = rate(50);
            plan.outage_per_mille = random.chance(500) ? 1 : 0;
            break;
    }
    link.reorder_ns = random.between(500, 30'000);
}

}  // namespace

WalkPlan make_plan(std::uint64_t seed) {
    Random random(seed ^ 0x9a17'0000'0000'0001ULL);
    WalkPlan plan;
    plan.seed = seed;
    plan.impairments = kImpairments[random.below(kImpairments.size())];
    const Size& size = kSizes[random.below(kSizes.size())];
    plan.max_message_bytes = size.max_message_bytes;
    plan.area_bytes = size.area_bytes;
    plan.landing_bytes = size.buffer_bytes;
    plan.receive_bytes = size.buffer_bytes;
    plan.messages = size.messages;
    plan.devices = static_cast<std::uint32_t>(random.between(2, 5));
    plan.has_switch = plan.devices > 2 || random.chance(300);
    plan.connections = static_cast<std::uint32_t>(random.between(1, 6));
    plan.cqs_per_device = static_cast<std::uint32_t>(random.between(1, 3));
    plan.is_ipv6 = random.chance(300);
    plan.vlan_tci = static_cast<std::uint16_t>(random.chance(300) ? random.between(1, 0xffff) : 0);
    plan.link.delay_ns = random.between(100, 5'000);
    plan.link.jitter_ns = random.chance(500) ? random.below(3'000) : 0;
    plan.link.rate_mbit =
        static_cast<std::uint32_t>(random.chance(300) ? 0 : random.between(10'000, 400'000));
    // The daemon never fills its own queue, a switch's may run over when several send to one: a loss too.
    plan.link.queue_bytes = plan.impairments == Impairments::kClear
                                ? 64U << 20U
                                : static_cast<std::uint32_t>(random.between(512, 2'048)) * 1'024;
    set_faults(plan, random);
    const bool breaks = plan.impairments == Impairments::kStorm || random.chance(400);
    plan.poison_per_10000 = breaks ? static_cast<std::uint32_t>(random.below(20)) : 0;
    plan.abort_per_10000 = breaks ? static_cast<std::uint32_t>(random.below(20)) : 0;
    plan.revoke_per_10000 = breaks ? static_cast<std::uint32_t>(random.below(20)) : 0;
    if (breaks && random.chance(150)) {
        plan.cq_entries = 8U << random.below(5);
    }
    plan.sqd_per_1000 = random.chance(300) ? 2 : 0;
    plan.pause_ns = static_cast<std::uint32_t>(random.between(500, 20'000));
    plan.most_posts = static_cast<std::uint32_t>(random.between(1, 12));
    return plan;
}

std::string WalkPlan::describe() const {
    const auto item = [](const char* name, std::uint64_t value) {
        return std::string(" ") + name + "=" + std::to_string(value);
    };
    return std::string("impairments=") + kImpairmentsNames[static_cast<std::size_t>(impairments)] +
           item("messages", messages) + item("devices", devices) + item("switch", has_switch ? 1 : 0) +
           item("connections", connections) + item("max_bytes", max_message_bytes) + item("loss", link.loss) +
           item("burst", link.loss_burst) + item("duplicate", link.duplicate) +
           item("reorder", link.reorder) + item("corrupt", link.corrupt) + item("delay_ns", link.delay_ns) +
           item("jitter_ns", link.jitter_ns) + item("mbit", link.rate_mbit) +
           item("poison", poison_per_10000) + item("abort", abort_per_10000) +
           item("revoke", revoke_per_10000) + item("cq_entries", cq_entries);
}

}  // namespace urnic::sim
