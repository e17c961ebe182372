// The last status text of each user who has asked for it lately: whoever asks without end does not get a new
// one each time.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/rate_limit.h"
#include "base/time.h"
#include "daemon/state/user.h"

namespace urnic::daemon {

/// `Text` has begun_at() and is_whole().
template <typename Text>
class StatusCache {
  public:
    /// Whoever asks without end gets a new text so often.
    static constexpr TimeNs kOldNs = 100'000'000;
    /// Users who are not privileged; one more takes the place of the one who has not asked for longest.
    static constexpr std::size_t kMostUsers = 16;

    /// The text for that user, who asks at `now`, perhaps one of which steps are left: from make() ten times
    /// a second, and otherwise the last one unless it is old. The privileged, who see the same, share one.
    template <typename Make>
    [[nodiscard]] std::shared_ptr<Text> text_for(const User& user, TimeNs now, Make&& make) {
        Entry& entry = user.is_privileged() ? privileged_ : entry_of(user.uid());
        entry.asked_at = now;
        const bool may_be_new = entry.limit.take(now);
        if (!may_be_new) {
            // One that nobody finishes is gone with who had asked for it.
            for (const std::shared_ptr<Text>& text : {entry.whole, entry.last.lock()}) {
                if (text != nullptr && now - text->begun_at() < kOldNs) {
                    return text;
                }
            }
        }
        std::shared_ptr<Text> text = make();
        entry.last = text;
        return text;
    }
    /// A text of that user's has become whole.
    void keep(const User& user, std::shared_ptr<Text> whole) {
        Entry& entry = user.is_privileged() ? privileged_ : entry_of(user.uid());
        if (entry.whole == nullptr || entry.whole->begun_at() <= whole->begun_at()) {
            entry.whole = std::move(whole);
        }
    }
    [[nodiscard]] std::size_t num_users() const { return users_.size(); }

  private:
    struct Entry {
        uid_t uid = 0;
        TimeNs asked_at = 0;
        RateLimit<10, kSecondNs> limit;
        std::shared_ptr<Text> whole;
        std::weak_ptr<Text> last;  // of those that were begun
    };

    Entry& entry_of(uid_t uid) {
        const auto found =
            std::find_if(users_.begin(), users_.end(), [&](const Entry& entry) { return entry.uid == uid; });
        if (found != users_.end()) {
            return *found;
        }
        if (users_.size() == kMostUsers) {
            users_.erase(std::min_element(users_.begin(), users_.end(), [](const Entry& a, const Entry& b) {
                return a.asked_at < b.asked_at;
            }));
        }
        Entry& entry = users_.emplace_back();
        entry.uid = uid;
        return entry;
    }

    Entry privileged_;
    std::vector<Entry> users_;
};

}  // namespace urnic::daemon
