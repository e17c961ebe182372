#include "tests/sim/captures/allowed.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "rnic/wire/dissect/describe.h"
#include "rnic/wire/dissect/dump.h"
#include "rnic/wire/dissect/packet.h"
#include "rnic/wire/opcodes.h"

namespace urnic::sim {

namespace {

using wire::CheckVerdict;
using wire::Packet;

struct AllowedField {
    const char* field;  // "layer.field"
    bool (*holds)(const Packet& ours, const Packet& theirs);
    const char* reason;
};

bool is_ack(const Packet& packet) {
    return (packet.transport.aeth.syndrome & wire::kSyndromeKindMask) == wire::kSyndromeAck;
}

constexpr std::array kAllowedFields = {
    AllowedField{
        "IPv4.identification", [](const Packet& ours, const Packet&) { return ours.ipv4.dont_fragment; },
        "rxe counts its host's datagrams, ours follows the PSN; with DF set it says nothing (RFC 6864 4.1)"},
    AllowedField{"IPv4.checksum",
                 [](const Packet& ours, const Packet&) { return ours.ip_checksum == CheckVerdict::kGood; },
                 "follows from the identification"},
    AllowedField{
        "UDP.src_port",
        [](const Packet& ours, const Packet& theirs) {
            return ours.udp.src_port >= 0xc000 && theirs.udp.src_port >= 0xc000;
        },
        "entropy for the paths of a network; each stack hashes a flow in its own way (annex A17.3.2)"},
    AllowedField{
        "BTH.mig_req",
        [](const Packet& ours, const Packet& theirs) {
            return ours.transport.mig_req && !theirs.transport.mig_req;
        },
        "1 in the state Migrated, which a QP without an alternate path is in (IBA 17.2.8); rxe sends 0"},
    AllowedField{"AETH.syndrome",
                 [](const Packet& ours, const Packet& theirs) {
                     return is_ack(ours) && theirs.transport.aeth.syndrome == wire::kCreditsUnlimited;
                 },
                 "we tell our credits (IBA 9.7.7.2), rxe sends 31: it keeps no count"},
    AllowedField{
        "BTH.ack_req",
        [](const Packet& ours, const Packet&) {
            const auto flags = wire::opcode_info(ours.transport.opcode).flags;
            return ours.transport.ack_req && (flags & wire::kEnds) == 0 &&
                   ours.transport.psn.value() % 32 == 31;
        },
        "inside a message every 32nd packet asks for an acknowledgement, so that the window opens in time; a "
        "requester may ask whenever it likes (IBA 9.7.3.1)"},
    AllowedField{"checks.icrc",
                 [](const Packet& ours, const Packet&) { return ours.icrc_verdict == CheckVerdict::kGood; },
                 "follows from the fields above"},
};

constexpr const char* kSecondNak = "NAK behind RNR NAK";
constexpr const char* kCoalesced = "coalesced ACK";
constexpr const char* kFurtherAck = "ACK inside a message";
constexpr const char* kLaterMsn = "later MSN";

struct Answer {
    Packet packet;
    std::span<const std::byte> bytes;
    [[nodiscard]] Psn psn() const { return packet.transport.psn; }
    [[nodiscard]] bool is_plain() const {
        return (packet.transport.opcode & wire::kOperationMask) == wire::kAcknowledge;
    }
    /// ACK, RNR NAK or NAK with its code; credits and times do not make another kind.
    [[nodiscard]] std::uint8_t kind() const {
        const std::uint8_t syndrome = packet.transport.aeth.syndrome;
        return (syndrome & wire::kSyndromeKindMask) == wire::kSyndromeNak
                   ? syndrome
                   : static_cast<std::uint8_t>(syndrome & wire::kSyndromeKindMask);
    }
    [[nodiscard]] bool matches(const Answer& other) const {
        return packet.transport.opcode == other.packet.transport.opcode && psn() == other.psn() &&
               (!is_plain() || kind() == other.kind());
    }
    [[nodiscard]] std::string text() const { return wire::summary(packet); }
};

std::vector<Answer> parse_all(const std::vector<std::vector<std::byte>>& frames) {
    std::vector<Answer> answers(frames.size());
    for (std::size_t i = 0; i < frames.size(); ++i) {
        wire::parse_packet(wire::LinkLayer::kEthernet, frames[i], frames[i].size(), answers[i].packet);
        answers[i].bytes = frames[i];
    }
    return answers;
}

/// The peer's answer that has no counterpart among ours: the name of the rule that allows it, or nullptr.
const char* why_left_out(const std::vector<Answer>& theirs, std::size_t index, const Answer* ours_next,
                         bool bursts) {
    const Answer& answer = theirs[index];
    // After an RNR NAK a responder drops what follows without a word until the request comes again
    // (IBA 9.7.5.2.8); rxe sends a sequence error NAK for the first packet behind it.
    if (index != 0 && answer.is_plain() && answer.kind() == wire::kNakPsnSequenceError) {
        const Answer& before = theirs[index - 1];
        if (before.is_plain() && before.kind() == wire::kSyndromeRnrNak && before.psn() == answer.psn()) {
            return kSecondNak;
        }
    }
    // An acknowledgement covers every request before it, and so does a NAK (IBA 9.7.5.1.2, 9.7.6.1.2).
    const bool is_covered = bursts && ours_next != nullptr && answer.is_plain() &&
                            answer.kind() == wire::kSyndromeAck && answer.psn() < ours_next->psn();
    return is_covered ? kCoalesced : nullptr;
}

/// Our answer that has no counterpart: at the end of a burst we acknowledge all that has come, be it the last
/// packet of a message or not. The peer's answers that it covers were left out before it.
bool is_further_ack(const Answer& answer, const Answer& their_next) {
    return answer.is_plain() && answer.kind() == wire::kSyndromeAck && answer.psn() < their_next.psn();
}

/// In a burst the MSN counts every request that has been executed, those behind the answered one too.
void allow_later_msn(Packet& ours, const Packet& theirs, UsedDifferences& used) {
    const auto ahead = Psn(ours.transport.aeth.msn).distance(Psn(theirs.transport.aeth.msn));
    const bool has_aeth = (wire::opcode_info(ours.transport.opcode).headers & wire::kHasAeth) != 0;
    if (has_aeth && ahead > 0) {
        ours.transport.aeth.msn = theirs.transport.aeth.msn;
        ++used[kLaterMsn];
    }
}

std::vector<std::string> compare_fields(const Packet& ours, const Packet& theirs, UsedDifferences& used) {
    std::vector<std::string> errors;
    const std::vector<wire::Layer> our_layers = wire::describe(ours);
    const std::vector<wire::Layer> their_layers = wire::describe(theirs);
    if (!std::equal(our_layers.begin(), our_layers.end(), their_layers.begin(), their_layers.end(),
                    [](const wire::Layer& a, const wire::Layer& b) {
                        return a.name == b.name && a.fields.size() == b.fields.size();
                    })) {
        errors.emplace_back("other headers");
        return errors;
    }
    for (std::size_t l = 0; l < our_layers.size(); ++l) {
        for (std::size_t f = 0; f < our_layers[l].fields.size(); ++f) {
            const wire::DescribedField& our_field = our_layers[l].fields[f];
            const wire::DescribedField& their_field = their_layers[l].fields[f];
            if (our_field.name == their_field.name && our_field.text == their_field.text) {
                continue;
            }
            const std::string name = our_layers[l].name + "." + our_field.name;
            const auto* const row =
                std::find_if(kAllowedFields.begin(), kAllowedFields.end(),
                             [&](const AllowedField& allowed) { return name == allowed.field; });
            if (row != kAllowedFields.end() && row->holds(ours, theirs)) {
                ++used[name];
            } else {
                errors.push_back(name + ": ours " + our_field.text + ", theirs " + their_field.text);
            }
        }
    }
    if (!std::equal(ours.payload.begin(), ours.payload.end(), theirs.payload.begin(), theirs.payload.end())) {
        errors.emplace_back("other payload");
    }
    return errors;
}

}  // namespace

std::vector<std::string> field_differences(std::span<const std::byte> ours, std::span<const std::byte> theirs,
                                           UsedDifferences& used) {
    Packet our_packet;
    Packet their_packet;
    wire::parse_packet(wire::LinkLayer::kEthernet, ours, ours.size(), our_packet);
    wire::parse_packet(wire::LinkLayer::kEthernet, theirs, theirs.size(), their_packet);
    return compare_fields(our_packet, their_packet, used);
}

std::vector<std::string> answer_differences(const std::vector<std::vector<std::byte>>& ours,
                                            const std::vector<std::vector<std::byte>>& theirs, bool bursts,
                                            UsedDifferences& used) {
    std::vector<std::string> errors;
    std::vector<Answer> our_answers = parse_all(ours);
    const std::vector<Answer> their_answers = parse_all(theirs);
    std::size_t next = 0;
    for (std::size_t i = 0; i < their_answers.size(); ++i) {
        if (bursts && next < our_answers.size() && !our_answers[next].matches(their_answers[i]) &&
            is_further_ack(our_answers[next], their_answers[i])) {
            ++used[kFurtherAck];
            ++next;
        }
        Answer* const mine = next < our_answers.size() ? &our_answers[next] : nullptr;
        if (mine != nullptr && mine->matches(their_answers[i])) {
            if (bursts) {
                allow_later_msn(mine->packet, their_answers[i].packet, used);
            }
            for (const std::string& error : compare_fields(mine->packet, their_answers[i].packet, used)) {
                errors.push_back(their_answers[i].text() + "\n    " + error);
            }
            ++next;
        } else if (const char* rule = why_left_out(their_answers, i, mine, bursts); rule != nullptr) {
            ++used[rule];
        } else {
            errors.push_back("theirs: " + their_answers[i].text() +
                             "\n    ours:   " + (mine == nullptr ? "nothing" : mine->text()));
            return errors;
        }
    }
    for (; next < our_answers.size(); ++next) {
        errors.push_back("only ours: " + our_answers[next].text());
    }
    return errors;
}

std::vector<std::string> allowed_field_differences() {
    std::vector<std::string> names;
    for (const AllowedField& row : kAllowedFields) {
        names.emplace_back(row.field);
    }
    return names;
}

std::vector<std::string> allowed_answer_differences() {
    return {kSecondNak, kCoalesced, kFurtherAck, kLaterMsn};
}

}  // namespace urnic::sim
