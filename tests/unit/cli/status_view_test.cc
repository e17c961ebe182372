// The pages of `urnic status`, and what it remembers from one look to the next.
#include "cli/status_view.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/last_look.h"
#include "cli/launch_error.h"
#include "cli/status_troubles.h"

namespace urnic::cli {
namespace {

using PageJson = nlohmann::ordered_json;

const PageJson kNothing;

PageJson device_named(const std::string& name) {
    PageJson device = PageJson::parse(R"({
        "name": "", "gids": ["fe80:0000:0000:0000:0000:c6ff:fe12:0001", "0000:0000:0000:0000:0000:ffff:c612:0001"],
        "port": {"number": 1, "state": "ACTIVE", "mtu": 4096, "rx_missed": 0}, "qps": 2, "mrs": 3,
        "cm": {"records": 1, "listeners": 2, "timeouts": 0},
        "pfc": {"rx_malformed": 0, "priorities": [{"paused": false, "paused_us": 0, "rx_pause": 0},
                                                  {"paused": false, "paused_us": 7, "rx_pause": 3}]},
        "counters": {"sent_pkts": 5, "rcvd_pkts": 0, "sent_bytes": 1000, "rcvd_bytes": 0,
                     "local_ack_timeout_err": 0, "out_of_buffer": 0}})");
    device["name"] = name;
    return device;
}

PageJson program(const std::string& name, int qps) {
    PageJson client =
        PageJson::parse(R"({"id": 1, "pid": 4711, "uid": 0, "registered_bytes": 1048576, "cqs": [{}],
        "mrs": [{"device": "urnic0", "addr": 65536, "length": 4096, "converted": true}]})");
    client["program"] = name;
    client["qps"] = PageJson::array();
    for (int i = 0; i < qps; ++i) {
        client["qps"].push_back({{"device", "urnic0"},
                                 {"qpn", 17 + i},
                                 {"type", "RC"},
                                 {"state", "RTS"},
                                 {"peer_qpn", 18},
                                 {"worker", 0}});
    }
    return client;
}

PageJson status(int rnics = 2, int programs = 1) {
    PageJson all = PageJson::parse(R"({"daemon": {"version": "1.2.3", "pid": 42, "uptime_seconds": 100},
        "devices": [], "workers": [{"index": 0, "long_rounds": 0}], "networks": [], "faults": [], "clients": []})");
    for (int i = 0; i < rnics; ++i) all["devices"].push_back(device_named(fmt::format("urnic{}", i)));
    for (int i = 0; i < programs; ++i) all["clients"].push_back(program(fmt::format("program{}", i), i % 3));
    return all;
}

std::string page(const PageJson& now, const PageJson& earlier = kNothing, double seconds = 100,
                 StatusView view = StatusView::kSummary, const std::string& device = "") {
    return status_page(view, device, now, earlier, seconds);
}

TEST(StatusPage, OneScreen) {
    EXPECT_EQ(page(status()),
              "urnicd 1.2.3, process 42, up 100 s; 2 RNICs, 1 worker\n"
              "\n"
              "  RNIC    port    address          QPs  MRs  sent    received\n"
              "  urnic0  ACTIVE  198.18.0.1 (+1)  2    3    10 B/s  0 B/s\n"
              "  urnic1  ACTIVE  198.18.0.1 (+1)  2    3    10 B/s  0 B/s\n"
              "  rates since the daemon's start\n"
              "\n"
              "  program   process  uid  QPs  CQs  MRs  registered\n"
              "  program0  4711     0    0    1    1    1.00 MiB\n"
              "\n"
              "Nothing has gone wrong since the daemon's start.\n");
}

TEST(StatusPage, FitsATerminalWhateverThereIs) {
    PageJson now = status(70, 90);
    for (PageJson& device : now["devices"]) {
        device["port"]["state"] = "DOWN";
        device["counters"]["out_of_buffer"] = 123'456'789;
        device["counters"]["sent_bytes"] = 999'999'999'999;
        device["gids"].push_back("2001:0db8:0000:0000:0000:0000:0000:0001");
    }
    now["clients"][0]["program"] = "a-program-of-a-very-long-name";
    const std::string text = page(now);
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 24) << text;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
    EXPECT_NE(text.find("and 64 more (urnic status counters DEVICE)"), std::string::npos) << text;
    EXPECT_NE(text.find("and 87 more (urnic status qps)"), std::string::npos) << text;
    EXPECT_NE(text.find("and 136 more (urnic status counters)"), std::string::npos) << text;
}

