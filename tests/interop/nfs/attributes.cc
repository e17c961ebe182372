#include "tests/interop/nfs/attributes.h"

namespace urnic::nfs {

namespace {

void put_time(XdrWriter& out, const timespec& time) {
    out.u32(static_cast<std::uint32_t>(time.tv_sec));
    out.u32(static_cast<std::uint32_t>(time.tv_nsec));
}

std::optional<std::uint32_t> take_optional_u32(XdrReader& in) {
    return in.boolean() ? std::optional(in.u32()) : std::nullopt;
}

void put_optional_u32(XdrWriter& out, const std::optional<std::uint32_t>& value) {
    out.boolean(value.has_value());
    if (value.has_value()) {
        out.u32(*value);
    }
}

SetTime take_set_time(XdrReader& in, timespec& time) {
    const std::uint32_t how = in.u32();
    if (how > static_cast<std::uint32_t>(SetTime::kClientTime)) {
        in.fail();
        return SetTime::kDontChange;
    }
    if (static_cast<SetTime>(how) == SetTime::kClientTime) {
        time = take_time(in);
    }
    return static_cast<SetTime>(how);
}

void put_set_time(XdrWriter& out, SetTime how, const timespec& time) {
    out.u32(static_cast<std::uint32_t>(how));
    if (how == SetTime::kClientTime) {
        put_time(out, time);
    }
}

}  // namespace

timespec take_time(XdrReader& in) {
    timespec time{};
    time.tv_sec = in.u32();
    time.tv_nsec = in.u32();
    return time;
}

void put(XdrWriter& out, const Handle& handle) {
    out.u32(kHandleOctets);
    out.u64(handle.server);
    out.u64(handle.node);
}

std::optional<Handle> take_handle(XdrReader& in) {
    const std::span<const std::byte> octets = in.opaque(kMaxHandleOctets);
    if (octets.size() != kHandleOctets) {
        return std::nullopt;
    }
    XdrReader handle(octets);
    const std::uint64_t server = handle.u64();
    return Handle{.server = server, .node = handle.u64()};
}

void put(XdrWriter& out, const Attributes& attributes) {
    for (const std::uint32_t word : {static_cast<std::uint32_t>(attributes.type), attributes.mode,
                                     attributes.links, attributes.uid, attributes.gid}) {
        out.u32(word);
    }
    out.u64(attributes.size);
    out.u64(attributes.size);  // used
    out.u64(0);                // rdev
    out.u64(0);                // fsid
    out.u64(attributes.id);
    put_time(out, attributes.accessed);
    put_time(out, attributes.modified);
    put_time(out, attributes.changed);
}

Attributes take_attributes(XdrReader& in) {
    Attributes attributes;
    attributes.type = static_cast<FileType>(in.u32());
    attributes.mode = in.u32();
    attributes.links = in.u32();
    attributes.uid = in.u32();
    attributes.gid = in.u32();
    attributes.size = in.u64();
    skip_words(in, 6);  // used, rdev, fsid
    attributes.id = in.u64();
    attributes.accessed = take_time(in);
    attributes.modified = take_time(in);
    attributes.changed = take_time(in);
    return attributes;
}

void put(XdrWriter& out, const std::optional<Attributes>& attributes) {
    out.boolean(attributes.has_value());
    if (attributes.has_value()) {
        put(out, *attributes);
    }
}

std::optional<Attributes> take_optional_attributes(XdrReader& in) {
    return in.boolean() ? std::optional(take_attributes(in)) : std::nullopt;
}

void put_change(XdrWriter& out, const std::optional<Attributes>& before,
                const std::optional<Attributes>& after) {
    out.boolean(before.has_value());
    if (before.has_value()) {
        out.u64(before->size);
        put_time(out, before->modified);
        put_time(out, before->changed);
    }
    put(out, after);
}

void put(XdrWriter& out, const Changes& changes) {
    put_optional_u32(out, changes.mode);
    put_optional_u32(out, changes.uid);
    put_optional_u32(out, changes.gid);
    out.boolean(changes.size.has_value());
    if (changes.size.has_value()) {
        out.u64(*changes.size);
    }
    put_set_time(out, changes.access_time, changes.accessed);
    put_set_time(out, changes.modify_time, changes.modified);
}

Changes take_changes(XdrReader& in) {
    Changes changes;
    changes.mode = take_optional_u32(in);
    changes.uid = take_optional_u32(in);
    changes.gid = take_optional_u32(in);
    changes.size = in.boolean() ? std::optional(in.u64()) : std::nullopt;
    changes.access_time = take_set_time(in, changes.accessed);
    changes.modify_time = take_set_time(in, changes.modified);
    return changes;
}

}  // namespace urnic::nfs
