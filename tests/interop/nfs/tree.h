// A file system in memory, as NFS version 3 (RFC 1813) sees one: files, directories and symbolic links that
// are named by numbers which are never used twice. Nothing of the machine's own files can be reached through
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tests/interop/nfs/nfs3.h"

namespace urnic::nfs {

using NodeId = std::uint64_t;

struct Attributes {
    FileType type = FileType::kRegular;
    std::uint32_t mode = 0;
    std::uint32_t links = 0;
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
    std::uint64_t size = 0;  // octets
    NodeId id = 0;
    timespec accessed{};
    timespec modified{};
    timespec changed{};
};

// What SETATTR and CREATE set; nothing: stays.
struct Changes {
    std::optional<std::uint32_t> mode;
    std::optional<std::uint32_t> uid;
    std::optional<std::uint32_t> gid;
    std::optional<std::uint64_t> size;
    SetTime access_time = SetTime::kDontChange;
    timespec accessed{};
    SetTime modify_time = SetTime::kDontChange;
    timespec modified{};
};

using Verifier = std::uint64_t;

struct DirectoryEntry {
    std::string_view name;
    NodeId id = 0;
    std::uint64_t cookie = 0;
};

// A node that was made, or the one found in its place.
struct Made {
    Status status = Status::kOk;
    NodeId id = 0;
};

// Not for several threads at once. Every node given by number may be one that is no longer there: kStale.
class Tree {
  public:
    static constexpr NodeId kRoot = 1;
    // Of a file, and of all files together: FBIG and NOSPC beyond.
    static constexpr std::uint64_t kMaxFileOctets = 1ULL << 30U;
    static constexpr std::uint64_t kMaxOctets = 4ULL << 30U;
    static constexpr std::size_t kMaxNodes = 1U << 20U;
    static constexpr std::uint32_t kMaxLinks = 32000;

    Tree();

    // Nothing: stale.
    [[nodiscard]] std::optional<Attributes> attributes(NodeId node) const;
    Status set(NodeId node, const Changes& changes);

    [[nodiscard]] Made lookup(NodeId directory, std::string_view name) const;
    Made create(NodeId directory, std::string_view name, CreateMode mode, Verifier verifier,
                const Changes& changes);
    Made make_directory(NodeId directory, std::string_view name, const Changes& changes);
    Made make_symlink(NodeId directory, std::string_view name, std::string_view target,
                      const Changes& changes);
    Status link(NodeId file, NodeId directory, std::string_view name);
    Status remove(NodeId directory, std::string_view name);
    Status remove_directory(NodeId directory, std::string_view name);
    Status rename(NodeId from, std::string_view old_name, NodeId to, std::string_view new_name);

    // Nothing unless it is a symbolic link.
    [[nodiscard]] std::optional<std::string_view> target(NodeId link) const;
    // Copies what there is from `offset` on; `octets` says how much.
    Status read(NodeId file, std::uint64_t offset, std::span<std::byte> room, std::size_t& octets,
                bool& is_end);
    Status write(NodeId file, std::uint64_t offset, std::span<const std::byte> data);

    // The entry behind `cookie` (0: the first), "." and ".." first; nothing: the end.
    [[nodiscard]] std::optional<DirectoryEntry> entry_behind(NodeId directory, std::uint64_t cookie) const;

    [[nodiscard]] std::uint64_t octets() const { return octets_; }
    [[nodiscard]] std::size_t nodes() const { return nodes_.size(); }

  private:
    struct Entry {
        NodeId id = 0;
        std::uint64_t cookie = 0;
    };
    struct Node {
        Attributes attributes;
        std::vector<std::byte> data;
        std::string target;
        Verifier created_by = 0;  // exclusively (3.3.8)
        NodeId parent = 0;        // of a directory
        std::map<std::string, Entry, std::less<>> entries;
        std::map<std::uint64_t, const std::string*> cookies;  // their names lie in `entries`
        std::uint64_t last_cookie = 2;                        // 1 and 2: "." and ".."
    };

    [[nodiscard]] Node* find(NodeId id);
    [[nodiscard]] const Node* find(NodeId id) const;
    // kOk, and the directory, when that name may be made in it.
    Status room_for(NodeId directory, std::string_view name, Node** found);
    NodeId add(Node& directory, std::string_view name, FileType type, const Changes& changes);
    void enter(Node& directory, std::string_view name, NodeId id);
    void leave(Node& directory, std::string_view name);
    // A name of it was removed.
    void unlink(Node& node);
    Status resize(Node& node, std::uint64_t size);
    void apply(Node& node, const Changes& changes);
    Status replace(const Node& moved, NodeId to, std::string_view name);
    [[nodiscard]] bool is_below(NodeId node, NodeId ancestor) const;
    // Later than any before: clients see by it that something changed.
    timespec now();
    void touch(Node& node);

    std::unordered_map<NodeId, Node> nodes_;
    NodeId last_id_ = kRoot;
    std::uint64_t octets_ = 0;
    timespec last_now_{};
};

// kOk, or why no entry may be called that.
[[nodiscard]] Status check_name(std::string_view name);

}  // namespace urnic::nfs
