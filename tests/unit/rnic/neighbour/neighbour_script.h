// Scripts for the neighbour cache: one event a line, each with its time in seconds.
//
//   0.0  own 10.0.0.1 fd00::1@7     what is ours from now on (Ethernet address A; `own B ...`: another one)
//   0.0  want 10.0.0.2 | drop ...   somebody wants a neighbour, or does not any more
//   0.5  < ask 10.0.0.1 by 10.0.0.2 B          a question comes in, from Ethernet address B
//   0.5  < answer 10.0.0.2 B to us|all [keep]  an answer; keep: does not override
//   1.0  > ask 10.0.0.2 to all|B    expected of the cache, in this order and at this time
//   1.0  > answer 10.0.0.1 to B|all
//   1.0  ! 10.0.0.2 B|gone          expected: news
//   1.0  conflict 10.0.0.1 B        expected
//   2.0  check 10.0.0.2 STATE
//
// Whatever the cache does that no line expects fails the test. Ethernet address X is 02:..:X.
#pragma once

#include <deque>
#include <string>

#include "rnic/neighbour/neighbour_cache.h"

namespace urnic::net::test {

[[nodiscard]] wire::Gid address_of(const std::string& text);
[[nodiscard]] wire::Mac mac_of(char name);

class NeighbourScript : public NeighbourOutbox {
  public:
    /// Runs the lines and checks what is expected (with gtest).
    void run(const std::string& text);
    [[nodiscard]] const NeighbourCache& cache() const { return cache_; }

    void send(const NeighbourMessage& message) override;
    void changed(const Hop& hop, const std::optional<wire::Mac>& mac) override;
    void conflict(const Hop& own, const wire::Mac& other) override;

  private:
    void line(const std::string& text);
    void note(const std::string& what);
    void advance_to(TimeNs at);

    NeighbourCache cache_;
    TimeNs now_ = 0;
    std::deque<std::string> done_;
};

}  // namespace urnic::net::test
