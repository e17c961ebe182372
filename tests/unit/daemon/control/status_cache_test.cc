#include "daemon/control/status_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace urnic::daemon {
namespace {

struct NamedText {
    [[nodiscard]] TimeNs begun_at() const { return at; }
    TimeNs at = 0;
    std::string name;
};

class StatusCacheTest : public testing::Test {
  protected:
    [[nodiscard]] std::shared_ptr<NamedText> begin(uid_t uid, TimeNs now, bool is_privileged = false) {
        return cache_.text_for(User(uid, is_privileged, limits_, 0), now, [&] {
            return std::make_shared<NamedText>(
                NamedText{now, std::to_string(uid) + "/" + std::to_string(++made_)});
        });
    }
    void keep(const std::shared_ptr<NamedText>& text, uid_t uid, bool is_privileged = false) {
        cache_.keep(User(uid, is_privileged, limits_, 0), text);
    }
    /// One that is whole at once.
    [[nodiscard]] std::string ask(uid_t uid, TimeNs now, bool is_privileged = false) {
        const std::shared_ptr<NamedText> text = begin(uid, now, is_privileged);
        keep(text, uid, is_privileged);
        return text->name;
    }
    UserLimits limits_;
    StatusCache<NamedText> cache_;
    int made_ = 0;
};

TEST_F(StatusCacheTest, EachUserHasHisOwnText) {
    EXPECT_EQ(ask(0, 1, true), "0/1");
    EXPECT_EQ(ask(1000, 2), "1000/2");
    EXPECT_EQ(ask(1001, 3), "1001/3");
    for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(ask(1000, 4).substr(0, 5), "1000/");
        EXPECT_EQ(ask(0, 4, true).substr(0, 2), "0/");
    }
    EXPECT_EQ(made_, 3 + 9 + 9) << "ten each";
    EXPECT_EQ(ask(1001, 5), "1001/22") << "who has not asked as often gets a new one";
}

TEST_F(StatusCacheTest, WhoAsksWithoutEndGetsTextsOfAHundredMilliseconds) {
    for (TimeNs at = 0; at < kSecondNs / 2; at += 1'000'000) {
        (void)ask(1000, at);
    }
    EXPECT_EQ(made_, 10 + 4);
}

TEST_F(StatusCacheTest, ATextThatIsMadeIsForAllWhoAskInThatTime) {
    std::vector<std::shared_ptr<NamedText>> own;
    for (TimeNs at = 0; at < 10; ++at) {
        own.push_back(begin(1000, at));
    }
    EXPECT_EQ(made_, 10) << "each shows what was before its question";
    EXPECT_EQ(begin(1000, 10), own.back());
    keep(own.back(), 1000);
    keep(own.front(), 1000);  // slower
    EXPECT_EQ(begin(1000, 11), own.back());
    EXPECT_NE(begin(1000, 200'000'000), own.back()) << "it is old";
}

TEST_F(StatusCacheTest, ATextThatNobodyWaitsForIsGone) {
    for (TimeNs at = 0; at < 10; ++at) {
        (void)begin(1000, at);
    }
    EXPECT_EQ(begin(1000, 10)->name, "1000/11");
}

TEST_F(StatusCacheTest, ThePrivilegedShareOne) {
    for (int i = 0; i < 10; ++i) {
        (void)ask(0, 1, true);
    }
    EXPECT_EQ(ask(7, 1, true), "0/10") << "what root was told is for the daemon's own user, too";
}

TEST_F(StatusCacheTest, TextsAreBounded) {
    for (int i = 0; i < 10; ++i) {
        (void)ask(0, 1, true);
    }
    for (uid_t uid = 1000; uid < 1100; ++uid) {
        (void)ask(uid, uid);
    }
    EXPECT_EQ(cache_.num_users(), StatusCache<NamedText>::kMostUsers);
    EXPECT_EQ(ask(0, 1, true), "0/10") << "the privileged keep theirs";
    const int before = made_;
    for (int i = 0; i < 100; ++i) {
        (void)ask(1099, 1100);
    }
    EXPECT_EQ(made_, before + 9);
}

}  // namespace
}  // namespace urnic::daemon
