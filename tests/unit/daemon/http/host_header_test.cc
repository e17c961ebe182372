#include "daemon/http/host_header.h"

#include <gtest/gtest.h>

namespace urnic::daemon {
namespace {

TEST(HostHeader, AddressesAndLocalhost) {
    for (const char* host : {"127.0.0.1", "127.0.0.1:8471", "10.1.2.3:80", "[::1]", "[::1]:8471",
                             "[fe80::1]:1", "localhost", "LocalHost:8471"}) {
        EXPECT_TRUE(is_numeric_or_localhost(host)) << host;
    }
}

TEST(HostHeader, NamesOfOthers) {
    for (const char* host :
         {"", "evil.example", "evil.example:8471", "127.0.0.1.evil.example", "localhost.evil.example",
          "localhos", "localhostx", "::1", "[::1", "[evil.example]", "[::1]x", "[]", "127.0.0.1:evil",
          "127.0.0.1:80:80", "127.1", "user@127.0.0.1", ":80"}) {
        EXPECT_FALSE(is_numeric_or_localhost(host)) << host;
    }
}

}  // namespace
}  // namespace urnic::daemon
