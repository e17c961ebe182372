// The tester's own parts, without a device: the list of cases that are not played, and an agent that lies.
#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <string>

#include "conform/live/agent.h"
#include "conform/live/judge.h"

namespace urnic::conform {
namespace {

TEST(ConformCases, EachThatIsNotLiveIsACaseAndHasAReason) {
    std::set<std::string> names;
    for (const Case& entry : case_list()) {
        EXPECT_TRUE(names.insert(case_name(entry)).second) << case_name(entry) << " is there twice";
        EXPECT_NE(std::string(entry.clause), "");
        EXPECT_NE(std::string(entry.what), "");
    }
    EXPECT_GT(names.size(), 300U);
    std::set<std::string> not_live;
    for (const CaseNotLive& item : cases_not_live()) {
        EXPECT_EQ(names.count(std::string(item.name)), 1U) << item.name << " is no case";
        EXPECT_TRUE(not_live.insert(std::string(item.name)).second) << item.name << " is there twice";
        EXPECT_NE(item.reason, "");
    }
}

/// Answers what it was given, whatever it is asked.
class Answers final : public AgentChannel {
  public:
    explicit Answers(std::deque<std::string> answers) : answers_(std::move(answers)) {}
    std::string call(const std::string& /*line*/) override {
        std::string answer = answers_.front();
        answers_.pop_front();
        return answer;
    }

  private:
    std::deque<std::string> answers_;
};

TEST(ConformAgent, ReadsWhatAnAgentSays) {
    Answers channel({"ok 2 7:0:1:8:0:0 8:5:0:0:2:16909060", "ok 0x7f0000", "error 22 ibv_modify_qp: no",
                     "ok 6 1 2 3 4", "ok 00ff"});
    Agent agent(channel);
    const std::vector<SeenCompletion> list = agent.poll(0, false);
    ASSERT_EQ(list.size(), 2U);
    EXPECT_EQ(list[0].wr_id, 7U);
    EXPECT_EQ(list[0].byte_len, 8U);
    EXPECT_EQ(list[1].status, WcStatus::kWrFlushErr);
    EXPECT_EQ(list[1].imm_or_rkey, 0x01020304U);
    EXPECT_EQ(agent.arena(8), 0x7f0000U);
    EXPECT_EQ(agent.modify(0, "state=3"), 22);
    const AgentQpState state = agent.query(0);
    EXPECT_EQ(state.state, QpState::kErr);
    EXPECT_TRUE(state.is_draining);
    FrameBytes bytes(2);
    agent.get(0, bytes);
    EXPECT_EQ(bytes, (FrameBytes{std::byte{0}, std::byte{0xff}}));
}

TEST(ConformAgent, RefusesWhatIsNoAnswer) {
    for (const std::string answer :
         {"", "ok", "okay 1", "ok 1", "ok x", "ok 1 7:0:1:8:0", "ok 1 7:0:1:8:0:0:0", "ok 1 7:0:1:8:0:x",
          "error", "error x y", "ok 1 99999999999999999999999:0:1:8:0:0", "SSH-2.0"}) {
        Answers channel({answer, answer, answer, answer});
        Agent agent(channel);
        FrameBytes bytes(2);
        EXPECT_THROW(agent.get(0, bytes), BenchFailed) << answer;
        EXPECT_THROW((void)agent.register_memory(0, 1, 0), BenchFailed) << answer;
        EXPECT_THROW((void)agent.query(0), BenchFailed) << answer;
        if (answer.find(':') != std::string::npos || answer.find("ok") != 0) {
            EXPECT_THROW((void)agent.poll(0, false), BenchFailed) << answer;
        }
    }
}

}  // namespace
}  // namespace urnic::conform