TEST(StatusPage, TroublesFitALine) {
    PageJson now = status(1);
    for (const char* counter : {"local_ack_timeout_err",
                                "out_of_sequence",
                                "packet_seq_err",
                                "out_of_buffer",
                                "rnr_nak_retry_err",
                                "req_transport_retries_exceeded",
                                "req_rnr_retries_exceeded",
                                "resp_remote_access_errors",
                                "req_remote_access_errors",
                                "req_remote_invalid_request",
                                "resp_local_length_error",
                                "cq_overrun",
                                "rx_icrc_encapsulated",
                                "drop_malformed",
                                "drop_unknown_qp",
                                "drop_wrong_sender",
                                "drop_qp_state",
                                "drop_pkey",
                                "drop_qkey",
                                "drop_no_mbuf",
                                "drop_tx_full",
                                "drop_steering_full",
                                "drop_mad_full",
                                "drop_port_down",
                                "drop_no_neighbour"}) {
        now["devices"][0]["counters"][counter] = 123'456'789;
    }
    for (const char* counter :
         {"timeouts", "dropped_backlog", "dropped_half_open", "dropped_full", "malformed"}) {
        now["devices"][0]["cm"][counter] = 123'456'789;
    }
    now["devices"][0]["port"]["rx_missed"] = 123'456'789;
    const std::vector<std::string> all = troubles(now, kNothing);
    EXPECT_EQ(all.size(), 31U) << "each of them tells of something";
    for (const std::string& one : all) EXPECT_LE(one.size(), 78U) << one;
}

TEST(StatusPage, RatesAreThoseSinceTheLastLook) {
    const PageJson earlier = status();
    PageJson now = status();
    now["devices"][1]["counters"]["sent_bytes"] = 1000 + 4'500'000'000;
    const std::string text = page(now, earlier, 3);
    EXPECT_NE(text.find("urnic0  ACTIVE  198.18.0.1 (+1)  2    3    0 B/s "), std::string::npos) << text;
    EXPECT_NE(text.find("urnic1  ACTIVE  198.18.0.1 (+1)  2    3    1.50 GB/s "), std::string::npos) << text;
    EXPECT_NE(text.find("rates since the last look, 3.0 s ago"), std::string::npos) << text;
}

TEST(StatusPage, WhatIsWrongIsSaidInWordsAndOnce) {
    PageJson now = status();
    now["devices"][0]["counters"]["local_ack_timeout_err"] = 4;
    now["devices"][1]["port"]["state"] = "DOWN";
    now["devices"][1]["cm"]["timeouts"] = 2;
    now["devices"][1]["pfc"]["priorities"][1]["paused"] = true;
    now["workers"][0]["long_rounds"] = 1;
    now["faults"].push_back({{"type", "drop"}});
    now["networks"] = PageJson::parse(
        R"([{"fabric": "lab", "ports": [{"device": "urnic0", "dropped": 9}], "trunks": []}])");
    const std::vector<std::string> all = troubles(now, kNothing);
    ASSERT_EQ(all.size(), 7U);
    EXPECT_EQ(all[0], "urnic0: 4 timeouts without an ACK: loss, MTU of the path, or no peer");
    EXPECT_EQ(all[1], "urnic1: its port is down (urnic port urnic1 up)");
    EXPECT_EQ(all[2], "urnic1: 2 connection requests were not answered");
    EXPECT_EQ(all[3], "urnic1: priority 1 is paused by the network (PFC)");
    EXPECT_EQ(all[4], "worker 0: 1 rounds took longer than 50 ms (the log says whose)");
    EXPECT_EQ(all[5], "fabric lab to urnic0: 9 packets dropped: the switch's queue was full");
    EXPECT_EQ(all[6], "one fault is in force, which is meant to do harm (urnic fault list)");
    // What was counted already is no news; what lasts is told again.
    EXPECT_EQ(troubles(now, now), (std::vector<std::string>{all[1], all[3], all[6]}));
}

TEST(StatusPage, ObjectsOfPrograms) {
    const PageJson now = status(2, 2);
    EXPECT_EQ(page(now, kNothing, 1, StatusView::kQps),
              "  RNIC    QP  type  state  peer QP  worker  program   process\n"
              "  urnic0  17  RC    RTS    18       0       program1  4711\n");
    EXPECT_EQ(page(now, kNothing, 1, StatusView::kQps, "urnic1"), "There are no QPs.\n");
    EXPECT_EQ(page(status(), kNothing, 1, StatusView::kMrs),
              "  RNIC    address  size      octets  reached by  program   process\n"
              "  urnic0  0x10000  4.00 KiB  4096    mapping     program0  4711\n");
}

