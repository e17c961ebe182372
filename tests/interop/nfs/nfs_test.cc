// The NFS server that Linux is given as a peer: that it takes no call that is not whole, no handle that it
// has not given out, and that its tree keeps its rules.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "tests/interop/nfs/nfs_program.h"

namespace urnic::nfs {
namespace {

constexpr std::uint64_t kServer = 0x1122334455667788;
constexpr std::size_t kAcceptedStateAt = 20;

class NfsServer : public testing::Test {
  protected:
    // The reply's stream, with its data at the end.
    std::vector<std::byte> ask(std::span<const std::byte> call) {
        const Reply reply = answer(programs_, call, {.stream = stream_, .data = data_});
        std::vector<std::byte> octets(stream_.begin(),
                                      stream_.begin() + static_cast<std::ptrdiff_t>(reply.stream_octets));
        octets.insert(octets.end(), data_.begin(),
                      data_.begin() + static_cast<std::ptrdiff_t>(reply.data_octets));
        return octets;
    }
    template <typename Put>
    std::vector<std::byte> call(std::uint32_t program, std::uint32_t version, std::uint32_t procedure,
                                Put put_arguments) {
        std::vector<std::byte> room(4096);
        XdrWriter out(room);
        put_call(out, 7, program, version, procedure, "test");
        put_arguments(out);
        room.resize(out.size());
        return room;
    }
    template <typename Put>
    std::vector<std::byte> nfs_call(Procedure procedure, Put put_arguments) {
        return call(kNfsProgram, kVersion, static_cast<std::uint32_t>(procedure), put_arguments);
    }
    static Accepted state_of(std::span<const std::byte> reply) {
        XdrReader in(reply.subspan(kAcceptedStateAt));
        return static_cast<Accepted>(in.u32());
    }
    static Status status_of(std::span<const std::byte> reply) {
        XdrReader in(reply.subspan(kAcceptedStateAt + 4));
        return static_cast<Status>(in.u32());
    }

