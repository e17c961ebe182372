// Traces of QPs for the daemon's page: which begin, which end, and what stands in the way.
#include "daemon/control/page_traces.h"

#include <memory>
#include <vector>

#include "tests/unit/daemon/control_objects.h"

namespace urnic::daemon {
namespace {

class PageTracesTest : public Control {
  protected:
    PageTracesTest() { dataplane::worker_record().captures = 0; }
    std::shared_ptr<const RunningTraces> update(const WantedTraces& wanted) {
        std::shared_ptr<const RunningTraces> running;
        on_control_thread([&] { running = traces_.update(wanted); });
        return running;
    }
    static std::uint32_t captures() { return dataplane::worker_record().captures; }

    PageTraces traces_{control};
};

TEST_F(PageTracesTest, TheyRunWhileTheyAreWanted) {
    const TracedQp one{"urnic0", client_.qp(pd_, cq_).qp_num};
    const TracedQp other{"urnic0", client_.qp(pd_, cq_).qp_num};
    auto running = update({one});
    ASSERT_EQ(running->size(), 1U);
    ASSERT_NE(running->at(0).ring, nullptr) << running->at(0).problem;
    EXPECT_EQ(captures(), 1U);
    const auto ring = running->at(0).ring;
    running = update({one, other});
    EXPECT_EQ(captures(), 2U);
    EXPECT_EQ(running->at(0).ring, ring) << "it goes on";
    EXPECT_NE(running->at(1).ring, ring);
    running = update({other});
    EXPECT_EQ(captures(), 1U);
    EXPECT_EQ(running->at(0).qp, other);
    EXPECT_TRUE(update({})->empty());
    EXPECT_EQ(captures(), 0U);
}

TEST_F(PageTracesTest, AQpThatIsDestroyedIsGone) {
    const auto made = client_.qp(pd_, cq_);
    const TracedQp qp{"urnic0", made.qp_num};
    EXPECT_FALSE(update({qp})->at(0).is_gone);
    EXPECT_EQ(client_.on_handle(abi::Op::kDestroyQp, made.handle), 0);
    const auto running = update({qp});
    EXPECT_TRUE(running->at(0).is_gone);
    EXPECT_NE(running->at(0).ring, nullptr) << "what came before is there";
    EXPECT_EQ(captures(), 0U);
    EXPECT_TRUE(update({qp})->at(0).is_gone);
}

TEST_F(PageTracesTest, WhatCannotBeTraced) {
    const std::uint32_t qpn = client_.qp(pd_, cq_).qp_num;
    for (const TracedQp& qp : {TracedQp{"urnic7", qpn}, TracedQp{"urnic1", qpn}, TracedQp{"urnic0", 1}}) {
        const auto running = update({qp});
        EXPECT_EQ(running->at(0).ring, nullptr);
        EXPECT_NE(running->at(0).problem.find("there is no QP"), std::string::npos);
    }
    EXPECT_EQ(captures(), 0U);
}

TEST_F(PageTracesTest, ProgramsAndPagesTakeNoPlaceFromEachOther) {
    WantedTraces wanted;
    for (std::size_t i = 0; i <= dataplane::kMaxPageCaptures; ++i) {
        wanted.push_back({"urnic0", client_.qp(pd_, cq_).qp_num});
    }
    const auto running = update(wanted);
    EXPECT_EQ(captures(), dataplane::kMaxPageCaptures);
    EXPECT_NE(running->back().problem.find("as many QPs are traced as can be"), std::string::npos);
    on_control_thread([&] {
        EXPECT_TRUE(control.captures.is_full(ActiveCaptures::For::kPage));
        EXPECT_FALSE(control.captures.is_full(ActiveCaptures::For::kProgram));
    });
    (void)update({});
}

}  // namespace
}  // namespace urnic::daemon
