// The waterfall of messages, from traces with and without WQEs.
#include "observe/view/messages.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/observe/view/trace_text.h"

namespace urnic::view {
namespace {

class MessagesTest : public testing::Test {
  protected:
    void fetched(double time_ms, int index, int psn, const char* opcode = "RDMA_WRITE") {
        trace_.line(time_ms, trace_.group, "wqe_fetched",
                    fmt::format(R"("queue":"send","wqe_index":{},"opcode":"{}","length":2048,"psn":{})",
                                index, opcode, psn));
    }
    void acknowledged(double time_ms, double begin_ms) {
        trace_.line(time_ms, trace_.group, "message_acknowledged",
                    fmt::format(R"("opcode":"RC WRITE","duration":{:.6f})", time_ms - begin_ms));
    }
    void completed(double time_ms, int index, const char* status = "SUCCESS", const char* queue = "send") {
        trace_.line(time_ms, trace_.group, "completion_written",
                    fmt::format(R"("queue":"{}","wqe_index":{},"status":"{}")", queue, index, status));
    }
    Messages made() {
        log_ = trace_.log();
        return messages_of(log_.connections().at(0));
    }
    [[nodiscard]] std::string text(std::uint32_t number) const { return log_.texts().at(number); }

    TraceText trace_;
    EventLog log_;
};

TEST_F(MessagesTest, EachWqeHasItsTimes) {
    fetched(1, 7, 0xffffff);
    trace_.sent(2, 0xffffff).sent(3, 0);
    // Taken up, and not sent for a while.
    fetched(4, 8, 1, "RDMA_READ");
    acknowledged(5, 2);
    completed(6, 7);
    trace_.sent(7.000123, 1, 0);
    acknowledged(8, 7.000123);
    completed(9, 8);
    const Messages messages = made();
    EXPECT_TRUE(messages.has_wqes);
    ASSERT_EQ(messages.all.size(), 2U);
    const Message& write = messages.all[0];
    EXPECT_EQ(write.fetched_ms, 1);
    EXPECT_EQ(write.first_ms, 2);
    EXPECT_EQ(write.last_ms, 3);
    EXPECT_EQ(write.acknowledged_ms, 5);
    EXPECT_EQ(write.completed_ms, 6);
    EXPECT_EQ(write.bytes, 2048);
    EXPECT_EQ(text(write.opcode), "RDMA_WRITE");
    EXPECT_EQ(text(write.status), "SUCCESS");
    const Message& read = messages.all[1];
    EXPECT_EQ(read.fetched_ms, 4);
    EXPECT_EQ(read.first_ms, 7.000123);
    EXPECT_EQ(read.acknowledged_ms, 8);
    EXPECT_EQ(read.completed_ms, 9);
    EXPECT_EQ(text(read.opcode), "RDMA_READ");
}

TEST_F(MessagesTest, WhatIsNotSeenStaysOpen) {
    fetched(1, 0, 10);
    fetched(2, 1, 11, "LOCAL_INV");  // no packet is its own
    fetched(3, 2, 11);
    trace_.sent(4, 10).sent_again(5, 10, "timeout").sent(6, 11).received(7, 12, "delivered");
    completed(8, 1);
    completed(9, 2, "RETRY_EXC_ERR");
    completed(10, 3, "WR_FLUSH_ERR");        // never taken up
    completed(11, 0, "SUCCESS", "receive");  // another queue's
    const Messages messages = made();
    ASSERT_EQ(messages.all.size(), 3U);
    EXPECT_EQ(messages.all[0].last_ms, 4) << "a retransmission is no new packet";
    EXPECT_TRUE(std::isnan(messages.all[0].acknowledged_ms));
    EXPECT_TRUE(std::isnan(messages.all[0].completed_ms));
    EXPECT_TRUE(std::isnan(messages.all[1].first_ms));
    EXPECT_EQ(messages.all[1].completed_ms, 8);
    EXPECT_EQ(messages.all[2].first_ms, 6);
    EXPECT_EQ(text(messages.all[2].status), "RETRY_EXC_ERR");
}

TEST_F(MessagesTest, AResetBeginsAnew) {
    fetched(1, 0, 10);
    trace_.sent(1.5, 10);
    fetched(1.6, 1, 11);
    fetched(1.7, 2, 12);
    // An index and PSNs that were there before.
    fetched(2, 0, 5);
    trace_.sent(2.5, 5);
    completed(3, 0);
    const Messages messages = made();
    ASSERT_EQ(messages.all.size(), 4U);
    EXPECT_EQ(messages.all[0].last_ms, 1.5);
    EXPECT_TRUE(std::isnan(messages.all[0].completed_ms));
    EXPECT_EQ(messages.all[3].first_ms, 2.5);
    EXPECT_EQ(messages.all[3].completed_ms, 3);
}

TEST_F(MessagesTest, AnyTimeOfAFile) {
    fetched(1, 0, 10);
    trace_.sent(1e300, 10).line(-1e300, trace_.group, "message_acknowledged",
                                R"("opcode":"x","duration":1e15)");
    EXPECT_TRUE(std::isnan(made().all.at(0).acknowledged_ms));
}

TEST_F(MessagesTest, TracesWithoutWqesHaveFirstPacketsAndAcknowledgements) {
    trace_.sent(1, 10).ack(3, 10);
    acknowledged(3, 1);
    // A receiver's are not its messages.
    trace_.line(4, trace_.group, "wqe_fetched", R"("queue":"receive","wqe_index":0)");
    const Messages messages = made();
    EXPECT_FALSE(messages.has_wqes);
    ASSERT_EQ(messages.all.size(), 1U);
    EXPECT_TRUE(std::isnan(messages.all[0].fetched_ms));
    EXPECT_EQ(messages.all[0].first_ms, 1);
    EXPECT_EQ(messages.all[0].acknowledged_ms, 3);
    EXPECT_EQ(text(messages.all[0].opcode), "RC WRITE");
}

}  // namespace
}  // namespace urnic::view
