#include "ulp/rpcrdma/engine/property_exchange.h"

#include <algorithm>
#include <array>

#include "ulp/rpcrdma/codec/xdr.h"

namespace urnic::rpcrdma {

namespace {

constexpr auto kRbsiz = static_cast<std::uint32_t>(PropertyId::kReceiveBufferSize);
constexpr auto kBrs = static_cast<std::uint32_t>(PropertyId::kBackwardRequestSupport);
/// More than all properties of a set of ours.
constexpr std::size_t kBodyRoom = 512;

/// A word property with its octets.
struct Word {
    explicit Word(std::uint32_t value) {
        XdrWriter writer(octets);
        writer.u32(value);
    }
    std::array<std::byte, 4> octets{};
};

void add(PropertySet& set, std::uint32_t id, const Word& word) {
    set.values[set.count++] = {id, word.octets};
}

}  // namespace

void PropertyExchange::send(Proc proc, std::uint32_t xid, const PropertyBody& body) {
    std::array<std::byte, kBodyRoom> room;
    Header header;
    header.xid = xid;
    header.version = kVersion2;
    const bool is_call = link_.config.role == Role::kClient;
    header.credits = is_call ? link_.config.wanted_credits : link_.config.granted_credits;
    header.proc = proc;
    header.body = std::span(room).first(encode_properties(proc, body, room));
    link_.send(header);
}

void PropertyExchange::tell_all() {
    if (has_told_ || !link_.config.has_properties || link_.version != kVersion2) {
        return;
    }
    has_told_ = true;
    const Word octets(link_.config.receive_octets);
    const Word backward(static_cast<std::uint32_t>(link_.config.backward));
    PropertyBody body;
    add(body.values, kRbsiz, octets);
    add(body.values, kBrs, backward);
    body.first.add(1);  // which backward requests are taken does not change
    send(Proc::kConnprop, 0, body);
    link_.told_receive_octets = link_.config.receive_octets;
}

bool PropertyExchange::on_message(const Header& header) {
    PropertyBody body;
    if (!decode_properties(header.proc, header.body, body)) {
        return false;
    }
    switch (header.proc) {
        case Proc::kConnprop:
            // What it does not name has its default (draft, 6.3.1).
            link_.peer_receive_octets = kInlineThreshold2;
            link_.peer_backward = BackwardSupport::kInline;
            apply(body.values);
            break;
        case Proc::kUpdprop:
            apply(body.values);
            break;
        case Proc::kReqprop:
            on_request(header, body);
            break;
        default:
            on_response(header, body);
            break;
    }
    return true;
}

/// Twice the same property: the last counts. A size that crosses a request of ours for smaller receives does
/// not lift what was asked: the peer may carry the request out next.
void PropertyExchange::apply(const PropertySet& values) {
    for (const PropertyValue& value : values.all()) {
        if (value.id == kRbsiz) {
            link_.peer_receive_octets = std::max(property_word(value), kInlineThreshold1);
            if (asked_) {
                asked_->before = link_.peer_receive_octets;
                link_.peer_receive_octets =
                    std::min(link_.peer_receive_octets, std::max(asked_->octets, kInlineThreshold2));
            }
        } else if (value.id == kBrs) {
            link_.peer_backward = static_cast<BackwardSupport>(property_word(value));
        }
    }
}

/// Each property that is asked for is done, rejected, or has another value than asked and than before
/// (draft, 6.3.3).
void PropertyExchange::on_request(const Header& header, const PropertyBody& body) {
    PropertyBody response;
    std::optional<std::size_t> size_index;
    for (std::size_t i = 0; i < body.values.count; ++i) {
        const PropertyValue& value = body.values.values[i];
        const bool counts = body.values.find(value.id) == i;
        if (value.id == kRbsiz && counts) {
            size_index = i;
        } else if (value.id == kBrs && counts &&
                   property_word(value) == static_cast<std::uint32_t>(link_.config.backward)) {
            response.first.add(i);
        } else {
            response.second.add(i);
        }
    }
    if (!size_index) {
        send(Proc::kResprop, header.xid, response);
        return;
    }
    const std::uint32_t asked = property_word(body.values.values[*size_index]);
    const std::uint32_t least = std::max(kInlineThreshold2, asked);
    const std::uint32_t to = std::min(least, link_.config.max_receive_octets);
    if (kept_ || resizing_to_ != 0) {
        // One change at a time.
        response.second.add(*size_index);
        send(Proc::kResprop, header.xid, response);
        return;
    }
    kept_ = Kept{header.xid, response, *size_index, asked};
    if (to == link_.told_receive_octets) {
        answer(to);
        return;
    }
    resizing_to_ = to;
    link_.outbox.resize_receives(to);
}

void PropertyExchange::answer(std::uint32_t resized) {
    const Kept kept = *kept_;
    kept_.reset();
    PropertyBody response = kept.answer;
    const Word octets(resized);
    const bool is_unchanged = resized == link_.told_receive_octets;
    link_.told_receive_octets = resized;
    if (resized == kept.wanted) {
        response.first.add(kept.index);
    } else if (is_unchanged) {
        response.second.add(kept.index);
    } else {
        add(response.values, kRbsiz, octets);
    }
    send(Proc::kResprop, kept.xid, response);
}

bool PropertyExchange::grow_receives(std::uint32_t octets) {
    const std::uint32_t to = std::min(octets, link_.config.max_receive_octets);
    const bool is_possible =
        link_.version == kVersion2 && has_told_ && resizing_to_ == 0 && to > link_.told_receive_octets;
    if (is_possible) {
        resizing_to_ = to;
        link_.outbox.resize_receives(to);
    }
    return is_possible;
}

/// All receives that the peer may use have that size: now it can be told.
void PropertyExchange::on_receives_resized(std::uint32_t octets) {
    if (octets != resizing_to_) {
        return;
    }
    resizing_to_ = 0;
    if (kept_) {
        answer(octets);
        return;
    }
    const Word word(octets);
    PropertyBody body;
    add(body.values, kRbsiz, word);
    link_.told_receive_octets = octets;
    send(Proc::kUpdprop, 0, body);
}

bool PropertyExchange::request_receive_size(std::uint32_t octets, std::uint32_t xid) {
    if (link_.version != kVersion2 || asked_ || !peer_has_properties_ || !link_.config.has_properties) {
        return false;
    }
    asked_ = Asked{xid, octets, link_.peer_receive_octets};
    const Word word(octets);
    PropertyBody body;
    add(body.values, kRbsiz, word);
    // Who asks for smaller receives sends no more than these from now on (draft, 6.4.1).
    link_.peer_receive_octets = std::min(link_.peer_receive_octets, std::max(octets, kInlineThreshold2));
    send(Proc::kReqprop, xid, body);
    return true;
}

void PropertyExchange::on_response(const Header& header, const PropertyBody& body) {
    if (!asked_ || asked_->xid != header.xid) {
        ++link_.counters.unknown_xids;
        return;
    }
    const Asked asked = *asked_;
    asked_.reset();
    const std::optional<std::size_t> other = body.values.find(kRbsiz);
    const bool is_done = body.first.has(0);
    // What is in two of the three sets, or in none, is rejected.
    if (is_done && !body.second.has(0) && !other) {
        link_.peer_receive_octets = std::max(asked.octets, kInlineThreshold1);
    } else if (other && !is_done && !body.second.has(0)) {
        link_.peer_receive_octets = std::max(property_word(body.values.values[*other]), kInlineThreshold1);
    } else {
        link_.peer_receive_octets = asked.before;
    }
}

bool PropertyExchange::on_error(const Header& header) {
    if (asked_ && asked_->xid == header.xid) {
        link_.peer_receive_octets = asked_->before;
        asked_.reset();
        peer_has_properties_ = false;
        return true;
    }
    // INVAL_OPTION and INVAL_PROC both say that the peer has no properties: the draft names each once
    // (6.3, 7.2.4).
    const bool is_unsupported =
        header.error.code == ErrorCode::kInvalOption || header.error.code == ErrorCode::kInvalProc;
    if (has_told_ && header.xid == 0 && is_unsupported) {
        peer_has_properties_ = false;
        return true;
    }
    return false;
}

}  // namespace urnic::rpcrdma
