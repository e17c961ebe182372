#include "tests/interop/nfs/nfs_client.h"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace urnic::nfs {

namespace {

constexpr std::size_t kMaxCallStreamOctets = 4096;
constexpr std::string_view kMachine = "urnic";

Status take_status(XdrReader& in) { return static_cast<Status>(in.u32()); }

void check(const XdrReader& in, std::string_view what) {
    if (in.failed()) {
        throw std::runtime_error("the results are too short: " + std::string(what));
    }
}

OpaqueHandle take_opaque_handle(XdrReader& in) {
    const std::span<const std::byte> octets = in.opaque(kMaxHandleOctets);
    return {octets.begin(), octets.end()};
}

void put_place(XdrWriter& out, const OpaqueHandle& directory, std::string_view name) {
    out.opaque(directory);
    out.opaque(octets_of(name));
}

// wcc_data.
std::optional<Attributes> take_change(XdrReader& in) {
    if (in.boolean()) {
        skip_words(in, 6);  // size, times
    }
    return take_optional_attributes(in);
}

}  // namespace

NfsClient::Answer NfsClient::send(Transport& transport, std::uint32_t program, std::uint32_t procedure,
                                  const PutArguments& put_arguments, const Extra& extra) {
    const std::uint32_t xid = next_xid_++;
    std::array<std::byte, kMaxCallStreamOctets> room{};
    XdrWriter out(room);
    put_call(out, xid, program, kVersion, procedure, kMachine);
    put_arguments(out);
    if (out.failed()) {
        throw std::runtime_error("a call that is too long");
    }
    Received received = transport.call({.stream = out.written(),
                                        .data = extra.data,
                                        .result = extra.result,
                                        .max_reply_octets = extra.max_reply_octets});
    XdrReader in(received.stream);
    if (!take_reply(in, xid)) {
        throw std::runtime_error("procedure " + std::to_string(procedure) + ": not accepted");
    }
    return {.received = std::move(received), .results = in};
}

NfsClient::Answer NfsClient::call(Procedure procedure, const PutArguments& put_arguments,
                                  const Extra& extra) {
    return send(transport_, kNfsProgram, static_cast<std::uint32_t>(procedure), put_arguments, extra);
}

Looked NfsClient::mount(Transport& transport, std::string_view path) {
    Answer answer = send(
        transport, kMountProgram, static_cast<std::uint32_t>(MountProcedure::kMnt),
        [path](XdrWriter& out) { out.opaque(octets_of(path)); }, Extra{});
    Looked root{.status = take_status(answer.results)};
    if (root.status == Status::kOk) {
        root.handle = take_opaque_handle(answer.results);
    }
    check(answer.results, "MNT");
    return root;
}

void NfsClient::null() {
    call(Procedure::kNull, [](XdrWriter&) {});
}

bool NfsClient::has_procedure(std::uint32_t procedure) {
    try {
        send(
            transport_, kNfsProgram, procedure, [](XdrWriter&) {}, Extra{});
    } catch (const std::runtime_error& error) {
        if (std::string_view(error.what()).ends_with("not accepted")) {
            return false;
        }
        throw;
    }
    return true;
}

Status NfsClient::getattr(const OpaqueHandle& node, Attributes& attributes) {
    Answer answer = call(Procedure::kGetattr, [&](XdrWriter& out) { out.opaque(node); });
    const Status status = take_status(answer.results);
    if (status == Status::kOk) {
        attributes = take_attributes(answer.results);
    }
    check(answer.results, "GETATTR");
    return status;
}

Status NfsClient::setattr(const OpaqueHandle& node, const Changes& changes) {
    Answer answer = call(Procedure::kSetattr, [&](XdrWriter& out) {
        out.opaque(node);
        put(out, changes);
        out.boolean(false);  // no guard
    });
    return take_status(answer.results);
}

Looked NfsClient::lookup(const OpaqueHandle& directory, std::string_view name) {
    Answer answer = call(Procedure::kLookup, [&](XdrWriter& out) { put_place(out, directory, name); });
    Looked found{.status = take_status(answer.results)};
    if (found.status == Status::kOk) {
        found.handle = take_opaque_handle(answer.results);
        found.attributes = take_optional_attributes(answer.results);
    }
    check(answer.results, "LOOKUP");
    return found;
}