TEST(StatusPage, CountersThatAreNotZero) {
    const PageJson now = status();
    EXPECT_EQ(page(now, kNothing, 1, StatusView::kCounters),
              "  counter                      urnic0  urnic1\n"
              "  sent_pkts                    5       5\n"
              "  sent_bytes                   1000    1000\n"
              "  paused_us (PFC, priority 1)  7       7\n"
              "  rx_pause (PFC, priority 1)   3       3\n"
              "  (7 more are zero)\n");
    EXPECT_EQ(page(now, kNothing, 1, StatusView::kCm, "urnic1"),
              "  connection manager  urnic1\n"
              "  records             1\n"
              "  listeners           2\n"
              "  (1 more are zero)\n");
}

TEST(StatusPage, Networks) {
    PageJson now = status();
    EXPECT_EQ(page(now, kNothing, 1, StatusView::kNetworks),
              "There is no emulated network ([[network]], see urnicd(8)).\n");
    now["networks"] = PageJson::parse(R"([{"fabric": "lab", "ports": [{"device": "urnic0", "sent_bytes": 2048,
        "delivered_bytes": 1024, "marked": 1, "dropped": 2, "queue_bytes": 3, "max_queue_bytes": 4, "pauses_sent": 5}],
        "trunks": []}])");
    EXPECT_EQ(page(now, kNothing, 1, StatusView::kNetworks),
              "  fabric  port    sent      delivered  marked  dropped  queue  longest  pauses\n"
              "  lab     urnic0  2.00 KiB  1.00 KiB   1       2        3 B    4 B      5\n");
}

TEST(StatusPage, WhatThereIsNoneOf) {
    EXPECT_FALSE(status_view_named("qp").has_value());
    EXPECT_THROW((void)page(status(), kNothing, 1, StatusView::kQps, "urnic7"), LaunchError);
    EXPECT_THROW((void)page(PageJson::parse(R"({"devices": 7})")), LaunchError);
}

class Look : public testing::Test {
  protected:
    Look() {
        std::string name = "/tmp/urnic-last-look-XXXXXX";
        directory_ = mkdtemp(name.data());
        (void)setenv("XDG_RUNTIME_DIR", directory_.c_str(), 1);
    }
    ~Look() override {
        (void)unsetenv("XDG_RUNTIME_DIR");
        std::filesystem::remove_all(directory_);
    }
    [[nodiscard]] std::filesystem::path file() const {
        return std::filesystem::directory_iterator(directory_)->path();
    }
    std::filesystem::path directory_;
};

TEST_F(Look, OfFourDaemons) {
    const PageJson now = status();
    for (const char* socket : {"/run/a", "/run/b", "/run/c", "/run/d", "/run/e"}) {
        EXPECT_TRUE(exchange_last_look(socket, now).status.is_null());
    }
    EXPECT_TRUE(exchange_last_look("/run/b", now).status.is_object());
    EXPECT_TRUE(exchange_last_look("/run/a", now).status.is_null());
}

TEST_F(Look, IsRememberedForThisDaemon) {
    PageJson now = status();
    EXPECT_TRUE(exchange_last_look("/run/a", now).status.is_null());
    EXPECT_EQ(exchange_last_look("/run/a", now).status.at("daemon"), now.at("daemon"));
    EXPECT_TRUE(exchange_last_look("/run/b", now).status.is_null());
    now["daemon"]["pid"] = 43;
    EXPECT_TRUE(exchange_last_look("/run/a", now).status.is_null()) << "another daemon";
    EXPECT_EQ(exchange_last_look("/run/a", now).status.at("daemon"), now.at("daemon"));
}

TEST_F(Look, AFileThatIsDamagedIsNone) {
    const PageJson now = status();
    (void)exchange_last_look("/run/a", now);
    const std::filesystem::path damaged = file();
    for (const char* text : {"", "{", "[]", "[7]", R"([{"socket": "/run/a", "at": "then", "status": 7}])"}) {
        std::ofstream(damaged) << text;
        EXPECT_TRUE(exchange_last_look("/run/a", now).status.is_null()) << text;
        (void)exchange_last_look("/run/a", now);
        EXPECT_TRUE(exchange_last_look("/run/a", now).status.is_object()) << text;
    }
}

TEST_F(Look, OthersDoNotWriteIt) {
    const PageJson now = status();
    (void)exchange_last_look("/run/a", now);
    struct stat found {};
    ASSERT_EQ(stat(file().c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777U, 0600U);
    // In a directory that others may write to nothing is believed.
    ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
    const auto before = std::filesystem::last_write_time(file());
    const LastLook last = exchange_last_look("/run/a", now);
    EXPECT_EQ(std::filesystem::last_write_time(file()), before);
    EXPECT_TRUE(last.status.is_null());
}

}  // namespace
}  // namespace urnic::cli