    NfsProgram nfs_{kServer};
    MountProgram mount_{"/export", nfs_.root()};
    std::array<Program*, 2> programs_{&nfs_, &mount_};
    std::vector<std::byte> stream_ = std::vector<std::byte>(kReplyStreamOctets);
    std::vector<std::byte> data_ = std::vector<std::byte>(kMaxTransferOctets);
};

void put_root_place(XdrWriter& out, std::string_view name) {
    put(out, Handle{.server = kServer, .node = Tree::kRoot});
    out.opaque(octets_of(name));
}

TEST_F(NfsServer, RefusesWhatItIsNot) {
    const auto nothing = [](XdrWriter&) {};
    EXPECT_EQ(state_of(ask(call(100227, 3, 0, nothing))), Accepted::kProgUnavail);
    EXPECT_EQ(state_of(ask(call(kNfsProgram, 4, 0, nothing))), Accepted::kProgMismatch);
    EXPECT_EQ(state_of(ask(call(kNfsProgram, 3, 22, nothing))), Accepted::kProcUnavail);
    EXPECT_EQ(state_of(ask(call(kMountProgram, 3, 6, nothing))), Accepted::kProcUnavail);
    EXPECT_EQ(state_of(ask(nfs_call(Procedure::kNull, nothing))), Accepted::kSuccess);
}

// A call that ends anywhere changes nothing, and is no call or has no valid arguments.
TEST_F(NfsServer, EveryPrefixOfACall) {
    const auto create = nfs_call(Procedure::kCreate, [](XdrWriter& out) {
        put_root_place(out, "name");
        out.u32(static_cast<std::uint32_t>(CreateMode::kGuarded));
        put(out, Changes{.mode = 0600, .size = 5});
    });
    const auto write = nfs_call(Procedure::kWrite, [](XdrWriter& out) {
        put(out, nfs::Handle{.server = kServer, .node = Tree::kRoot});
        out.u64(0);
        out.u32(8);
        out.u32(0);
        out.opaque(octets_of("12345678"));
    });
    const auto rename = nfs_call(Procedure::kRename, [](XdrWriter& out) {
        put_root_place(out, "name");
        put_root_place(out, "other");
    });
    for (const auto& whole : {create, write, rename}) {
        for (std::size_t octets = 0; octets < whole.size(); ++octets) {
            const auto reply = ask(std::span(whole).first(octets));
            if (!reply.empty()) {
                EXPECT_EQ(state_of(reply), Accepted::kGarbageArgs) << octets;
            }
        }
    }
    const auto lookup = nfs_call(Procedure::kLookup, [](XdrWriter& out) { put_root_place(out, "name"); });
    EXPECT_EQ(status_of(ask(lookup)), Status::kNoent);
    EXPECT_EQ(status_of(ask(create)), Status::kOk);
    EXPECT_EQ(status_of(ask(lookup)), Status::kOk);
}

TEST_F(NfsServer, HandlesThatItHasNotGivenOut) {
    const auto getattr = [this](const auto& put_handle) {
        return status_of(ask(nfs_call(Procedure::kGetattr, put_handle)));
    };
    EXPECT_EQ(getattr([](XdrWriter& out) { put(out, Handle{.server = kServer, .node = Tree::kRoot}); }),
              Status::kOk);
    EXPECT_EQ(getattr([](XdrWriter& out) { put(out, Handle{.server = kServer, .node = 99}); }),
              Status::kStale);
    EXPECT_EQ(getattr([](XdrWriter& out) { put(out, Handle{.server = kServer, .node = 0}); }),
              Status::kStale);
    EXPECT_EQ(getattr([](XdrWriter& out) { put(out, Handle{.server = kServer + 1, .node = 1}); }),
              Status::kStale);
    EXPECT_EQ(getattr([](XdrWriter& out) { out.opaque(octets_of("/etc/passwd")); }), Status::kBadhandle);
    EXPECT_EQ(getattr([](XdrWriter& out) { out.opaque({}); }), Status::kBadhandle);
}

TEST_F(NfsServer, WriteSaysHowMuchItBrings) {
    const auto write = nfs_call(Procedure::kWrite, [](XdrWriter& out) {
        put(out, Handle{.server = kServer, .node = Tree::kRoot});
        out.u64(0);
        out.u32(9);
        out.u32(0);
        out.opaque(octets_of("12345678"));
    });
    EXPECT_EQ(state_of(ask(write)), Accepted::kGarbageArgs);
}

TEST_F(NfsServer, ListingsFitWhatWasAskedFor) {
    for (int i = 0; i < 300; ++i) {
        const auto mkdir = nfs_call(Procedure::kMkdir, [i](XdrWriter& out) {
            put_root_place(out, std::string(static_cast<std::size_t>(1 + i % 60), 'n') + std::to_string(i));
            put(out, Changes{});
        });
        ASSERT_EQ(status_of(ask(mkdir)), Status::kOk);
    }
    for (const std::uint32_t most : {0U, 100U, 250U, 512U, 5000U, 70000U, 0xffffffffU}) {
        const auto listing = ask(nfs_call(Procedure::kReaddirplus, [most](XdrWriter& out) {
            put(out, Handle{.server = kServer, .node = Tree::kRoot});
            out.u64(0);
            out.u64(0);
            out.u32(most);
            out.u32(most);
        }));
        const Status status = status_of(listing);
        EXPECT_EQ(status, most < 250 ? Status::kToosmall : Status::kOk) << most;
        if (status == Status::kOk) {
            EXPECT_LE(listing.size() - kAcceptedStateAt - 4, most);
        }
    }
}

TEST(Tree, NamesThatNothingMayHave) {
    Tree tree;
    for (const std::string_view name : {std::string_view(""), std::string_view("."), std::string_view(".."),
                                        std::string_view("a/b"), std::string_view("a\0b", 3)}) {
        EXPECT_NE(tree.create(Tree::kRoot, name, CreateMode::kUnchecked, 0, {}).status, Status::kOk) << name;
    }
    EXPECT_EQ(tree.create(Tree::kRoot, std::string(256, 'a'), CreateMode::kUnchecked, 0, {}).status,
              Status::kNametoolong);
    EXPECT_EQ(tree.lookup(Tree::kRoot, "..").id, Tree::kRoot);
}

TEST(Tree, RenameKeepsATree) {
    Tree tree;
    const NodeId a = tree.make_directory(Tree::kRoot, "a", {}).id;
    const NodeId b = tree.make_directory(a, "b", {}).id;
    const NodeId file = tree.create(b, "file", CreateMode::kGuarded, 0, {}).id;
    EXPECT_EQ(tree.rename(Tree::kRoot, "a", b, "c"), Status::kInval);
    EXPECT_EQ(tree.rename(Tree::kRoot, "a", a, "c"), Status::kInval);
    EXPECT_EQ(tree.rename(b, "file", a, "b"), Status::kExist);
    EXPECT_EQ(tree.rename(Tree::kRoot, "a", file, "c"), Status::kNotdir);
    EXPECT_EQ(tree.rename(a, "b", Tree::kRoot, "b"), Status::kOk);
    EXPECT_EQ(tree.lookup(b, "..").id, Tree::kRoot);
    EXPECT_EQ(tree.attributes(a)->links, 2U);
    EXPECT_EQ(tree.attributes(Tree::kRoot)->links, 4U);
    EXPECT_EQ(tree.rename(Tree::kRoot, "b", Tree::kRoot, "a"), Status::kOk);
    EXPECT_FALSE(tree.attributes(a).has_value());
    EXPECT_EQ(tree.lookup(Tree::kRoot, "a").id, b);
}

TEST(Tree, AFileEndsWithItsLastName) {
    Tree tree;
    const NodeId file = tree.create(Tree::kRoot, "file", CreateMode::kGuarded, 0, {}).id;
    EXPECT_EQ(tree.write(file, 10, octets_of("data")), Status::kOk);
    EXPECT_EQ(tree.octets(), 14U);
    EXPECT_EQ(tree.link(file, Tree::kRoot, "other"), Status::kOk);
    EXPECT_EQ(tree.remove(Tree::kRoot, "file"), Status::kOk);
    EXPECT_EQ(tree.attributes(file)->links, 1U);
    EXPECT_EQ(tree.remove(Tree::kRoot, "other"), Status::kOk);
    EXPECT_FALSE(tree.attributes(file).has_value());
    EXPECT_EQ(tree.octets(), 0U);
    EXPECT_EQ(tree.write(file, 0, octets_of("data")), Status::kStale);
}

TEST(Tree, SizesThatAreTooMuch) {
    Tree tree;
    const NodeId file = tree.create(Tree::kRoot, "file", CreateMode::kGuarded, 0, {}).id;
    EXPECT_EQ(tree.write(file, ~std::uint64_t{0} - 1, octets_of("data")), Status::kFbig);
    EXPECT_EQ(tree.set(file, {.size = Tree::kMaxFileOctets + 1}), Status::kFbig);
    EXPECT_EQ(tree.set(Tree::kRoot, {.size = 0}), Status::kIsdir);
    std::array<std::byte, 4> room{};
    std::size_t octets = 9;
    bool is_end = false;
    EXPECT_EQ(tree.read(file, ~std::uint64_t{0}, room, octets, is_end), Status::kOk);
    EXPECT_EQ(octets, 0U);
    EXPECT_TRUE(is_end);
}

TEST(Tree, ExclusiveCreationOnceAndAgain) {
    Tree tree;
    const Made made = tree.create(Tree::kRoot, "file", CreateMode::kExclusive, 5, {});
    EXPECT_EQ(tree.create(Tree::kRoot, "file", CreateMode::kExclusive, 5, {}).id, made.id);
    EXPECT_EQ(tree.create(Tree::kRoot, "file", CreateMode::kExclusive, 6, {}).status, Status::kExist);
}

TEST(Tree, CookiesStayGoodWhileEntriesGo) {
    Tree tree;
    for (const char* name : {"a", "b", "c", "d"}) {
        tree.create(Tree::kRoot, name, CreateMode::kGuarded, 0, {});
    }
    const auto b = tree.entry_behind(Tree::kRoot, tree.entry_behind(Tree::kRoot, 2)->cookie);
    ASSERT_EQ(b->name, "b");
    const std::uint64_t cookie = b->cookie;
    EXPECT_EQ(tree.remove(Tree::kRoot, "b"), Status::kOk);
    EXPECT_EQ(tree.entry_behind(Tree::kRoot, cookie)->name, "c");
    EXPECT_FALSE(tree.entry_behind(Tree::kRoot, ~std::uint64_t{0}).has_value());
}

}  // namespace
}  // namespace urnic::nfs
