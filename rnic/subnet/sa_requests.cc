#include "rnic/subnet/sa_requests.h"

#include <algorithm>

#include "rnic/subnet/sa_components.h"

namespace urnic::subnet {

namespace {

constexpr TimeNs kLeastTimeNs = 1'000'000;

MadBytes build(const SaRequest& request, SaRequests::Id id) {
    MadBytes bytes{};
    wire::MadHeader header;
    header.mgmt_class = wire::kMadClassSubnetAdministration;
    header.class_version = kSaClassVersion;
    header.method = request.method;
    header.transaction_id = id;
    header.attribute_id = request.attribute_id;
    wire::write_fields(wire::kMadTable, &header, bytes.data());
    wire::mad::SaHeader administration;
    administration.component_mask = request.component_mask;
    wire::write_fields(wire::mad::kSaHeaderTable, &administration, bytes.data() + wire::mad::kSaHeaderOffset);
    std::copy(request.record.begin(), request.record.end(), bytes.begin() + wire::mad::kSaDataOffset);
    return bytes;
}

}  // namespace

SaRequests::Id SaRequests::ask(const SaRequest& request, const SaAddress& to, TimeNs time_ns, Owner owner,
                               TimeNs now, const Send& send) {
    Id id = 0;
    do {
        id = Id{key_} << 32U | ++last_;
    } while (id == 0 || requests_.contains(id));
    Request made;
    made.packet.dlid = to.lid;
    made.packet.sl = to.sl;
    made.packet.pkey = to.pkey;
    made.packet.src_qp = made.packet.dest_qp = wire::kQp1;
    made.packet.qkey = wire::kGsiQkey;
    made.packet.mad = build(request, id);
    made.owner = owner;
    made.interval_ns = std::max(time_ns, kLeastTimeNs) / kTries;
    made.due = now + made.interval_ns;
    made.tries_left = kTries - 1;
    const auto added = requests_.emplace(id, made).first;
    try {
        due_.emplace(made.due, id);
    } catch (...) {
        requests_.erase(added);
        throw;
    }
    try {
        send(made.packet);
    } catch (...) {
        forget(id);
        throw;
    }
    return id;
}

void SaRequests::forget(Id id) {
    const auto found = requests_.find(id);
    if (found != requests_.end()) {
        due_.erase({found->second.due, id});
        requests_.erase(found);
    }
}

std::optional<SaRequests::Answer> SaRequests::take(const MadPacket& packet) {
    Answer answer;
    answer.mad = packet.mad;
    const MadRef mad(answer.mad);
    const auto found = requests_.find(mad.transaction_id());
    if (found == requests_.end() || !mad.is_response() || packet.src_qp != wire::kQp1 ||
        packet.slid != found->second.packet.dlid || mad.mgmt_class() != wire::kMadClassSubnetAdministration ||
        mad.attribute_id() != MadRef(found->second.packet.mad).attribute_id()) {
        return std::nullopt;
    }
    answer.id = found->first;
    answer.owner = found->second.owner;
    answer.status = mad.status();
    forget(answer.id);
    return answer;
}

std::optional<SaRequests::Ended> SaRequests::advance(TimeNs now, const Send& send) {
    while (next_event() <= now) {
        const Id id = due_.begin()->second;
        Request& request = requests_.at(id);
        if (request.tries_left == 0) {
            const Ended ended{id, request.owner};
            forget(id);
            return ended;
        }
        --request.tries_left;
        request.due = now + request.interval_ns;
        auto due = due_.extract(due_.begin());
        due.value() = {request.due, id};
        due_.insert(std::move(due));
        send(request.packet);
    }
    return std::nullopt;
}

}  // namespace urnic::subnet
