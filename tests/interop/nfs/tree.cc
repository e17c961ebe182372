#include "tests/interop/nfs/tree.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace urnic::nfs {

namespace {

constexpr std::uint32_t kModeBits = 07777;
constexpr std::int64_t kNsPerSecond = 1'000'000'000;

Made failed(Status status) { return {.status = status, .id = 0}; }

}  // namespace

Status check_name(std::string_view name) {
    if (name.empty() || name.find('/') != std::string_view::npos ||
        name.find('\0') != std::string_view::npos) {
        return Status::kInval;
    }
    if (name == "." || name == "..") {
        return Status::kExist;
    }
    return name.size() > kMaxNameOctets ? Status::kNametoolong : Status::kOk;
}

Tree::Tree() {
    Node& root = nodes_[kRoot];
    root.attributes = {.type = FileType::kDirectory, .mode = 0755, .links = 2, .id = kRoot};
    root.parent = kRoot;
    touch(root);
    root.attributes.accessed = root.attributes.modified;
}

Tree::Node* Tree::find(NodeId id) {
    const auto found = nodes_.find(id);
    return found == nodes_.end() ? nullptr : &found->second;
}

const Tree::Node* Tree::find(NodeId id) const {
    const auto found = nodes_.find(id);
    return found == nodes_.end() ? nullptr : &found->second;
}

timespec Tree::now() {
    timespec time{};
    clock_gettime(CLOCK_REALTIME, &time);
    if (std::pair(time.tv_sec, time.tv_nsec) <= std::pair(last_now_.tv_sec, last_now_.tv_nsec)) {
        time = last_now_;
        if (++time.tv_nsec == kNsPerSecond) {
            time = {.tv_sec = time.tv_sec + 1, .tv_nsec = 0};
        }
    }
    last_now_ = time;
    return time;
}

void Tree::touch(Node& node) { node.attributes.modified = node.attributes.changed = now(); }

std::optional<Attributes> Tree::attributes(NodeId node) const {
    const Node* const found = find(node);
    return found == nullptr ? std::nullopt : std::optional(found->attributes);
}

Status Tree::resize(Node& node, std::uint64_t size) {
    if (node.attributes.type != FileType::kRegular) {
        return node.attributes.type == FileType::kDirectory ? Status::kIsdir : Status::kInval;
    }
    if (size > kMaxFileOctets) {
        return Status::kFbig;
    }
    if (octets_ - node.data.size() + size > kMaxOctets) {
        return Status::kNospc;
    }
    octets_ = octets_ - node.data.size() + size;
    node.data.resize(size);
    node.attributes.size = size;
    return Status::kOk;
}

void Tree::apply(Node& node, const Changes& changes) {
    Attributes& attributes = node.attributes;
    attributes.mode = changes.mode.value_or(attributes.mode) & kModeBits;
    attributes.uid = changes.uid.value_or(attributes.uid);
    attributes.gid = changes.gid.value_or(attributes.gid);
    attributes.changed = now();
    if (changes.access_time != SetTime::kDontChange) {
        attributes.accessed =
            changes.access_time == SetTime::kClientTime ? changes.accessed : attributes.changed;
    }
    if (changes.modify_time != SetTime::kDontChange) {
        attributes.modified =
            changes.modify_time == SetTime::kClientTime ? changes.modified : attributes.changed;
    }
}

Status Tree::set(NodeId node, const Changes& changes) {
    Node* const found = find(node);
    if (found == nullptr) {
        return Status::kStale;
    }
    if (changes.size.has_value()) {
        if (const Status status = resize(*found, *changes.size); status != Status::kOk) {
            return status;
        }
        touch(*found);
    }
    apply(*found, changes);
    return Status::kOk;
}

Made Tree::lookup(NodeId directory, std::string_view name) const {
    const Node* const found = find(directory);
    if (found == nullptr) {
        return failed(Status::kStale);
    }
    if (found->attributes.type != FileType::kDirectory) {
        return failed(Status::kNotdir);
    }
    if (name == "." || name == "..") {
        return {.id = name == "." ? directory : found->parent};
    }
    if (const Status status = check_name(name); status != Status::kOk) {
        return failed(status);
    }
    const auto entry = found->entries.find(name);
    return entry == found->entries.end() ? failed(Status::kNoent) : Made{.id = entry->second.id};
}

Status Tree::room_for(NodeId directory, std::string_view name, Node** found) {
    *found = find(directory);
    if (*found == nullptr) {
        return Status::kStale;
    }
    if ((*found)->attributes.type != FileType::kDirectory) {
        return Status::kNotdir;
    }
    if (const Status status = check_name(name); status != Status::kOk) {
        return status;
    }
    if ((*found)->entries.contains(name)) {
        return Status::kExist;
    }
    return nodes_.size() >= kMaxNodes ? Status::kNospc : Status::kOk;
}

