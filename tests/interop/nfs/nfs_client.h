// The procedures of NFS version 3 as calls, for tests.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/interop/nfs/attributes.h"
#include "tests/interop/nfs/transport.h"

namespace urnic::nfs {

using OpaqueHandle = std::vector<std::byte>;

struct Looked {
    Status status = Status::kOk;
    OpaqueHandle handle;
    std::optional<Attributes> attributes;
};
struct Listed {
    std::string name;
    std::optional<Attributes> attributes;
};
struct Moved {
    Status status = Status::kOk;
    std::size_t octets = 0;
    bool is_end = false;
    std::uint64_t verifier = 0;
};

// May be used by several threads at once. Everything throws std::runtime_error when there is no reply or it
// cannot be read.
class NfsClient {
  public:
    explicit NfsClient(Transport& transport) : transport_(transport) {}

    // The root's handle of an export, by MOUNT on `transport`.
    Looked mount(Transport& transport, std::string_view path);
    void null();
    Status getattr(const OpaqueHandle& node, Attributes& attributes);
    Status setattr(const OpaqueHandle& node, const Changes& changes);
    Looked lookup(const OpaqueHandle& directory, std::string_view name);
    std::uint32_t access(const OpaqueHandle& node, std::uint32_t asked);
    Status readlink(const OpaqueHandle& link, std::string& target);
    // Into `room`, or what of it there is.
    Moved read(const OpaqueHandle& file, std::uint64_t offset, std::span<std::byte> room);
    Moved write(const OpaqueHandle& file, std::uint64_t offset, std::span<const std::byte> data,
                StableHow stable);
    Looked create(const OpaqueHandle& directory, std::string_view name, CreateMode mode);
    Looked mkdir(const OpaqueHandle& directory, std::string_view name);
    Looked symlink(const OpaqueHandle& directory, std::string_view name, std::string_view target);
    Status remove(const OpaqueHandle& directory, std::string_view name);
    Status rmdir(const OpaqueHandle& directory, std::string_view name);
    Status rename(const OpaqueHandle& from, std::string_view name, const OpaqueHandle& to,
                  std::string_view new_name);
    Status link(const OpaqueHandle& file, const OpaqueHandle& directory, std::string_view name);
    // All of a directory, in replies of up to `max_octets`.
    std::vector<Listed> readdirplus(const OpaqueHandle& directory, std::uint32_t max_octets);
    Status fsinfo(const OpaqueHandle& root, std::uint32_t& max_read, std::uint32_t& max_write);
    Moved commit(const OpaqueHandle& file);
    // How a procedure that there is none of is answered.
    bool has_procedure(std::uint32_t procedure);

  private:
    using PutArguments = std::function<void(XdrWriter&)>;
    struct Answer {
        Received received;
        XdrReader results;
    };
    struct Extra {
        std::span<const std::byte> data;
        std::span<std::byte> result;
        std::size_t max_reply_octets = 1024;
    };
    Answer call(Procedure procedure, const PutArguments& put_arguments, const Extra& extra);
    Answer call(Procedure procedure, const PutArguments& put_arguments) {
        return call(procedure, put_arguments, Extra{});
    }
    Answer send(Transport& transport, std::uint32_t program, std::uint32_t procedure,
                const PutArguments& put_arguments, const Extra& extra);
    static Looked take_made(Answer& answer);
    Status change_name(Procedure procedure, const OpaqueHandle& directory, std::string_view name);

    Transport& transport_;
    // From anywhere: a server that keeps replies would answer a number that it knows as it did before.
    std::atomic<std::uint32_t> next_xid_{std::random_device()()};
};

}  // namespace urnic::nfs
