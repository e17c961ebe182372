// Procedures on names, directories and the file system as a whole; MOUNT.
#include <algorithm>
#include <array>
#include <optional>

#include "tests/interop/nfs/nfs_program.h"

namespace urnic::nfs {

namespace {

// Octets of an entry besides its name: the word in front, fileid, the name's length, cookie.
constexpr std::size_t kEntryOctets = 4 + 8 + 4 + 8;
// post_op_attr and post_op_fh3.
constexpr std::size_t kPlusOctets = 4 + 84 + 4 + 4 + kHandleOctets;
// Status, post_op_attr, verifier, the end of the list and `eof`.
constexpr std::size_t kListingOctets = 4 + 4 + 84 + 8 + 4 + 4;
// FSINFO: hard links, symbolic links, the same for all of the file system, times can be set.
constexpr std::uint32_t kProperties = 0x1 | 0x2 | 0x8 | 0x10;

}  // namespace

bool NfsProgram::remove_by(Status (Tree::*method)(NodeId, std::string_view), XdrReader& in,
                           Results& results) {
    const Place place = take_place(in);
    if (in.failed()) {
        return false;
    }
    const std::optional<Attributes> before = attributes(place.directory);
    const Status status = place.directory.status == Status::kOk
                              ? (tree_.*method)(place.directory.id, place.name)
                              : place.directory.status;
    results.out.u32(static_cast<std::uint32_t>(status));
    put_change(results.out, before, attributes(place.directory));
    return true;
}

bool NfsProgram::remove(const Caller& /*caller*/, XdrReader& in, Results& results) {
    return remove_by(&Tree::remove, in, results);
}

bool NfsProgram::rmdir(const Caller& /*caller*/, XdrReader& in, Results& results) {
    return remove_by(&Tree::remove_directory, in, results);
}

bool NfsProgram::rename(const Caller& /*caller*/, XdrReader& in, Results& results) {
    const Place from = take_place(in);
    const Place to = take_place(in);
    if (in.failed()) {
        return false;
    }
    const std::array before = {attributes(from.directory), attributes(to.directory)};
    Status status = from.directory.status == Status::kOk ? to.directory.status : from.directory.status;
    if (status == Status::kOk) {
        status = tree_.rename(from.directory.id, from.name, to.directory.id, to.name);
    }
    results.out.u32(static_cast<std::uint32_t>(status));
    put_change(results.out, before[0], attributes(from.directory));
    put_change(results.out, before[1], attributes(to.directory));
    return true;
}

bool NfsProgram::link(const Caller& /*caller*/, XdrReader& in, Results& results) {
    const Subject file = take_subject(in);
    const Place place = take_place(in);
    if (in.failed()) {
        return false;
    }
    const std::optional<Attributes> before = attributes(place.directory);
    Status status = file.status == Status::kOk ? place.directory.status : file.status;
    if (status == Status::kOk) {
        status = tree_.link(file.id, place.directory.id, place.name);
    }
    results.out.u32(static_cast<std::uint32_t>(status));
    put(results.out, attributes(file));
    put_change(results.out, before, attributes(place.directory));
    return true;
}

void NfsProgram::put_entry(XdrWriter& out, const DirectoryEntry& entry, bool is_plus) {
    out.boolean(true);
    out.u64(entry.id);
    out.opaque(octets_of(entry.name));
    out.u64(entry.cookie);
    if (is_plus) {
        put(out, tree_.attributes(entry.id));
        out.boolean(true);
        put(out, Handle{.server = server_, .node = entry.id});
    }
}

void NfsProgram::put_listing(XdrWriter& out, const Subject& directory, std::uint64_t cookie, std::size_t most,
                             std::size_t most_names, bool is_plus) {
    const std::optional<Attributes> there = attributes(directory);
    Status status = directory.status;
    if (status == Status::kOk && there->type != FileType::kDirectory) {
        status = Status::kNotdir;
    }
    std::optional<DirectoryEntry> entry;
    const auto size_of = [is_plus](const DirectoryEntry& listed) {
        return kEntryOctets + rpcrdma::xdr_padded(listed.name.size()) + (is_plus ? kPlusOctets : 0);
    };
    if (status == Status::kOk) {
        entry = tree_.entry_behind(directory.id, cookie);
        status =
            entry.has_value() && kListingOctets + size_of(*entry) > most ? Status::kToosmall : Status::kOk;
    }
    out.u32(static_cast<std::uint32_t>(status));
    put(out, there);
    if (status != Status::kOk) {
        return;
    }
    out.u64(0);  // The verifier: cookies stay good.
    std::size_t octets = kListingOctets;
    std::size_t name_octets = 0;
    bool is_first = true;
    while (entry.has_value() && octets + size_of(*entry) <= most && (is_first || name_octets < most_names)) {
        put_entry(out, *entry, is_plus);
        octets += size_of(*entry);
        name_octets += kEntryOctets + rpcrdma::xdr_padded(entry->name.size());
        is_first = false;
        entry = tree_.entry_behind(directory.id, entry->cookie);
    }
    out.boolean(false);
    out.boolean(!entry.has_value());
}

// READDIRPLUS tells two sizes: of the names, and of everything.
bool NfsProgram::list(XdrReader& in, Results& results, bool is_plus) {
    const Subject directory = take_subject(in);
    const std::uint64_t cookie = in.u64();
    skip_words(in, 2);  // verifier
    const std::uint32_t first = in.u32();
    const std::size_t most = std::min(is_plus ? in.u32() : first, kMaxDirectoryOctets);
    if (in.failed()) {
        return false;
    }
    put_listing(results.out, directory, cookie, most, is_plus ? first : most, is_plus);
    return true;
}

bool NfsProgram::readdir(const Caller& /*caller*/, XdrReader& in, Results& results) {
    return list(in, results, false);
}

bool NfsProgram::readdirplus(const Caller& /*caller*/, XdrReader& in, Results& results) {
    return list(in, results, true);
}

std::optional<Status> NfsProgram::put_subject(XdrReader& in, Results& results) const {
    const Subject subject = take_subject(in);
    if (in.failed()) {
        return std::nullopt;
    }
    results.out.u32(static_cast<std::uint32_t>(subject.status));
    put(results.out, attributes(subject));
    return subject.status;
}

bool NfsProgram::fsstat(const Caller& /*caller*/, XdrReader& in, Results& results) {
    const std::optional<Status> status = put_subject(in, results);
    if (status == Status::kOk) {
        const std::uint64_t left = Tree::kMaxOctets - tree_.octets();
        const std::uint64_t nodes_left = Tree::kMaxNodes - tree_.nodes();
        for (const std::uint64_t value :
             {Tree::kMaxOctets, left, left, std::uint64_t{Tree::kMaxNodes}, nodes_left, nodes_left}) {
            results.out.u64(value);
        }
        results.out.u32(0);  // invarsec
    }
    return status.has_value();
}

bool NfsProgram::fsinfo(const Caller& /*caller*/, XdrReader& in, Results& results) {
    const std::optional<Status> status = put_subject(in, results);
    if (status == Status::kOk) {
        constexpr std::uint32_t kMultiple = 1;
        // READ's, WRITE's: maximum, preference, multiple; READDIR's preference.
        for (const std::uint32_t value :
             {kMaxTransferOctets, kMaxTransferOctets, kMultiple, kMaxTransferOctets, kMaxTransferOctets,
              kMultiple, kMaxDirectoryOctets}) {
            results.out.u32(value);
        }
        results.out.u64(Tree::kMaxFileOctets);
        results.out.u32(0);  // time_delta: 1 ns
        results.out.u32(1);
        results.out.u32(kProperties);
    }
    return status.has_value();
}

bool NfsProgram::pathconf(const Caller& /*caller*/, XdrReader& in, Results& results) {
    const std::optional<Status> status = put_subject(in, results);
    if (status == Status::kOk) {
        results.out.u32(Tree::kMaxLinks);
        results.out.u32(kMaxNameOctets);
        for (const bool value :
             {true, true, false, true}) {  // no_trunc, chown_restricted, case: not ignored, kept
            results.out.boolean(value);
        }
    }
    return status.has_value();
}

bool NfsProgram::commit(const Caller& /*caller*/, XdrReader& in, Results& results) {
    const Subject subject = take_subject(in);
    skip_words(in, 3);  // offset, count
    if (in.failed()) {
        return false;
    }
    const std::optional<Attributes> there = attributes(subject);
    results.out.u32(static_cast<std::uint32_t>(subject.status));
    put_change(results.out, there, there);
    if (subject.status == Status::kOk) {
        results.out.u64(server_);
    }
    return true;
}

Accepted MountProgram::call(std::uint32_t procedure, const Caller& /*caller*/, XdrReader& arguments,
                            Results& results) {
    switch (static_cast<MountProcedure>(procedure)) {
        case MountProcedure::kNull:
        case MountProcedure::kUmnt:
        case MountProcedure::kUmntall:
            return Accepted::kSuccess;
        case MountProcedure::kDump:
            results.out.boolean(false);  // no list
            return Accepted::kSuccess;
        case MountProcedure::kExport:
            results.out.boolean(true);
            results.out.opaque(octets_of(path_));
            results.out.boolean(false);  // groups
            results.out.boolean(false);  // the next export
            return Accepted::kSuccess;
        case MountProcedure::kMnt: {
            const std::string_view path = text_of(arguments.opaque(kMaxPathOctets));
            if (arguments.failed()) {
                return Accepted::kGarbageArgs;
            }
            results.out.u32(static_cast<std::uint32_t>(path == path_ ? Status::kOk : Status::kNoent));
            if (path == path_) {
                put(results.out, root_);
                results.out.u32(1);  // one flavor
                results.out.u32(kAuthSys);
            }
            return Accepted::kSuccess;
        }
    }
    return Accepted::kProcUnavail;
}

}  // namespace urnic::nfs