void Tree::enter(Node& directory, std::string_view name, NodeId id) {
    const std::uint64_t cookie = ++directory.last_cookie;
    const auto entry = directory.entries.emplace(name, Entry{.id = id, .cookie = cookie}).first;
    directory.cookies.emplace(cookie, &entry->first);
    directory.attributes.size = directory.entries.size();
    touch(directory);
}

void Tree::leave(Node& directory, std::string_view name) {
    const auto entry = directory.entries.find(name);
    directory.cookies.erase(entry->second.cookie);
    directory.entries.erase(entry);
    directory.attributes.size = directory.entries.size();
    touch(directory);
}

NodeId Tree::add(Node& directory, std::string_view name, FileType type, const Changes& changes) {
    // The container moves no nodes: references stay good.
    const NodeId id = ++last_id_;
    Node& node = nodes_[id];
    const bool is_directory = type == FileType::kDirectory;
    node.attributes = {
        .type = type, .mode = is_directory ? 0755U : 0644U, .links = is_directory ? 2U : 1U, .id = id};
    touch(node);
    node.attributes.accessed = node.attributes.modified;
    apply(node, changes);
    if (is_directory) {
        node.parent = directory.attributes.id;
        ++directory.attributes.links;
    }
    enter(directory, name, id);
    return id;
}

Made Tree::create(NodeId directory, std::string_view name, CreateMode mode, Verifier verifier,
                  const Changes& changes) {
    Node* parent = nullptr;
    const Status status = room_for(directory, name, &parent);
    if (status == Status::kExist && mode != CreateMode::kGuarded && check_name(name) == Status::kOk) {
        const NodeId id = parent->entries.find(name)->second.id;
        const Node& there = nodes_.at(id);
        if (mode == CreateMode::kExclusive) {
            const bool is_same = there.attributes.type == FileType::kRegular && there.created_by == verifier;
            return is_same ? Made{.id = id} : failed(Status::kExist);
        }
        if (there.attributes.type != FileType::kRegular) {
            return failed(Status::kExist);
        }
        // Of an existing file the size alone is set, as open(2) does with O_TRUNC.
        const Status set_size = changes.size.has_value() ? set(id, {.size = changes.size}) : Status::kOk;
        return {.status = set_size, .id = id};
    }
    if (status != Status::kOk) {
        return failed(status);
    }
    const NodeId id = add(*parent, name, FileType::kRegular, changes);
    Node& made = nodes_.at(id);
    made.created_by = mode == CreateMode::kExclusive ? verifier : 0;
    const Status sized = changes.size.has_value() ? resize(made, *changes.size) : Status::kOk;
    return {.status = sized, .id = id};
}

Made Tree::make_directory(NodeId directory, std::string_view name, const Changes& changes) {
    Node* parent = nullptr;
    const Status status = room_for(directory, name, &parent);
    return status == Status::kOk ? Made{.id = add(*parent, name, FileType::kDirectory, changes)}
                                 : failed(status);
}

Made Tree::make_symlink(NodeId directory, std::string_view name, std::string_view target,
                        const Changes& changes) {
    Node* parent = nullptr;
    const Status status = room_for(directory, name, &parent);
    if (status != Status::kOk) {
        return failed(status);
    }
    const NodeId id = add(*parent, name, FileType::kSymlink, changes);
    Node& made = nodes_.at(id);
    made.target = target;
    made.attributes.size = target.size();
    return {.id = id};
}

Status Tree::link(NodeId file, NodeId directory, std::string_view name) {
    Node* const linked = find(file);
    if (linked == nullptr) {
        return Status::kStale;
    }
    if (linked->attributes.type == FileType::kDirectory) {
        return Status::kIsdir;
    }
    if (linked->attributes.links == kMaxLinks) {
        return Status::kMlink;
    }
    Node* parent = nullptr;
    if (const Status status = room_for(directory, name, &parent); status != Status::kOk) {
        return status;
    }
    enter(*parent, name, file);
    ++linked->attributes.links;
    linked->attributes.changed = now();
    return Status::kOk;
}

void Tree::unlink(Node& node) {
    node.attributes.changed = now();
    if (node.attributes.type != FileType::kDirectory && --node.attributes.links != 0) {
        return;
    }
    octets_ -= node.data.size();
    nodes_.erase(node.attributes.id);
}

Status Tree::remove(NodeId directory, std::string_view name) {
    const Made found = lookup(directory, name);
    if (found.status != Status::kOk) {
        return found.status;
    }
    Node& node = nodes_.at(found.id);
    if (node.attributes.type == FileType::kDirectory) {
        return Status::kIsdir;
    }
    leave(*find(directory), name);
    unlink(node);
    return Status::kOk;
}