std::uint32_t NfsClient::access(const OpaqueHandle& node, std::uint32_t asked) {
    Answer answer = call(Procedure::kAccess, [&](XdrWriter& out) {
        out.opaque(node);
        out.u32(asked);
    });
    if (take_status(answer.results) != Status::kOk) {
        return 0;
    }
    static_cast<void>(take_optional_attributes(answer.results));
    const std::uint32_t granted = answer.results.u32();
    check(answer.results, "ACCESS");
    return granted;
}

Status NfsClient::readlink(const OpaqueHandle& link, std::string& target) {
    std::array<std::byte, kMaxPathOctets> room{};
    Answer answer = call(Procedure::kReadlink, [&](XdrWriter& out) { out.opaque(link); }, {.result = room});
    const Status status = take_status(answer.results);
    static_cast<void>(take_optional_attributes(answer.results));
    if (status == Status::kOk && answer.received.result_octets != 0) {
        target = text_of(std::span<const std::byte>(room).first(answer.received.result_octets));
    } else if (status == Status::kOk) {
        target = text_of(answer.results.opaque(kMaxPathOctets));
    }
    check(answer.results, "READLINK");
    return status;
}

Moved NfsClient::read(const OpaqueHandle& file, std::uint64_t offset, std::span<std::byte> room) {
    Answer answer = call(Procedure::kRead,
                         [&](XdrWriter& out) {
                             out.opaque(file);
                             out.u64(offset);
                             out.u32(static_cast<std::uint32_t>(room.size()));
                         },
                         {.result = room});
    XdrReader& in = answer.results;
    Moved moved{.status = take_status(in)};
    static_cast<void>(take_optional_attributes(in));
    if (moved.status != Status::kOk) {
        return moved;
    }
    moved.octets = in.u32();
    moved.is_end = in.boolean();
    if (answer.received.result_octets == 0) {
        const std::span<const std::byte> data = in.opaque(room.size());
        std::ranges::copy(data, room.begin());
        answer.received.result_octets = data.size();
    } else if (in.u32() != moved.octets) {
        throw std::runtime_error("READ: the length of the data is not what was read");
    }
    check(in, "READ");
    if (answer.received.result_octets != moved.octets) {
        throw std::runtime_error("READ: " + std::to_string(answer.received.result_octets) + " octets came, " +
                                 std::to_string(moved.octets) + " were read");
    }
    return moved;
}

Moved NfsClient::write(const OpaqueHandle& file, std::uint64_t offset, std::span<const std::byte> data,
                       StableHow stable) {
    Answer answer = call(Procedure::kWrite,
                         [&](XdrWriter& out) {
                             out.opaque(file);
                             out.u64(offset);
                             out.u32(static_cast<std::uint32_t>(data.size()));
                             out.u32(static_cast<std::uint32_t>(stable));
                             out.u32(static_cast<std::uint32_t>(data.size()));
                         },
                         {.data = data});
    Moved moved{.status = take_status(answer.results)};
    static_cast<void>(take_change(answer.results));
    if (moved.status == Status::kOk) {
        moved.octets = answer.results.u32();
        skip_words(answer.results, 1);  // committed
        moved.verifier = answer.results.u64();
    }
    check(answer.results, "WRITE");
    return moved;
}

Looked NfsClient::take_made(Answer& answer) {
    Looked made{.status = take_status(answer.results)};
    if (made.status == Status::kOk) {
        if (answer.results.boolean()) {
            made.handle = take_opaque_handle(answer.results);
        }
        made.attributes = take_optional_attributes(answer.results);
    }
    static_cast<void>(take_change(answer.results));
    check(answer.results, "a procedure that makes something");
    return made;
}

Looked NfsClient::create(const OpaqueHandle& directory, std::string_view name, CreateMode mode) {
    Answer answer = call(Procedure::kCreate, [&](XdrWriter& out) {
        put_place(out, directory, name);
        out.u32(static_cast<std::uint32_t>(mode));
        if (mode == CreateMode::kExclusive) {
            out.u64(0);
        } else {
            put(out, Changes{.mode = 0640});
        }
    });
    return take_made(answer);
}

Looked NfsClient::mkdir(const OpaqueHandle& directory, std::string_view name) {
    Answer answer = call(Procedure::kMkdir, [&](XdrWriter& out) {
        put_place(out, directory, name);
        put(out, Changes{.mode = 0750});
    });
    return take_made(answer);
}

