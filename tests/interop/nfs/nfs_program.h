// NFS version 3 (RFC 1813) over a Tree, and the MOUNT protocol that gives out its root.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "tests/interop/nfs/attributes.h"
#include "tests/interop/nfs/rpc.h"
#include "tests/interop/nfs/tree.h"

namespace urnic::nfs {

class NfsProgram : public Program {
  public:
    // `server`: in every handle, and the verifier of unstable writes.
    explicit NfsProgram(std::uint64_t server) : server_(server) {}

    [[nodiscard]] std::uint32_t number() const override { return kNfsProgram; }
    [[nodiscard]] std::uint32_t version() const override { return kVersion; }
    Accepted call(std::uint32_t procedure, const Caller& caller, XdrReader& arguments,
                  Results& results) override;

    [[nodiscard]] Handle root() const { return {.server = server_, .node = Tree::kRoot}; }

  private:
    // A handle that came: the node, or why there is none.
    struct Subject {
        Status status = Status::kOk;
        NodeId id = 0;
    };
    // diropargs3.
    struct Place {
        Subject directory;
        std::string_view name;
    };
    // Each reads its arguments and, when they are whole, acts and writes its results. Returns whether they
    // are.
    using Handler = bool (NfsProgram::*)(const Caller& caller, XdrReader& in, Results& results);
    static const Handler kHandlers[];

    bool null(const Caller& caller, XdrReader& in, Results& results);
    bool getattr(const Caller& caller, XdrReader& in, Results& results);
    bool setattr(const Caller& caller, XdrReader& in, Results& results);
    bool lookup(const Caller& caller, XdrReader& in, Results& results);
    bool access(const Caller& caller, XdrReader& in, Results& results);
    bool readlink(const Caller& caller, XdrReader& in, Results& results);
    bool read(const Caller& caller, XdrReader& in, Results& results);
    bool write(const Caller& caller, XdrReader& in, Results& results);
    bool create(const Caller& caller, XdrReader& in, Results& results);
    bool mkdir(const Caller& caller, XdrReader& in, Results& results);
    bool symlink(const Caller& caller, XdrReader& in, Results& results);
    bool mknod(const Caller& caller, XdrReader& in, Results& results);
    bool remove(const Caller& caller, XdrReader& in, Results& results);
    bool rmdir(const Caller& caller, XdrReader& in, Results& results);
    bool rename(const Caller& caller, XdrReader& in, Results& results);
    bool link(const Caller& caller, XdrReader& in, Results& results);
    bool readdir(const Caller& caller, XdrReader& in, Results& results);
    bool readdirplus(const Caller& caller, XdrReader& in, Results& results);
    bool fsstat(const Caller& caller, XdrReader& in, Results& results);
    bool fsinfo(const Caller& caller, XdrReader& in, Results& results);
    bool pathconf(const Caller& caller, XdrReader& in, Results& results);
    bool commit(const Caller& caller, XdrReader& in, Results& results);

    Subject take_subject(XdrReader& in) const;
    Place take_place(XdrReader& in) const;
    [[nodiscard]] std::optional<Attributes> attributes(const Subject& subject) const {
        return tree_.attributes(subject.id);
    }
    // The results of CREATE, MKDIR and SYMLINK.
    void put_made(XdrWriter& out, const Made& made, const Place& place,
                  const std::optional<Attributes>& before);
    // Status and attributes of what a procedure is about; nothing: its arguments are damaged.
    std::optional<Status> put_subject(XdrReader& in, Results& results) const;
    // Removes by `method` of the tree's.
    bool remove_by(Status (Tree::*method)(NodeId, std::string_view), XdrReader& in, Results& results);
    bool list(XdrReader& in, Results& results, bool is_plus);
    // READDIR's and READDIRPLUS's results of up to `most` octets, `most_names` of which without attributes
    // and handles.
    void put_listing(XdrWriter& out, const Subject& directory, std::uint64_t cookie, std::size_t most,
                     std::size_t most_names, bool is_plus);
    void put_entry(XdrWriter& out, const DirectoryEntry& entry, bool is_plus);

    const std::uint64_t server_;
    std::mutex mutex_;  // over the tree, for the whole of a procedure
    Tree tree_;
};

// MOUNT version 3 (RFC 1813, section 5): one export.
class MountProgram : public Program {
  public:
    MountProgram(std::string path, const Handle& root) : path_(std::move(path)), root_(root) {}

    [[nodiscard]] std::uint32_t number() const override { return kMountProgram; }
    [[nodiscard]] std::uint32_t version() const override { return kVersion; }
    Accepted call(std::uint32_t procedure, const Caller& caller, XdrReader& arguments,
                  Results& results) override;

  private:
    const std::string path_;
    const Handle root_;
};

}  // namespace urnic::nfs
