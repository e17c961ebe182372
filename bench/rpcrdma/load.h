// What is measured, over RPC-over-RDMA and over TCP: a client and a server of one program with three
// procedures; with messages by hand, and with the stubs that rpcgen makes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace urnic::bench {

enum class Procedure : std::uint32_t {
    kSmall = 1,  ///< 64 octets there and back
    kGet = 2,    ///< a result of kBulkOctets
    kPut = 3,    ///< an argument of kBulkOctets
};

inline constexpr std::size_t kSmallOctets = 64;
inline constexpr std::size_t kBulkOctets = 1U << 20U;

struct Load {
    Procedure procedure = Procedure::kSmall;
    std::uint32_t outstanding = 1;
    double seconds = 1;
};

struct Done {
    std::uint64_t calls = 0;
    double seconds = 0;
};

/// Serves until the process is killed; tells the port once it listens.
using Tell = std::function<void(std::uint16_t port)>;
[[noreturn]] void serve_rdma(const Tell& tell);
[[noreturn]] void serve_tcp(const Tell& tell);
[[noreturn]] void serve_stubs_rdma(const Tell& tell);
[[noreturn]] void serve_stubs_tcp(const Tell& tell);
[[nodiscard]] Done call_rdma(std::uint16_t port, const Load& load);
[[nodiscard]] Done call_tcp(std::uint16_t port, const Load& load);
[[nodiscard]] Done call_stubs_rdma(std::uint16_t port, const Load& load);
[[nodiscard]] Done call_stubs_tcp(std::uint16_t port, const Load& load);

/// Prints why and ends the program.
[[noreturn]] void give_up_on(const char* what);

}  // namespace urnic::bench
