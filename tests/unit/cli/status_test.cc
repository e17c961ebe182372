// The tables of `urnic status`.
#include "cli/status.h"

#include <gtest/gtest.h>

#include "cli/launch_error.h"

namespace urnic::cli {
namespace {

TEST(Status, ValuesTablesAndObjects) {
    const std::string text = status_tables(R"({
        "daemon": {"version": "1.2.3", "pid": 42, "faults": 0},
        "devices": [
            {"name": "urnic0", "gids": ["fe80::1", "::ffff:1.2.3.4"], "qps": 3, "port": {"state": "ACTIVE"}},
            {"name": "urnic1", "gids": [], "qps": 0, "up": true, "counters": {"sent_pkts": 7, "rcvd_pkts": 0}}
        ],
        "clients": []
    })");
    EXPECT_EQ(text,
              "  clients  -\n"
              "\n"
              "daemon\n"
              "  version  1.2.3\n"
              "  pid      42\n"
              "  (1 more are zero)\n"
              "\n"
              "devices\n"
              "  name    gids                     qps  up\n"
              "  urnic0  fe80::1, ::ffff:1.2.3.4  3    -\n"
              "  urnic1  -                        0    true\n"
              "\n"
              "devices urnic0: port\n"
              "  state  ACTIVE\n"
              "\n"
              "devices urnic1: counters\n"
              "  sent_pkts  7\n"
              "  (1 more are zero)\n");
}

TEST(Status, AWideTableIsTurned) {
    std::string row = R"({"name": "a")";
    for (int i = 0; i < 20; ++i) {
        row += ", \"column" + std::to_string(i) + "\": " + std::to_string(i == 3 ? 12 : 0);
    }
    const std::string text = status_tables("{\"wide\": [" + row + "}]}");
    EXPECT_NE(text.find("\nwide\n  name     a\n  column3  12\n  (19 more are zero)\n"), std::string::npos)
        << text;
}

TEST(Status, WhatIsNoStatusIsRefused) {
    for (const char* text : {"", "[]", "{\"a\":", "null"}) {
        EXPECT_THROW((void)status_tables(text), LaunchError) << text;
    }
}

}  // namespace
}  // namespace urnic::cli
