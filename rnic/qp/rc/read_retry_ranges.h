// The gaps in READ responses that were asked for again and have not come, one a READ: a responder may keep
// no more of a READ than the part that was asked for last (Linux rxe answers none before that), so that the
// next gap has to wait until this one is filled.
#pragma once

#include <array>
#include <cstdint>

#include "base/psn.h"
#include "rnic/qp/limits.h"

namespace urnic {

class ReadRetryRanges {
  public:
    void clear() { count_ = 0; }
    [[nodiscard]] bool contains(Psn psn) const {
        for (std::uint32_t i = 0; i < count_; ++i) {
            if (gaps_[i].begin <= psn && psn < gaps_[i].end) {
                return true;
            }
        }
        return false;
    }
    /// The gap [begin, end), of the READ whose first PSN is `first`, was asked for. It takes the place of one
    /// of the same READ. Those before `oldest` are forgotten: half of all PSNs later they would seem to come.
    void add(Psn oldest, Psn first, Psn begin, Psn end) {
        std::uint32_t kept = 0;
        for (std::uint32_t i = 0; i < count_; ++i) {
            if (gaps_[i].first != first && gaps_[i].end > oldest) {
                gaps_[kept++] = gaps_[i];
            }
        }
        count_ = kept;
        if (count_ == gaps_.size()) {
            return;  // asked for twice at worst: there are no more READs than this under way
        }
        gaps_[count_++] = {first, begin, end};
    }

  private:
    struct Gap {
        Psn first;  // of the READ
        Psn begin;
        Psn end;
    };
    std::array<Gap, kMaxRdAtomic> gaps_{};
    std::uint32_t count_ = 0;
};

}  // namespace urnic
