#include "daemon/http/accept_header.h"

#include <gtest/gtest.h>

#include <string>

namespace urnic::daemon {
namespace {

TEST(AcceptHeader, OpenMetricsForWhoPrefersIt) {
    for (const char* accept :
         {"application/openmetrics-text", "Application/OpenMetrics-Text; Version=1.0.0; charset=utf-8",
          "application/openmetrics-text;version=\"1.0.0\"",
          // Prometheus 2.45 and 3.
          "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
          "text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
          "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/"
          "openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/"
          "plain;version=0.0.4;q=0.3,*/*;q=0.2",
          "*/*;q=0.1, application/openmetrics-text;q=0.2", " , application/openmetrics-text ;q=1.000 ,,",
          // What is said of text goes before what is said of everything.
          "text/plain;q=0.2, */*;q=0.9, application/openmetrics-text;q=0.3"}) {
        EXPECT_TRUE(is_openmetrics_preferred(accept)) << accept;
    }
}

TEST(AcceptHeader, TextForAllOthers) {
    for (const char* accept :
         {"", "*/*", "text/plain", "text/plain;version=0.0.4", "application/*",
          "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
          "application/openmetrics-text;q=0", "application/openmetrics-text;q=0.000",
          "application/openmetrics-text;version=0.0.1", "application/openmetrics-text;version=2.0.0",
          "application/openmetrics-text;q=0.5, text/plain", "application/openmetrics-text;q=0.5, */*;q=0.501",
          "application/openmetrics-text;q=0.5, text/*;q=0.6", "application/openmetrics-textual",
          "openmetrics-text"}) {
        EXPECT_FALSE(is_openmetrics_preferred(accept)) << accept;
    }
}

TEST(AcceptHeader, WhatCannotBeReadIsPassedOver) {
    for (const char* quality : {"", "2", "1.5", "1.001", "-1", "0.5x", ".5", "0,5", "0.1234", "1e0", "nan"}) {
        EXPECT_FALSE(is_openmetrics_preferred(std::string("application/openmetrics-text;q=") + quality))
            << quality;
    }
    EXPECT_FALSE(is_openmetrics_preferred(std::string(10'000, ';')));
    EXPECT_FALSE(is_openmetrics_preferred(std::string(10'000, ',')));
    EXPECT_FALSE(is_openmetrics_preferred("application/openmetrics-text;q"));
    EXPECT_TRUE(is_openmetrics_preferred("text/plain;q=x, application/openmetrics-text;q=0.1;;=;\""));
}

}  // namespace
}  // namespace urnic::daemon