Looked NfsClient::symlink(const OpaqueHandle& directory, std::string_view name, std::string_view target) {
    Answer answer = call(Procedure::kSymlink,
                         [&](XdrWriter& out) {
                             put_place(out, directory, name);
                             put(out, Changes{});
                             out.u32(static_cast<std::uint32_t>(target.size()));
                         },
                         {.data = octets_of(target)});
    return take_made(answer);
}

Status NfsClient::change_name(Procedure procedure, const OpaqueHandle& directory, std::string_view name) {
    Answer answer = call(procedure, [&](XdrWriter& out) { put_place(out, directory, name); });
    return take_status(answer.results);
}

Status NfsClient::remove(const OpaqueHandle& directory, std::string_view name) {
    return change_name(Procedure::kRemove, directory, name);
}

Status NfsClient::rmdir(const OpaqueHandle& directory, std::string_view name) {
    return change_name(Procedure::kRmdir, directory, name);
}

Status NfsClient::rename(const OpaqueHandle& from, std::string_view name, const OpaqueHandle& to,
                         std::string_view new_name) {
    Answer answer = call(Procedure::kRename, [&](XdrWriter& out) {
        put_place(out, from, name);
        put_place(out, to, new_name);
    });
    return take_status(answer.results);
}

Status NfsClient::link(const OpaqueHandle& file, const OpaqueHandle& directory, std::string_view name) {
    Answer answer = call(Procedure::kLink, [&](XdrWriter& out) {
        out.opaque(file);
        put_place(out, directory, name);
    });
    return take_status(answer.results);
}

std::vector<Listed> NfsClient::readdirplus(const OpaqueHandle& directory, std::uint32_t max_octets) {
    std::vector<Listed> entries;
    std::uint64_t cookie = 0;
    std::uint64_t verifier = 0;
    for (bool is_end = false; !is_end;) {
        Answer answer = call(Procedure::kReaddirplus,
                             [&](XdrWriter& out) {
                                 out.opaque(directory);
                                 out.u64(cookie);
                                 out.u64(verifier);
                                 out.u32(max_octets);
                                 out.u32(max_octets);
                             },
                             {.max_reply_octets = max_octets + 256});
        XdrReader& in = answer.results;
        if (const Status status = take_status(in); status != Status::kOk) {
            throw std::runtime_error("READDIRPLUS: status " +
                                     std::to_string(static_cast<std::uint32_t>(status)));
        }
        static_cast<void>(take_optional_attributes(in));
        verifier = in.u64();
        const std::size_t before = entries.size();
        while (in.boolean()) {
            skip_words(in, 2);  // fileid
            Listed entry{.name = std::string(text_of(in.opaque(kMaxNameOctets)))};
            cookie = in.u64();
            entry.attributes = take_optional_attributes(in);
            if (in.boolean()) {
                static_cast<void>(in.opaque(kMaxHandleOctets));
            }
            entries.push_back(std::move(entry));
        }
        is_end = in.boolean();
        check(in, "READDIRPLUS");
        if (!is_end && entries.size() == before) {
            throw std::runtime_error("READDIRPLUS: no entry, and no end");
        }
    }
    return entries;
}

Status NfsClient::fsinfo(const OpaqueHandle& root, std::uint32_t& max_read, std::uint32_t& max_write) {
    Answer answer = call(Procedure::kFsinfo, [&](XdrWriter& out) { out.opaque(root); });
    const Status status = take_status(answer.results);
    static_cast<void>(take_optional_attributes(answer.results));
    if (status == Status::kOk) {
        max_read = answer.results.u32();
        skip_words(answer.results, 2);
        max_write = answer.results.u32();
    }
    check(answer.results, "FSINFO");
    return status;
}

Moved NfsClient::commit(const OpaqueHandle& file) {
    Answer answer = call(Procedure::kCommit, [&](XdrWriter& out) {
        out.opaque(file);
        out.u64(0);
        out.u32(0);
    });
    Moved committed{.status = take_status(answer.results)};
    static_cast<void>(take_change(answer.results));
    if (committed.status == Status::kOk) {
        committed.verifier = answer.results.u64();
    }
    check(answer.results, "COMMIT");
    return committed;
}

}  // namespace urnic::nfs
