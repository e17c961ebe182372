#include "cli/decode/rpc_message.h"

#include <algorithm>
#include <array>

#include "cli/decode/described_field.h"
#include "ulp/rpcrdma/codec/xdr.h"

namespace urnic::decode {
namespace {

constexpr std::uint32_t kRpcVersion = 2;
constexpr std::size_t kMaxVerifierOctets = 400;

struct ProgramName {
    std::uint32_t program;
    const char* name;
};
/// Of IANA's registry of RPC program numbers, those that are seen over RDMA or beside it.
constexpr std::array kProgramNames = {
    ProgramName{100000, "rpcbind"}, ProgramName{100003, "NFS"},    ProgramName{100005, "mount"},
    ProgramName{100021, "NLM"},     ProgramName{100024, "status"}, ProgramName{100227, "NFS ACL"},
};
constexpr std::array<const char*, 6> kAcceptNames = {"SUCCESS",      "PROG_UNAVAIL", "PROG_MISMATCH",
                                                     "PROC_UNAVAIL", "GARBAGE_ARGS", "SYSTEM_ERR"};
constexpr std::array<const char*, 2> kReplyNames = {"MSG_ACCEPTED", "MSG_DENIED"};

const char* program_name(std::uint32_t program) {
    const auto* found = std::ranges::find(kProgramNames, program, &ProgramName::program);
    return found != kProgramNames.end() ? found->name : nullptr;
}

void add_procedure(wire::Layer& layer, const RpcProcedure& procedure) {
    layer.fields.push_back(shown(named_field("program", procedure.program, program_name(procedure.program))));
    layer.fields.push_back(shown(named_field("version", procedure.version, nullptr)));
    // Procedure 0 does nothing, in every program (RFC 5531, section 12.1).
    const char* null_name = procedure.procedure == 0 ? "NULL" : nullptr;
    layer.fields.push_back(shown(named_field("procedure", procedure.procedure, null_name)));
}

}  // namespace

std::optional<RpcMessageFront> parse_rpc_message(std::span<const std::byte> octets) {
    rpcrdma::XdrReader in(octets);
    RpcMessageFront message;
    message.xid = in.u32();
    const std::uint32_t type = in.u32();
    if (type == static_cast<std::uint32_t>(rpcrdma::Direction::kCall)) {
        message.rpc_version = in.u32();
        message.procedure.program = in.u32();
        message.procedure.version = in.u32();
        message.procedure.procedure = in.u32();
        return !in.failed() && message.rpc_version == kRpcVersion ? std::optional(message) : std::nullopt;
    }
    message.direction = rpcrdma::Direction::kReply;
    message.reply_status = in.u32();
    if (in.failed() || type != static_cast<std::uint32_t>(rpcrdma::Direction::kReply) ||
        message.reply_status >= kReplyNames.size()) {
        return std::nullopt;
    }
    (void)in.u32();  // the verifier's flavour, and its body
    (void)in.opaque(kMaxVerifierOctets);
    const std::uint32_t accept_status = in.u32();
    if (message.reply_status == 0 && !in.failed()) {
        message.accept_status = accept_status;
    }
    return message;
}

wire::Layer rpc_layer(const RpcMessageFront& message, const std::optional<RpcProcedure>& called) {
    wire::Layer layer{"RPC", {}};
    layer.fields.push_back(shown(hex_field("xid", message.xid)));
    const bool is_call = message.direction == rpcrdma::Direction::kCall;
    layer.fields.push_back(shown(
        named_field("msg_type", static_cast<std::uint32_t>(message.direction), is_call ? "CALL" : "REPLY")));
    if (is_call) {
        layer.fields.push_back(named_field("rpc_version", message.rpc_version, nullptr));
        add_procedure(layer, message.procedure);
        return layer;
    }
    if (called) {
        add_procedure(layer, *called);
    }
    layer.fields.push_back(
        shown(named_field("reply_status", message.reply_status, kReplyNames[message.reply_status])));
    if (message.accept_status) {
        const std::uint32_t status = *message.accept_status;
        layer.fields.push_back(shown(named_field(
            "accept_status", status, status < kAcceptNames.size() ? kAcceptNames[status] : nullptr)));
    }
    return layer;
}

}  // namespace urnic::decode
