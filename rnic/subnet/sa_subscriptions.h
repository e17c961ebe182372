// Subscriptions to notices (IBA 13.4.8.3, 13.4.11): who is to be told of what, and reports until they are
// answered. Pure: time is an argument, reports leave by the function that a call is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "base/time.h"
#include "rnic/subnet/endpoint.h"
#include "rnic/subnet/sa_requests.h"
#include "rnic/wire/mad/administration_attributes.h"
#include "rnic/wire/mad/subnet_attributes.h"

namespace urnic::subnet {

struct SaSubscriptionCounters {
    std::uint64_t reports = 0;     // that were sent, not counted again when they are repeated
    std::uint64_t drop_full = 0;   // of those who have not answered so many others
    std::uint64_t ended_mute = 0;  // subscriptions whose owner does not answer
};

class SaSubscriptions {
  public:
    static constexpr std::size_t kMaxSubscriptions = 1024;
    static constexpr std::size_t kMaxOfPort = 32;
    /// Reports without an answer, of one subscription and of all.
    static constexpr std::size_t kMaxReportsOfOne = 128;
    static constexpr std::size_t kMaxReports = 2048;
    /// InformInfo:RespTimeValue that is waited for at most: 4.3 s.
    static constexpr std::uint8_t kMaxRespTimeValue = 20;

    using Send = SaRequests::Send;

    /// Set(InformInfo) of the port `subscriber`. `ports`: all of the subnet. `from`: where the request came
    /// from, and reports go to; `src_qp` that it came from. Returns the status.
    [[nodiscard]] std::uint16_t set(const wire::mad::InformInfo& info, const Endpoint& subscriber,
                                    std::span<const Endpoint> ports, const SaAddress& from,
                                    std::uint32_t src_qp);
    /// The port is down: it subscribes to nothing.
    void forget(std::uint64_t port_guid);

    /// Tells those who have subscribed to it. `issuer`: GID of the port with the notice's LID. `may_hear`:
    /// whether the port with this GUID is to know (IBA 13.4.11, o13-17).
    void report(const wire::mad::Notice& notice, const wire::Gid& issuer,
                const std::function<bool(std::uint64_t port_guid)>& may_hear, TimeNs now, const Send& send);
    /// A MAD that may be the answer to a report. Returns whether it was.
    bool take(const MadPacket& packet);
    /// Nobody can be reached any more: reports that wait for their answers are given up, subscriptions stay.
    void give_up_reports();
    /// Repeats reports without an answer. Who has not answered one in all its time is subscribed no more.
    void advance(TimeNs now, const Send& send);
    [[nodiscard]] TimeNs next_event() const { return requests_.next_event(); }

    /// An InformInfoRecord, and whose it is.
    struct Record {
        wire::mad::SubscriberRecord subscriber;
        wire::mad::InformInfo info;
        std::uint64_t port_guid = 0;
    };
    [[nodiscard]] std::vector<Record> records() const;
    [[nodiscard]] std::size_t size() const { return subscriptions_.size(); }
    [[nodiscard]] const SaSubscriptionCounters& counters() const { return counters_; }

  private:
    struct Subscription {
        Record record;
        SaAddress address;
        std::vector<SaRequests::Id> reports;  // that wait for their answers
    };
    using Subscriptions = std::map<SaRequests::Owner, Subscription>;

    [[nodiscard]] Subscriptions::iterator find(const wire::mad::InformInfo& info, std::uint64_t port_guid);
    [[nodiscard]] std::uint16_t add(const wire::mad::InformInfo& info, const Endpoint& subscriber,
                                    const SaAddress& from);
    Subscriptions::iterator remove(Subscriptions::iterator subscription);

    Subscriptions subscriptions_;
    SaRequests::Owner last_ = 0;
    /// Transaction IDs whose upper half is 0: no agent of a program has them (daemon/subnet/mad_file.h).
    SaRequests requests_{0};
    SaSubscriptionCounters counters_;
};

}  // namespace urnic::subnet
