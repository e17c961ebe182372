#include "tests/interop/nfs/rpc.h"

#include <algorithm>

namespace urnic::nfs {

namespace {

constexpr std::size_t kMaxMachineName = 255;
constexpr std::size_t kMaxGroups = 16;
constexpr std::size_t kHeaderOctets = 24;  // of an accepted reply with AUTH_NONE

// The body of AUTH_SYS (RFC 5531, appendix A).
Caller read_auth_sys(std::span<const std::byte> body) {
    XdrReader in(body);
    skip_words(in, 1);  // stamp
    static_cast<void>(in.opaque(kMaxMachineName));
    const std::uint32_t uid = in.u32();
    const std::uint32_t gid = in.u32();
    const std::uint32_t groups = in.u32();
    return in.failed() || groups > kMaxGroups ? Caller{} : Caller{.uid = uid, .gid = gid};
}

void put_accepted(XdrWriter& out, std::uint32_t xid, Accepted state) {
    for (const std::uint32_t word :
         {xid, kReply, kMsgAccepted, kAuthNone, 0U, static_cast<std::uint32_t>(state)}) {
        out.u32(word);
    }
}

Reply ended(const XdrWriter& out) { return {.stream_octets = out.size()}; }

Reply run(Program& program, std::uint32_t xid, std::uint32_t procedure, const Caller& caller, XdrReader& in,
          const ReplyRoom& room) {
    XdrWriter out(room.stream);
    put_accepted(out, xid, Accepted::kSuccess);
    Results results{.out = out, .data_room = room.data};
    const Accepted state = program.call(procedure, caller, in, results);
    if (state == Accepted::kSuccess) {
        return {.stream_octets = out.size(), .data_at = out.size(), .data_octets = results.data_octets};
    }
    XdrWriter refused(room.stream);
    put_accepted(refused, xid, state);
    return ended(refused);
}

}  // namespace

Reply answer(std::span<Program* const> programs, std::span<const std::byte> call, const ReplyRoom& room) {
    XdrReader in(call);
    const std::uint32_t xid = in.u32();
    const std::uint32_t type = in.u32();
    const std::uint32_t rpc_version = in.u32();
    const std::uint32_t number = in.u32();
    const std::uint32_t version = in.u32();
    const std::uint32_t procedure = in.u32();
    const std::uint32_t flavor = in.u32();
    const std::span<const std::byte> body = in.opaque(kMaxAuthOctets);
    skip_words(in, 1);  // the verifier's flavor
    static_cast<void>(in.opaque(kMaxAuthOctets));
    if (in.failed() || type != kCall) {
        return {};
    }
    XdrWriter out(room.stream);
    if (rpc_version != kRpcVersion) {
        for (const std::uint32_t word : {xid, kReply, kMsgDenied, kRpcMismatch, kRpcVersion, kRpcVersion}) {
            out.u32(word);
        }
        return ended(out);
    }
    const auto is_meant = [number](const Program* program) { return program->number() == number; };
    const auto program = std::ranges::find_if(programs, is_meant);
    if (program == programs.end()) {
        put_accepted(out, xid, Accepted::kProgUnavail);
        return ended(out);
    }
    if ((*program)->version() != version) {
        put_accepted(out, xid, Accepted::kProgMismatch);
        out.u32((*program)->version());
        out.u32((*program)->version());
        return ended(out);
    }
    const Caller caller = flavor == kAuthSys ? read_auth_sys(body) : Caller{};
    return run(**program, xid, procedure, caller, in, room);
}

void put_call(XdrWriter& out, std::uint32_t xid, std::uint32_t program, std::uint32_t version,
              std::uint32_t procedure, std::string_view machine) {
    for (const std::uint32_t word : {xid, kCall, kRpcVersion, program, version, procedure, kAuthSys}) {
        out.u32(word);
    }
    // Stamp, name, uid, gid, no further groups.
    out.u32(static_cast<std::uint32_t>(20 + rpcrdma::xdr_padded(machine.size())));
    out.u32(0);
    out.opaque(octets_of(machine));
    for (int i = 0; i < 3; ++i) {
        out.u32(0);
    }
    out.u32(kAuthNone);
    out.u32(0);
}

bool take_reply(XdrReader& in, std::uint32_t xid) {
    if (in.remaining() < kHeaderOctets) {
        return false;
    }
    const bool is_accepted = in.u32() == xid && in.u32() == kReply && in.u32() == kMsgAccepted;
    skip_words(in, 1);  // the verifier's flavor
    static_cast<void>(in.opaque(kMaxAuthOctets));
    return is_accepted && in.u32() == static_cast<std::uint32_t>(Accepted::kSuccess) && !in.failed();
}

}  // namespace urnic::nfs
