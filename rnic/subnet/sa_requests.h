// Requests of a port to subnet administration (IBA 15.4): repeated until each is answered or its time is
// over. Pure: time is an argument, requests leave by the function that each call is given.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/time.h"
#include "rnic/subnet/mad_packet.h"
#include "rnic/wire/mad/administration_attributes.h"
#include "rnic/wire/mad/mad.h"

namespace urnic::subnet {

/// One record is asked for, set or deleted.
struct SaRequest {
    std::uint8_t method = wire::kMadGet;
    std::uint16_t attribute_id = 0;
    std::uint64_t component_mask = 0;
    std::array<std::byte, wire::kMadBytes - wire::mad::kSaDataOffset> record{};  // as on the wire
};

/// The record's fields, by its table.
template <class Record>
[[nodiscard]] SaRequest sa_request(std::uint8_t method, std::uint16_t attribute_id,
                                   std::uint64_t component_mask, const wire::HeaderTable& table,
                                   const Record& record) {
    SaRequest request{method, attribute_id, component_mask, {}};
    wire::write_fields(table, &record, request.record.data());
    return request;
}

/// Where subnet administration is, as PortInfo says, and the P_Key by which it is reached.
struct SaAddress {
    std::uint16_t lid = 0;
    std::uint8_t sl = 0;
    std::uint16_t pkey = wire::kDefaultPkey;
};

class SaRequests {
  public:
    /// Transaction ID; never 0.
    using Id = std::uint64_t;
    /// The caller's own.
    using Owner = std::uint64_t;
    using Send = std::function<void(const MadPacket&)>;
    /// Sent so often while its time lasts.
    static constexpr std::uint32_t kTries = 4;

    /// `key`: the upper half of all transaction IDs, which nobody else at this port has.
    explicit SaRequests(std::uint32_t key) : key_(key) {}

    /// Sends it. A time of less than a millisecond is one.
    [[nodiscard]] Id ask(const SaRequest& request, const SaAddress& to, TimeNs time_ns, Owner owner,
                         TimeNs now, const Send& send);
    /// Nobody waits for the answer any more. 0 and unknown ones are ignored.
    void forget(Id id);

    struct Ended {
        Id id = 0;
        Owner owner = 0;
    };
    struct Answer : Ended {
        std::uint16_t status = 0;  // 0: good; see SaStatus and MadStatus
        MadBytes mad{};
        /// The record in it, by its table.
        template <class Record>
        [[nodiscard]] Record record(const wire::HeaderTable& table) const {
            Record value;
            wire::read_fields(table, mad.data() + wire::mad::kSaDataOffset, &value);
            return value;
        }
    };
    /// The answer to a request, which is over then; nullopt: the packet is none.
    [[nodiscard]] std::optional<Answer> take(const MadPacket& packet);

    /// Repeats what is due. Returns a request that has waited long enough, which is over then; nullopt:
    /// nothing more is due.
    [[nodiscard]] std::optional<Ended> advance(TimeNs now, const Send& send);
    [[nodiscard]] TimeNs next_event() const { return due_.empty() ? kNever : due_.begin()->first; }
    [[nodiscard]] std::size_t size() const { return requests_.size(); }

  private:
    struct Request {
        MadPacket packet;
        Owner owner = 0;
        TimeNs interval_ns = 0;
        TimeNs due = kNever;
        std::uint32_t tries_left = 0;
    };

    std::uint32_t key_;
    std::uint32_t last_ = 0;
    std::unordered_map<Id, Request> requests_;
    std::set<std::pair<TimeNs, Id>> due_;
};

}  // namespace urnic::subnet
