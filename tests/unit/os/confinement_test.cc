#include "os/confinement.h"

#include <gtest/gtest.h>

namespace urnic {
namespace {

constexpr const char* kRefused = "cannot make the run directory /run/urnic: Permission denied";
constexpr const char* kNotPermitted = "interface v0: cannot make a packet socket: Operation not permitted";

TEST(ConfinementHint, ByOurProfile) {
    const std::string hint = confinement_hint("urnicd (enforce)", kRefused);
    EXPECT_NE(hint.find("profile \"urnicd\""), std::string::npos) << hint;
    EXPECT_NE(hint.find("/etc/apparmor.d/local/urnicd"), std::string::npos) << hint;
    EXPECT_NE(hint.find("--grep DENIED"), std::string::npos) << hint;
    EXPECT_EQ(confinement_hint("urnicd (enforce)", kNotPermitted), hint);
}

TEST(ConfinementHint, ByTheProfileOfAContainer) {
    const std::string hint = confinement_hint("docker-default (enforce)", kNotPermitted);
    EXPECT_NE(hint.find("profile \"docker-default\""), std::string::npos) << hint;
    EXPECT_NE(hint.find("apparmor=unconfined"), std::string::npos) << hint;
    EXPECT_EQ(hint.find("/etc/apparmor.d"), std::string::npos) << hint;
}

TEST(ConfinementHint, BySelinux) {
    const std::string hint = confinement_hint("system_u:system_r:container_t:s0:c1,c2", kRefused);
    EXPECT_NE(hint.find("as container_t"), std::string::npos) << hint;
    EXPECT_NE(hint.find("label=disable"), std::string::npos) << hint;
}

TEST(ConfinementHint, NoneForWhatNobodyConfines) {
    for (const char* label : {"", "unconfined", "kernel", "urnicd (complain)",
                              "unconfined_u:unconfined_r:unconfined_t:s0-s0:c0.c1023",
                              "system_u:system_r:unconfined_service_t:s0", "a:b"}) {
        EXPECT_EQ(confinement_hint(label, kRefused), "") << label;
    }
}

TEST(ConfinementHint, NoneForOtherErrors) {
    EXPECT_EQ(confinement_hint("urnicd (enforce)", "cannot run worker 0 on CPU 4000: Invalid argument"), "");
}

}  // namespace
}  // namespace urnic
