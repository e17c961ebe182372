// ONC RPC calls and replies (RFC 5531) around the procedures of a program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tests/interop/nfs/nfs3.h"
#include "ulp/rpcrdma/codec/xdr.h"

namespace urnic::nfs {

using rpcrdma::XdrReader;
using rpcrdma::XdrWriter;

// Who calls: of AUTH_SYS, nobody (65534) of AUTH_NONE.
struct Caller {
    std::uint32_t uid = 65534;
    std::uint32_t gid = 65534;
};

// What a call is answered with: an XDR stream, and data that belongs in it in front of `data_at` (the length
// word is there, padding is not).
struct Reply {
    std::size_t stream_octets = 0;  // 0: none is sent
    std::size_t data_at = 0;
    std::size_t data_octets = 0;  // 0: none
};

// Where a reply is written.
struct ReplyRoom {
    std::span<std::byte> stream;  // at least kReplyStreamOctets
    std::span<std::byte> data;    // at least kMaxTransferOctets
};
inline constexpr std::size_t kReplyStreamOctets = kMaxDirectoryOctets + 4096;

// The results of one procedure.
struct Results {
    XdrWriter& out;
    std::span<std::byte> data_room;
    std::size_t data_octets = 0;  // of `data_room`, behind what `out` has when the procedure ends
};

// A program of one version.
class Program {
  public:
    Program() = default;
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;
    virtual ~Program() = default;
    [[nodiscard]] virtual std::uint32_t number() const = 0;
    [[nodiscard]] virtual std::uint32_t version() const = 0;
    // May be called by several threads at once. kSuccess, kProcUnavail or kGarbageArgs.
    virtual Accepted call(std::uint32_t procedure, const Caller& caller, XdrReader& arguments,
                          Results& results) = 0;
};

// Answers a call for one of `programs`. What is no call gets no reply.
Reply answer(std::span<Program* const> programs, std::span<const std::byte> call, const ReplyRoom& room);

// Writes a call's header with AUTH_SYS as root on `machine`; arguments follow.
void put_call(XdrWriter& out, std::uint32_t xid, std::uint32_t program, std::uint32_t version,
              std::uint32_t procedure, std::string_view machine);
// Reads a reply's header up to the results; false: it was not accepted, is of another call or is no reply.
[[nodiscard]] bool take_reply(XdrReader& in, std::uint32_t xid);

inline void skip_words(XdrReader& in, int words) {
    for (int i = 0; i < words; ++i) {
        static_cast<void>(in.u32());
    }
}

[[nodiscard]] inline std::span<const std::byte> octets_of(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}
[[nodiscard]] inline std::string_view text_of(std::span<const std::byte> octets) {
    return {reinterpret_cast<const char*>(octets.data()), octets.size()};
}

}  // namespace urnic::nfs
