#include "daemon/http/qp_path.h"

#include <gtest/gtest.h>

namespace urnic::daemon {
namespace {

TEST(QpPath, PageAndEvents) {
    const auto page = parse_qp_path("/qp/urnic0/0x11");
    ASSERT_TRUE(page);
    EXPECT_EQ(page->qp, (TracedQp{"urnic0", 0x11}));
    EXPECT_FALSE(page->is_events);
    const auto events = parse_qp_path("/qp/urnic 1/16777215/events");
    ASSERT_TRUE(events);
    EXPECT_EQ(events->qp, (TracedQp{"urnic 1", 0xffffff}));
    EXPECT_TRUE(events->is_events);
}

TEST(QpPath, WhatIsNone) {
    for (const char* const path : {"",
                                   "/",
                                   "/qp",
                                   "/qp/",
                                   "/qp//17",
                                   "/qp/urnic0",
                                   "/qp/urnic0/",
                                   "/qp/urnic0/0x",
                                   "/qp/urnic0/x11",
                                   "/qp/urnic0/17x",
                                   "/qp/urnic0/-1",
                                   "/qp/urnic0/+1",
                                   "/qp/urnic0/ 17",
                                   "/qp/urnic0/16777216",
                                   "/qp/urnic0/0x1000000",
                                   "/qp/urnic0/99999999999999999999",
                                   "/qp/urnic0/17/",
                                   "/qp/urnic0/17/events/",
                                   "/qp/urnic0/events",
                                   "/qp/events",
                                   "/qp/urnic0/17/18",
                                   "/QP/urnic0/17",
                                   "qp/urnic0/17",
                                   "/qp/urnic0/17/events/events"}) {
        EXPECT_FALSE(parse_qp_path(path)) << path;
    }
}

}  // namespace
}  // namespace urnic::daemon
