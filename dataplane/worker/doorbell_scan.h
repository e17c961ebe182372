// Which clients' doorbells a worker looks at in a round, so that those that do nothing cost the others
// nothing.
//
// Doorbells lie in memory of each client alone: one that clients share could be rung, or taken back, by any
// of them. So a worker has to look at each client's. In every round it looks at those that rang lately, and
// in turn at a few of the others. Of each user it looks at a few programs a round, whatever they ring.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/time.h"
#include "dataplane/worker/client_doorbells.h"
#include "dataplane/worker/run_queue.h"

namespace urnic::dataplane {

/// The clients that have QPs on one worker. Intrusive.
class DoorbellScan {
  public:
    /// Of the programs of one user that rang lately; the others of them have their turn in the next rounds.
    static constexpr std::uint32_t kBusyPerRound = 16;
    /// Of all others.
    static constexpr std::uint32_t kQuietPerRound = 16;
    /// Who has not rung for so long is one of the others.
    static constexpr TimeNs kBusyNs = 100'000'000;

    void add(ClientDoorbells& client) {
        client.is_busy = false;
        quiet_.push(client);
        ++num_quiet_;
    }
    /// Off the packet path: walks lists.
    void remove(ClientDoorbells& client) {
        if (!client.is_busy) {
            quiet_.remove(client);
            --num_quiet_;
            return;
        }
        BusyPrograms& user = client.share().user->busy;
        user.programs.remove(client);
        if (--user.count == 0) {
            busy_.remove(user);
            --num_busy_users_;
        }
    }

    /// Calls ring(slot) for QPs whose doorbells were rung, of the clients whose turn it is in this round.
    /// Returns whether any bit was set.
    template <typename Ring>
    bool scan_some(TimeNs now, Ring&& ring) {
        return scan(now, kBusyPerRound, kQuietPerRound, ring);
    }
    /// The same for all clients: before the worker sleeps.
    template <typename Ring>
    bool scan_all(TimeNs now, Ring&& ring) {
        constexpr std::uint32_t kAll = std::numeric_limits<std::uint32_t>::max();
        return scan(now, kAll, kAll, ring);
    }

  private:
    template <typename Ring>
    bool scan(TimeNs now, std::uint32_t busy_per_user, std::uint32_t quiet, Ring& ring) {
        // Who rings now is busy only afterwards, so that nobody is looked at twice.
        const std::uint32_t busy_users = num_busy_users_;
        bool any = false;
        for (std::uint32_t left = std::min(quiet, num_quiet_); left != 0; --left) {
            ClientDoorbells& client = quiet_.front();
            quiet_.pop();
            if (client.scan(ring)) {
                --num_quiet_;
                any = true;
                make_busy(client, now);
            } else {
                quiet_.push(client);
            }
        }
        for (std::uint32_t left = busy_users; left != 0; --left) {
            BusyPrograms& user = busy_.front();
            busy_.pop();
            any |= scan_user(user, now, busy_per_user, ring);
            if (user.count != 0) {
                busy_.push(user);
            } else {
                --num_busy_users_;
            }
        }
        return any;
    }
    template <typename Ring>
    bool scan_user(BusyPrograms& user, TimeNs now, std::uint32_t most, Ring& ring) {
        bool any = false;
        for (std::uint32_t left = std::min(most, user.count); left != 0; --left) {
            ClientDoorbells& client = user.programs.front();
            user.programs.pop();
            if (client.scan(ring)) {
                any = true;
                client.rang_at = now;
            }
            if (now - client.rang_at < kBusyNs) {
                user.programs.push(client);
            } else {
                --user.count;
                add(client);
            }
        }
        return any;
    }
    void make_busy(ClientDoorbells& client, TimeNs now) {
        BusyPrograms& user = client.share().user->busy;
        client.is_busy = true;
        client.rang_at = now;
        user.programs.push(client);
        if (user.count++ == 0) {
            busy_.push(user);
            ++num_busy_users_;
        }
    }

    TurnList<ClientDoorbells> quiet_;
    TurnList<BusyPrograms> busy_;  // by user
    std::uint32_t num_quiet_ = 0;
    std::uint32_t num_busy_users_ = 0;
};

}  // namespace urnic::dataplane
