// Which CRC-32 variant is taken when each is measured: variants and a clock that the test makes up.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rnic/wire/crc/crc32.h"
#include "rnic/wire/crc/crc32_variants.h"

namespace urnic::wire {
namespace {

TimeNs clock_ns =
    0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): variants are plain functions
unsigned copies = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): the same

TimeNs now() { return clock_ns; }

/// Copies nothing, in so many nanoseconds.
template <TimeNs took>
std::uint32_t copy_in(std::uint32_t crc, std::byte* /*to*/, const std::byte* /*from*/,
                      std::size_t /*length*/) {
    clock_ns += took;
    return crc;
}
/// Its first twelve calls take a while longer.
std::uint32_t copy_interrupted(std::uint32_t crc, std::byte* /*to*/, const std::byte* /*from*/,
                               std::size_t /*length*/) {
    clock_ns += ++copies <= 12 ? 1'000'000 : 100;
    return crc;
}
std::uint32_t copy_must_not_run(std::uint32_t crc, std::byte* /*to*/, const std::byte* /*from*/,
                                std::size_t /*length*/) {
    ADD_FAILURE() << "ran what this CPU has not";
    return crc;
}

using Copy = decltype(Crc32Variant::copy);
Crc32Variant variant(const char* name, Copy copy, bool supported = true) {
    bool (*const answer)() = supported ? +[] { return true; } : +[] { return false; };
    return {name, answer, nullptr, copy, nullptr, nullptr, nullptr, nullptr};
}

std::string fastest_of(const std::vector<Crc32Variant>& variants) {
    std::vector<const Crc32Variant*> list;
    list.reserve(variants.size());
    for (const Crc32Variant& each : variants) {
        list.push_back(&each);
    }
    copies = 0;
    return fastest_variant(list, now).name;
}

TEST(Crc32Choice, TakesWhatIsMeasuredFaster) {
    EXPECT_EQ(fastest_of({variant("wide", copy_in<900>), variant("table", copy_in<100>)}), "table");
    EXPECT_EQ(fastest_of({variant("wide", copy_in<100>), variant("table", copy_in<900>)}), "wide");
    EXPECT_EQ(fastest_of({variant("wide", copy_in<900>), variant("narrow", copy_in<100>),
                          variant("table", copy_in<400>)}),
              "narrow");
}

TEST(Crc32Choice, KeepsTheOrderWhenTheDifferenceIsSmall) {
    EXPECT_EQ(fastest_of({variant("wide", copy_in<120>), variant("table", copy_in<100>)}), "wide");
    EXPECT_EQ(fastest_of({variant("wide", copy_in<130>), variant("table", copy_in<100>)}), "table");
}

TEST(Crc32Choice, AnInterruptionDecidesNothing) {
    EXPECT_EQ(fastest_of({variant("wide", copy_interrupted), variant("table", copy_in<300>)}), "wide");
}

TEST(Crc32Choice, LeavesOutWhatTheCpuHasNot) {
    EXPECT_EQ(fastest_of({variant("wide", copy_must_not_run, false), variant("table", copy_in<900>)}),
              "table");
}

TEST(Crc32Choice, AClockThatStandsChangesNothing) {
    const std::string before = crc32_variant();
    choose_crc32_variant(now);
    EXPECT_EQ(crc32_variant(), before);
}

}  // namespace
}  // namespace urnic::wire
