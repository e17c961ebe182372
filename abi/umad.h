// How the discovery shim reaches the daemon's umad devices. /dev/infiniband/umadN and issmN are Unix sockets
// (SEQPACKET) in the daemon's tree: the shim connects where a program opens one. The daemon answers with a
// UmadHello; then each datagram is what a program writes to the device or reads from it
// (<rdma/ib_user_mad.h>). An ioctl goes by a connection of its own to the control socket beside them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace urnic::abi {

/// In the daemon's tree.
inline constexpr char kUmadControlSocket[] = "/dev/infiniband/.umad_control";
inline constexpr std::uint32_t kUmadMagic = 0x756d6164;
/// The header of ABI 5 and the longest message behind it that the daemon carries: a Unix datagram's bound.
inline constexpr std::size_t kUmadHeaderBytes = 64;
inline constexpr std::size_t kMaxUmadBytes = std::size_t{192} * 1024;

struct UmadHello {
    std::uint32_t magic;
    std::int32_t error;  // errno value; then the daemon closes the connection
    std::uint64_t token;
};

enum class UmadCommand : std::uint32_t { kRegister = 1, kUnregister = 2, kEnablePkey = 3, kRegister2 = 4 };

/// As the ioctl of that number takes its argument and gives it back.
struct UmadCall {
    std::uint32_t magic;
    UmadCommand command;
    std::uint64_t token;
    std::byte argument[64];
};
struct UmadReply {
    std::uint32_t magic;
    std::int32_t error;
    std::byte argument[64];
};

}  // namespace urnic::abi
