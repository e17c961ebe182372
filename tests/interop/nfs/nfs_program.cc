#include "tests/interop/nfs/nfs_program.h"

#include <algorithm>
#include <iterator>

namespace urnic::nfs {

namespace {

void put(XdrWriter& out, Status status) { out.u32(static_cast<std::uint32_t>(status)); }

Status first_of(Status one, Status other) { return one == Status::kOk ? other : one; }

bool is_same_time(const timespec& one, const timespec& other) {
    return one.tv_sec == other.tv_sec && one.tv_nsec == other.tv_nsec;
}

// What is made belongs to who makes it, unless told otherwise.
Changes owned(Changes changes, const Caller& caller) {
    changes.uid = changes.uid.value_or(caller.uid);
    changes.gid = changes.gid.value_or(caller.gid);
    return changes;
}

}  // namespace

const NfsProgram::Handler NfsProgram::kHandlers[] = {
    &NfsProgram::null,     &NfsProgram::getattr,     &NfsProgram::setattr, &NfsProgram::lookup,
    &NfsProgram::access,   &NfsProgram::readlink,    &NfsProgram::read,    &NfsProgram::write,
    &NfsProgram::create,   &NfsProgram::mkdir,       &NfsProgram::symlink, &NfsProgram::mknod,
    &NfsProgram::remove,   &NfsProgram::rmdir,       &NfsProgram::rename,  &NfsProgram::link,
    &NfsProgram::readdir,  &NfsProgram::readdirplus, &NfsProgram::fsstat,  &NfsProgram::fsinfo,
    &NfsProgram::pathconf, &NfsProgram::commit,
};

Accepted NfsProgram::call(std::uint32_t procedure, const Caller& caller, XdrReader& arguments,
                          Results& results) {
    if (procedure >= std::size(kHandlers)) {
        return Accepted::kProcUnavail;
    }
    const std::scoped_lock lock(mutex_);
    return (this->*kHandlers[procedure])(caller, arguments, results) ? Accepted::kSuccess
                                                                     : Accepted::kGarbageArgs;
}

NfsProgram::Subject NfsProgram::take_subject(XdrReader& in) const {
    const std::optional<Handle> handle = take_handle(in);
    if (!handle.has_value()) {
        return {.status = Status::kBadhandle};
    }
    if (handle->server != server_ || !tree_.attributes(handle->node).has_value()) {
        return {.status = Status::kStale};
    }
    return {.id = handle->node};
}

NfsProgram::Place NfsProgram::take_place(XdrReader& in) const {
    const Subject directory = take_subject(in);
    return {.directory = directory, .name = text_of(in.opaque(kMaxPathOctets))};
}

bool NfsProgram::null(const Caller& /*caller*/, XdrReader& /*in*/, Results& /*results*/) { return true; }

bool NfsProgram::getattr(const Caller& /*caller*/, XdrReader& in, Results& results) {
    const Subject subject = take_subject(in);
    if (in.failed()) {
        return false;
    }
    put(results.out, subject.status);
    if (subject.status == Status::kOk) {
        put(results.out, *attributes(subject));
    }
    return true;
}

bool NfsProgram::setattr(const Caller& /*caller*/, XdrReader& in, Results& results) {
    const Subject subject = take_subject(in);
    const Changes changes = take_changes(in);
    const bool is_guarded = in.boolean();
    const timespec guard = is_guarded ? take_time(in) : timespec{};
    if (in.failed()) {
        return false;
    }
    const std::optional<Attributes> before = attributes(subject);
    Status status = subject.status;
    if (status == Status::kOk) {
        const bool has_changed = is_guarded && !is_same_time(guard, before->changed);
        status = has_changed ? Status::kNotSync : tree_.set(subject.id, changes);
    }
    put(results.out, status);
    put_change(results.out, before, attributes(subject));
    return true;
}

bool NfsProgram::lookup(const Caller& /*caller*/, XdrReader& in, Results& results) {
    const Place place = take_place(in);
    if (in.failed()) {
        return false;
    }
    Made found{.status = place.directory.status};
    if (found.status == Status::kOk) {
        found = tree_.lookup(place.directory.id, place.name);
    }
    put(results.out, found.status);
    if (found.status == Status::kOk) {
        put(results.out, Handle{.server = server_, .node = found.id});
        put(results.out, tree_.attributes(found.id));
    }
    put(results.out, attributes(place.directory));
    return true;
}

bool NfsProgram::access(const Caller& /*caller*/, XdrReader& in, Results& results) {
    const Subject subject = take_subject(in);
    const std::uint32_t asked = in.u32();
    if (in.failed()) {
        return false;
    }
    put(results.out, subject.status);
    const std::optional<Attributes> there = attributes(subject);
    put(results.out, there);
    if (there.has_value()) {
        // Everybody may do what makes sense with a node of that type and mode.
        std::uint32_t granted = kAccessAll;
        if (there->type == FileType::kDirectory) {
            granted &= ~kAccessExecute;
        } else {
            granted &= ~(kAccessLookup | kAccessDelete | ((there->mode & 0111U) == 0 ? kAccessExecute : 0));
        }
        results.out.u32(asked & granted);
    }
    return true;
}

bool NfsProgram::readlink(const Caller& /*caller*/, XdrReader& in, Results& results) {
    const Subject subject = take_subject(in);
    if (in.failed()) {
        return false;
    }
    const std::optional<std::string_view> target = tree_.target(subject.id);
    const Status status = first_of(subject.status, target.has_value() ? Status::kOk : Status::kInval);
    put(results.out, status);
    put(results.out, attributes(subject));
    if (status == Status::kOk) {
        results.out.opaque(octets_of(*target));
    }
    return true;
}

bool NfsProgram::read(const Caller& /*caller*/, XdrReader& in, Results& results) {
    const Subject subject = take_subject(in);
    const std::uint64_t offset = in.u64();
    const std::uint32_t count = in.u32();
    if (in.failed()) {
        return false;
    }
    std::size_t octets = 0;
    bool is_end = false;
    Status status = subject.status;
    if (status == Status::kOk) {
        const std::size_t most = std::min<std::size_t>({count, kMaxTransferOctets, results.data_room.size()});
        status = tree_.read(subject.id, offset, results.data_room.first(most), octets, is_end);
    }
    put(results.out, status);
    put(results.out, attributes(subject));
    if (status == Status::kOk) {
        results.out.u32(static_cast<std::uint32_t>(octets));
        results.out.boolean(is_end);
        results.out.u32(static_cast<std::uint32_t>(octets));
        results.data_octets = octets;
    }
    return true;
}

bool NfsProgram::write(const Caller& /*caller*/, XdrReader& in, Results& results) {
    const Subject subject = take_subject(in);
    const std::uint64_t offset = in.u64();
    const std::uint32_t count = in.u32();
    const std::uint32_t stable = in.u32();
    const std::span<const std::byte> data = in.opaque(kMaxTransferOctets);
    if (in.failed() || count > data.size() || stable > static_cast<std::uint32_t>(StableHow::kFileSync)) {
        return false;
    }
    const std::optional<Attributes> before = attributes(subject);
    const Status status =
        subject.status == Status::kOk ? tree_.write(subject.id, offset, data.first(count)) : subject.status;
    put(results.out, status);
    put_change(results.out, before, attributes(subject));
    if (status == Status::kOk) {
        results.out.u32(count);
        results.out.u32(stable);
        results.out.u64(server_);
    }
    return true;
}

void NfsProgram::put_made(XdrWriter& out, const Made& made, const Place& place,
                          const std::optional<Attributes>& before) {
    put(out, made.status);
    if (made.status == Status::kOk) {
        out.boolean(true);
        put(out, Handle{.server = server_, .node = made.id});
        put(out, tree_.attributes(made.id));
    }
    put_change(out, before, attributes(place.directory));
}

bool NfsProgram::create(const Caller& caller, XdrReader& in, Results& results) {
    const Place place = take_place(in);
    const std::uint32_t mode = in.u32();
    const bool is_exclusive = mode == static_cast<std::uint32_t>(CreateMode::kExclusive);
    const Verifier verifier = is_exclusive ? in.u64() : 0;
    const Changes changes = is_exclusive ? Changes{} : take_changes(in);
    if (in.failed() || mode > static_cast<std::uint32_t>(CreateMode::kExclusive)) {
        return false;
    }
    const std::optional<Attributes> before = attributes(place.directory);
    Made made{.status = place.directory.status};
    if (made.status == Status::kOk) {
        made = tree_.create(place.directory.id, place.name, static_cast<CreateMode>(mode), verifier,
                            owned(changes, caller));
    }
    put_made(results.out, made, place, before);
    return true;
}

bool NfsProgram::mkdir(const Caller& caller, XdrReader& in, Results& results) {
    const Place place = take_place(in);
    const Changes changes = take_changes(in);
    if (in.failed()) {
        return false;
    }
    const std::optional<Attributes> before = attributes(place.directory);
    Made made{.status = place.directory.status};
    if (made.status == Status::kOk) {
        made = tree_.make_directory(place.directory.id, place.name, owned(changes, caller));
    }
    put_made(results.out, made, place, before);
    return true;
}

bool NfsProgram::symlink(const Caller& caller, XdrReader& in, Results& results) {
    const Place place = take_place(in);
    const Changes changes = take_changes(in);
    const std::string_view target = text_of(in.opaque(kMaxPathOctets));
    if (in.failed()) {
        return false;
    }
    const std::optional<Attributes> before = attributes(place.directory);
    Made made{.status = place.directory.status};
    if (made.status == Status::kOk) {
        made = tree_.make_symlink(place.directory.id, place.name, target, owned(changes, caller));
    }
    put_made(results.out, made, place, before);
    return true;
}

bool NfsProgram::mknod(const Caller& /*caller*/, XdrReader& in, Results& results) {
    const Place place = take_place(in);
    if (in.failed()) {
        return false;
    }
    put_made(results.out, {.status = first_of(place.directory.status, Status::kNotsupp)}, place,
             attributes(place.directory));
    return true;
}

}  // namespace urnic::nfs
