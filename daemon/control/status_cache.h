// The last status text of each user who has asked for it lately: with thousands of objects one takes a
// hundred milliseconds, in which nobody else is served.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/rate_limit.h"
#include "base/time.h"
#include "daemon/state/user.h"
#include "os/monotonic_clock.h"

namespace urnic::daemon {

class StatusCache {
  public:
    /// Whoever asks without end gets a new text so often.
    static constexpr TimeNs kOldNs = 100'000'000;
    /// Users who are not privileged; one more takes the place of the one who has not asked for longest.
    static constexpr std::size_t kMostUsers = 16;

    /// The text for that user, who asks at `now`: from make() ten times a second, and otherwise the last one
    /// unless it is old. The privileged, who see the same, share one.
    template <typename Make>
    [[nodiscard]] const std::string& text_for(const User& user, TimeNs now, Make&& make) {
        Entry& entry = user.is_privileged() ? privileged_ : entry_of(user.uid());
        entry.asked_at = now;
        const bool may_be_new = entry.limit.take(now);
        if (may_be_new || !entry.is_made || now - entry.made_at >= kOldNs) {
            entry.text = std::forward<Make>(make)();
            entry.made_at = now;
            entry.is_made = true;
        }
        return entry.text;
    }
    [[nodiscard]] std::size_t num_users() const { return users_.size(); }

  private:
    struct Entry {
        uid_t uid = 0;
        bool is_made = false;
        TimeNs made_at = 0;
        TimeNs asked_at = 0;
        RateLimit<10, kSecondNs> limit;
        std::string text;
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