Status Tree::remove_directory(NodeId directory, std::string_view name) {
    if (name == "." || name == "..") {
        return name == "." ? Status::kInval : Status::kExist;
    }
    const Made found = lookup(directory, name);
    if (found.status != Status::kOk) {
        return found.status;
    }
    Node& node = nodes_.at(found.id);
    if (node.attributes.type != FileType::kDirectory) {
        return Status::kNotdir;
    }
    if (!node.entries.empty()) {
        return Status::kNotempty;
    }
    Node& parent = *find(directory);
    leave(parent, name);
    --parent.attributes.links;
    unlink(node);
    return Status::kOk;
}

bool Tree::is_below(NodeId node, NodeId ancestor) const {
    for (;; node = nodes_.at(node).parent) {
        if (node == ancestor) {
            return true;
        }
        if (node == kRoot) {
            return false;
        }
    }
}

// Makes way for what is moved to that name (3.3.14).
Status Tree::replace(const Node& moved, NodeId to, std::string_view name) {
    const Made there = lookup(to, name);
    if (there.status == Status::kNoent) {
        return Status::kOk;
    }
    const bool is_directory = nodes_.at(there.id).attributes.type == FileType::kDirectory;
    if (is_directory != (moved.attributes.type == FileType::kDirectory)) {
        return Status::kExist;
    }
    return is_directory ? remove_directory(to, name) : remove(to, name);
}

Status Tree::rename(NodeId from, std::string_view old_name, NodeId to, std::string_view new_name) {
    for (const std::string_view name : {old_name, new_name}) {
        if (const Status status = check_name(name); status != Status::kOk) {
            return status == Status::kExist ? Status::kInval : status;
        }
    }
    const Made found = lookup(from, old_name);
    if (found.status != Status::kOk) {
        return found.status;
    }
    const Made there = lookup(to, new_name);
    if (there.status == Status::kOk && there.id == found.id) {
        return Status::kOk;  // two names of one file: nothing is done
    }
    if (there.status != Status::kOk && there.status != Status::kNoent) {
        return there.status;
    }
    Node& moved = nodes_.at(found.id);
    const bool is_directory = moved.attributes.type == FileType::kDirectory;
    if (is_directory && is_below(to, found.id)) {
        return Status::kInval;
    }
    if (const Status status = replace(moved, to, new_name); status != Status::kOk) {
        return status;
    }
    Node& source = *find(from);
    Node& destination = *find(to);
    leave(source, old_name);
    enter(destination, new_name, found.id);
    if (is_directory) {
        moved.parent = to;
        --source.attributes.links;
        ++destination.attributes.links;
    }
    moved.attributes.changed = now();
    return Status::kOk;
}

std::optional<std::string_view> Tree::target(NodeId link) const {
    const Node* const node = find(link);
    if (node == nullptr || node->attributes.type != FileType::kSymlink) {
        return std::nullopt;
    }
    return node->target;
}

Status Tree::read(NodeId file, std::uint64_t offset, std::span<std::byte> room, std::size_t& octets,
                  bool& is_end) {
    Node* const node = find(file);
    if (node == nullptr) {
        return Status::kStale;
    }
    if (node->attributes.type != FileType::kRegular) {
        return node->attributes.type == FileType::kDirectory ? Status::kIsdir : Status::kInval;
    }
    const std::uint64_t left = node->data.size() - std::min<std::uint64_t>(offset, node->data.size());
    octets = std::min<std::uint64_t>(left, room.size());
    is_end = octets == left;
    if (octets != 0) {
        std::memcpy(room.data(), node->data.data() + offset, octets);
    }
    node->attributes.accessed = now();
    return Status::kOk;
}

Status Tree::write(NodeId file, std::uint64_t offset, std::span<const std::byte> data) {
    Node* const node = find(file);
    if (node == nullptr) {
        return Status::kStale;
    }
    if (node->attributes.type != FileType::kRegular) {
        return node->attributes.type == FileType::kDirectory ? Status::kIsdir : Status::kInval;
    }
    if (offset > kMaxFileOctets || data.size() > kMaxFileOctets - offset) {
        return Status::kFbig;
    }
    if (offset + data.size() > node->data.size() && !data.empty()) {
        if (const Status status = resize(*node, offset + data.size()); status != Status::kOk) {
            return status;
        }
    }
    std::copy(data.begin(), data.end(),
              node->data.begin() + static_cast<std::ptrdiff_t>(data.empty() ? 0 : offset));
    touch(*node);
    return Status::kOk;
}

std::optional<DirectoryEntry> Tree::entry_behind(NodeId directory, std::uint64_t cookie) const {
    const Node* const node = find(directory);
    if (node == nullptr) {
        return std::nullopt;
    }
    if (cookie == 0) {
        return DirectoryEntry{.name = ".", .id = directory, .cookie = 1};
    }
    if (cookie == 1) {
        return DirectoryEntry{.name = "..", .id = node->parent, .cookie = 2};
    }
    const auto next = node->cookies.upper_bound(cookie);
    if (next == node->cookies.end()) {
        return std::nullopt;
    }
    return DirectoryEntry{
        .name = *next->second, .id = node->entries.at(*next->second).id, .cookie = next->first};
}

}  // namespace urnic::nfs
