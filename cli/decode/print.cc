#include "cli/decode/print.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "rnic/wire/dissect/describe.h"
#include "rnic/wire/dissect/dump.h"

namespace urnic::decode {

namespace {

using Json = nlohmann::ordered_json;

/// Seconds and nanoseconds; captures put together from several may step back in time.
std::string relative_time(std::uint64_t time_ns, std::uint64_t first_time_ns) {
    const bool before = time_ns < first_time_ns;
    const std::uint64_t distance = before ? first_time_ns - time_ns : time_ns - first_time_ns;
    return fmt::format("{}{}.{:09}", before ? "-" : "", distance / kNsPerSecond, distance % kNsPerSecond);
}

/// What a file's writer has put into it, without what a terminal would obey.
std::string printable(std::string text) {
    for (char& c : text) {
        const auto byte = static_cast<unsigned char>(c);
        c = byte < 0x20 || byte == 0x7f ? '?' : c;
    }
    return text;
}

std::string hex(std::span<const std::byte> bytes) {
    std::string text;
    for (const std::byte byte : bytes) {
        text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
    }
    return text;
}

/// One JSON object on one line. Numbers are numbers; addresses, bytes and verdicts are text.
std::string json_line(const Record& record, std::uint64_t number, const wire::Packet& packet,
                      std::span<const wire::Layer> upper) {
    Json json = {{"number", number}, {"time_ns", record.time_ns}};
    if (!record.fault.empty()) {
        json["fault"] = record.fault;
    }
    if (!record.comment.empty()) {
        json["comment"] = record.comment;
    }
    if (!record.link) {
        json["note"] = record.note;
        return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    }
    json["summary"] = wire::summary(packet, upper);
    Json& layers = json["layers"] = Json::array();
    for (const wire::Layer& layer : wire::describe(packet, upper)) {
        Json fields = Json::object();
        for (const wire::DescribedField& field : layer.fields) {
            fields[field.name] = field.is_number ? Json(field.number) : Json(field.text);
        }
        if (layer.name == "payload") {
            fields["bytes"] = hex(packet.payload);
        }
        layers.push_back({{"name", layer.name}, {"fields", std::move(fields)}});
    }
    // A comment may be no UTF-8.
    return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string print_record(const Record& record, std::uint64_t number, std::uint64_t first_time_ns, Style style,
                         RpcrdmaDecoder* rpcrdma) {
    wire::Packet packet;
    std::vector<wire::Layer> upper;
    if (record.link) {
        wire::parse_packet(*record.link, record.bytes, record.wire_bytes, packet);
        if (rpcrdma != nullptr) {
            upper = rpcrdma->layers_of(packet);
        }
    }
    if (style == Style::kJson) {
        return json_line(record, number, packet, upper);
    }
    const std::string fault = record.fault.empty() ? "" : " [" + record.fault + "]";
    const std::string comment = record.comment.empty() ? "" : " (" + printable(record.comment) + ")";
    std::string text = fmt::format("{} {} {}{}{}\n", number, relative_time(record.time_ns, first_time_ns),
                                   record.link ? wire::summary(packet, upper) : record.note, fault, comment);
    if (style == Style::kFull && record.link) {
        text += wire::dump(packet, "  ", upper);
    }
    return text;
}

}  // namespace urnic::decode
