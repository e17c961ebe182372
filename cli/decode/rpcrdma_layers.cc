#include "cli/decode/rpcrdma_layers.h"

#include <algorithm>
#include <array>
#include <string>

#include "cli/decode/described_field.h"
#include "cli/decode/rpcrdma_chunks.h"
#include "ulp/rpcrdma/codec/properties.h"

namespace urnic::decode {
namespace {

using rpcrdma::ErrorCode;
using rpcrdma::Proc;
using wire::Layer;

constexpr std::array<const char*, 10> kProcNames = {"MSG",      "NOMSG",    "MSGP",    "DONE",    "ERROR",
                                                    "OPTIONAL", "CONNPROP", "REQPROP", "RESPROP", "UPDPROP"};

/// An error: its name, and what the words behind it are.
struct ErrorText {
    const char* name;
    const char* first;
    const char* second;
};
constexpr std::array kErrorTexts = {
    ErrorText{"ERR_VERS", "vers_low", "vers_high"},
    ErrorText{"ERR_BAD_XDR", nullptr, nullptr},
    ErrorText{"ERR_INVAL_PROC", nullptr, nullptr},
    ErrorText{"ERR_READ_CHUNKS", "max_chunks", nullptr},
    ErrorText{"ERR_WRITE_CHUNKS", "max_chunks", nullptr},
    ErrorText{"ERR_SEGMENTS", "max_segments", nullptr},
    ErrorText{"ERR_WRITE_RESOURCE", "chunk_index", "length_needed"},
    ErrorText{"ERR_REPLY_RESOURCE", "length_needed", nullptr},
    ErrorText{"ERR_INVAL_OPTION", nullptr, nullptr},
    ErrorText{"ERR_SYSTEM", nullptr, nullptr},
};

std::string indexed(const std::string& list, std::size_t index) {
    std::string text = list;
    text += '[';
    text += std::to_string(index);
    text += ']';
    return text;
}

void add_segment(Layer& layer, const std::string& name, const rpcrdma::Segment& segment) {
    layer.fields.push_back(hex_field(name + ".handle", segment.handle));
    layer.fields.push_back(named_field(name + ".length", segment.length, nullptr));
    layer.fields.push_back(hex_field(name + ".offset", segment.offset, 16));
}

void add_chunk(Layer& layer, const std::string& name, std::span<const rpcrdma::Segment> segments) {
    layer.fields.push_back(shown(named_field(name + ".segments", segments.size(), nullptr)));
    layer.fields.push_back(shown(named_field(name + ".octets", total_length(segments), nullptr)));
    for (std::size_t i = 0; i < segments.size(); ++i) {
        add_segment(layer, indexed(name, i), segments[i]);
    }
}

void add_chunks(Layer& layer, const rpcrdma::ChunkLists& chunks) {
    layer.fields.push_back(
        shown(named_field("reads", chunks.read_segments_seen(), nullptr), chunks.read_segments_seen() != 0));
    const std::span<const rpcrdma::ReadSegment> reads = chunks.reads();
    for (std::size_t i = 0; i < reads.size(); ++i) {
        layer.fields.push_back(named_field(indexed("reads", i) + ".position", reads[i].position, nullptr));
        add_segment(layer, indexed("reads", i), reads[i].target);
    }
    layer.fields.push_back(
        shown(named_field("writes", chunks.write_chunks_seen(), nullptr), chunks.write_chunks_seen() != 0));
    for (std::size_t i = 0; i < chunks.write_chunk_count(); ++i) {
        add_chunk(layer, indexed("writes", i), chunks.write_chunk(i));
    }
    layer.fields.push_back(named_field("has_reply_chunk", chunks.has_reply_chunk() ? 1 : 0, nullptr));
    if (chunks.has_reply_chunk()) {
        add_chunk(layer, "reply", chunks.reply_chunk());
    }
    if (chunks.overflowed()) {
        layer.fields.push_back({"not_shown", "more segments than a header may have"});
    }
}

void add_direction(Layer& layer, rpcrdma::Direction direction) {
    const bool is_call = direction == rpcrdma::Direction::kCall;
    layer.fields.push_back(
        shown(named_field("direction", static_cast<std::uint32_t>(direction), is_call ? "CALL" : "REPLY")));
}

void add_error(Layer& layer, const rpcrdma::Header& header) {
    const auto code = static_cast<std::uint32_t>(header.error.code);
    const ErrorText& text = kErrorTexts[code - 1];
    const bool is_version_1 = header.version == rpcrdma::kVersion1 && header.error.code == ErrorCode::kBadXdr;
    layer.fields.push_back(shown(named_field("error", code, is_version_1 ? "ERR_CHUNK" : text.name)));
    if (text.first != nullptr) {
        layer.fields.push_back(shown(named_field(text.first, header.error.first, nullptr)));
    }
    if (text.second != nullptr) {
        layer.fields.push_back(shown(named_field(text.second, header.error.second, nullptr)));
    }
}

const char* property_name(std::uint32_t id) {
    switch (static_cast<rpcrdma::PropertyId>(id)) {
        case rpcrdma::PropertyId::kReceiveBufferSize:
            return "RBSIZ";
        case rpcrdma::PropertyId::kBackwardRequestSupport:
            return "BRS";
    }
    return id >= rpcrdma::kFirstExperimentalProperty ? "experimental" : nullptr;
}

wire::DescribedField value_field(const std::string& name, const rpcrdma::PropertyValue& value) {
    constexpr std::array<const char*, 3> kSupportNames = {"NONE", "INLINE", "GENL"};
    switch (static_cast<rpcrdma::PropertyId>(value.id)) {
        case rpcrdma::PropertyId::kReceiveBufferSize:
            return named_field(name, property_word(value), nullptr);
        case rpcrdma::PropertyId::kBackwardRequestSupport:
            return named_field(name, property_word(value), kSupportNames[property_word(value)]);
    }
    return {name, octets_text(value.data)};
}

void add_set(Layer& layer, const char* name, const rpcrdma::PropertySet& set) {
    layer.fields.push_back(named_field(name, set.count, nullptr));
    for (std::size_t i = 0; i < set.count; ++i) {
        const rpcrdma::PropertyValue& value = set.values[i];
        layer.fields.push_back(
            shown(named_field(indexed(name, i) + ".id", value.id, property_name(value.id))));
        layer.fields.push_back(shown(value_field(indexed(name, i) + ".value", value)));
    }
}

wire::DescribedField subset_field(const char* name, const rpcrdma::PropertySubset& subset) {
    return shown(hex_field(name, subset.bits));
}

void add_properties(Layer& layer, const rpcrdma::Header& header) {
    rpcrdma::PropertyBody body;
    if (!decode_properties(header.proc, header.body, body)) {
        return;
    }
    switch (header.proc) {
        case Proc::kConnprop:
            add_set(layer, "start", body.values);
            layer.fields.push_back(subset_field("nochg", body.first));
            break;
        case Proc::kReqprop:
            add_set(layer, "want", body.values);
            break;
        case Proc::kResprop:
            layer.fields.push_back(subset_field("done", body.first));
            layer.fields.push_back(subset_field("rejected", body.second));
            add_set(layer, "other", body.values);
            break;
        default:
            add_set(layer, "now", body.values);
    }
}

void add_arm(Layer& layer, const rpcrdma::Header& header) {
    switch (header.proc) {
        case Proc::kMsg:
        case Proc::kNomsg:
            if (header.version != rpcrdma::kVersion1) {
                add_direction(layer, header.direction);
                layer.fields.push_back(
                    shown(hex_field("inv_handle", header.inv_handle), header.inv_handle != 0));
            }
            if (header.proc == Proc::kNomsg) {
                layer.fields.push_back(shown({"rpc_message", chunk_name(header.direction)}));
            }
            add_chunks(layer, header.chunks);
            break;
        case Proc::kError:
            add_error(layer, header);
            break;
        case Proc::kOptional:
            add_direction(layer, header.direction);
            layer.fields.push_back(shown(hex_field("opttype", header.option)));
            layer.fields.push_back(named_field("optinfo_octets", header.body.size(), nullptr));
            layer.fields.push_back({"optinfo", octets_text(header.body)});
            break;
        default:
            add_properties(layer, header);
    }
}

}  // namespace

Layer rpcrdma_layer(const rpcrdma::Header& header, const char* fault) {
    Layer layer{"RPC-over-RDMA", {}};
    const auto proc = static_cast<std::uint32_t>(header.proc);
    layer.fields.push_back(shown(hex_field("xid", header.xid)));
    layer.fields.push_back(shown(named_field("version", header.version, nullptr)));
    layer.fields.push_back(shown(named_field("credits", header.credits, nullptr)));
    const char* proc_name = proc < kProcNames.size() ? kProcNames[proc] : nullptr;
    layer.fields.push_back(shown(named_field("proc", proc, proc_name)));
    if (fault != nullptr) {
        layer.fields.push_back(shown({"fault", fault}));
    } else {
        add_arm(layer, header);
        layer.fields.push_back(named_field("header_octets", header.size, nullptr));
    }
    return layer;
}

bool has_fault(const Layer& layer) {
    return std::ranges::any_of(layer.fields, [](const auto& field) { return field.name == "fault"; });
}

Layer private_data_layer(const rpcrdma::PrivateData& data) {
    Layer layer{"RPC-over-RDMA private data", {}};
    layer.fields.push_back(shown(named_field("send_octets", data.send_octets, nullptr)));
    layer.fields.push_back(shown(named_field("receive_octets", data.receive_octets, nullptr)));
    layer.fields.push_back(
        shown(named_field("remote_invalidate", data.can_remote_invalidate ? 1 : 0, nullptr)));
    return layer;
}

}  // namespace urnic::decode
