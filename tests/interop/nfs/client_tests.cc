#include "tests/interop/nfs/client_tests.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <fstream>
#include <functional>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

namespace urnic::nfs {

namespace {

// Longer than a Call or a Reply that goes inline in version 1 (1024 octets, with what is around it).
constexpr std::size_t kLongTarget = 1000;

void must(bool is_so, const std::string& what) {
    if (!is_so) {
        throw std::runtime_error(what);
    }
}

void must_be_ok(Status status, const std::string& what) {
    must(status == Status::kOk, what + ": status " + std::to_string(static_cast<std::uint32_t>(status)));
}

std::string mb_per_s(std::uint64_t octets, std::chrono::steady_clock::time_point begin) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    return std::to_string(octets >> 20U) + " MB, " +
           std::to_string(static_cast<unsigned>(static_cast<double>(octets) / 1e6 / seconds.count())) +
           " MB/s";
}

// Calls `work` for 0 to `count`, by several threads; rethrows what one of them threw.
void in_parallel(unsigned threads, std::uint64_t count, const std::function<void(std::uint64_t)>& work) {
    std::atomic<std::uint64_t> next{0};
    std::exception_ptr failure;
    std::mutex mutex;
    const auto run = [&] {
        try {
            for (std::uint64_t number = next++; number < count; number = next++) {
                work(number);
            }
        } catch (...) {
            next = count;
            const std::scoped_lock lock(mutex);
            failure = std::current_exception();
        }
    };
    {
        std::vector<std::jthread> running;
        for (unsigned i = 0; i < threads; ++i) {
            running.emplace_back(run);
        }
    }
    if (failure) {
        std::rethrow_exception(failure);
    }
}

OpaqueHandle find(Bench& bench, std::string_view name) {
    const Looked found = bench.client.lookup(bench.root, name);
    must_be_ok(found.status, "LOOKUP of " + std::string(name));
    return found.handle;
}

std::string null(Bench& bench) {
    bench.client.null();
    must(!bench.client.has_procedure(99), "procedure 99 is accepted");
    return "NULL, and a procedure that there is none of";
}

std::string lookup(Bench& bench) {
    must(bench.client.lookup(bench.root, "absent").status == Status::kNoent,
         "LOOKUP finds what is not there");
    OpaqueHandle wrong = bench.root;
    wrong.back() ^= std::byte{0xff};
    wrong.resize(wrong.size() - 4);
    Attributes attributes;
    must(bench.client.getattr(wrong, attributes) != Status::kOk, "a handle that is none is taken");
    must_be_ok(bench.client.getattr(bench.root, attributes), "GETATTR");
    must(attributes.type == FileType::kDirectory, "the root is no directory");
    must((bench.client.access(bench.root, kAccessAll) & 0xfU) == 0xfU, "ACCESS");
    return "an absent name, a damaged handle, GETATTR and ACCESS of the root";
}

std::string create(Bench& bench) {
    const Looked made = bench.client.create(bench.root, "guarded", CreateMode::kGuarded);
    must_be_ok(made.status, "CREATE");
    must(bench.client.create(bench.root, "guarded", CreateMode::kGuarded).status == Status::kExist,
         "made twice");
    const Looked exclusive = bench.client.create(bench.root, "exclusive", CreateMode::kExclusive);
    must_be_ok(exclusive.status, "CREATE exclusively");
    must_be_ok(bench.client.create(bench.root, "exclusive", CreateMode::kExclusive).status,
               "the same once more");
    must_be_ok(bench.client.setattr(made.handle, {.mode = 0600, .size = 12345}), "SETATTR");
    Attributes attributes;
    must_be_ok(bench.client.getattr(made.handle, attributes), "GETATTR");
    must(attributes.size == 12345 && (attributes.mode & 0777U) == 0600, "what SETATTR set is not there");
    must_be_ok(bench.client.remove(bench.root, "guarded"), "REMOVE");
    must_be_ok(bench.client.remove(bench.root, "exclusive"), "REMOVE");
    return "guarded and exclusive, SETATTR";
}

std::string write(Bench& bench) {
    std::ifstream file(bench.wanted.data_path, std::ios::binary | std::ios::ate);
    must(file.good(), "no file " + bench.wanted.data_path);
    RegisteredMemory data(static_cast<std::size_t>(file.tellg()));
    file.seekg(0);
    file.read(reinterpret_cast<char*>(data.octets().data()),
              static_cast<std::streamsize>(data.octets().size()));
    std::uint32_t most_read = 0;
    std::uint32_t most = 0;
    must_be_ok(bench.client.fsinfo(bench.root, most_read, most), "FSINFO");
    most = std::min(most, kMaxTransferOctets);
    must(most >= 4096, "FSINFO: WRITEs of up to " + std::to_string(most) + " octets");
    const Looked made = bench.client.create(bench.root, "data", CreateMode::kUnchecked);
    must_be_ok(made.status, "CREATE");
    const auto begin = std::chrono::steady_clock::now();
    const std::span<const std::byte> octets = data.octets();
    std::atomic<std::uint64_t> verifier{0};
    in_parallel(bench.wanted.threads, (octets.size() + most - 1) / most, [&](std::uint64_t number) {
        const std::span<const std::byte> part =
            octets.subspan(number * most).first(std::min<std::size_t>(most, octets.size() - number * most));
        const Moved moved = bench.client.write(made.handle, number * most, part, StableHow::kUnstable);
        must_be_ok(moved.status, "WRITE");
        must(moved.octets == part.size(), "WRITE wrote less");
        verifier = moved.verifier;
    });
    const Moved committed = bench.client.commit(made.handle);
    must_be_ok(committed.status, "COMMIT");
    must(committed.verifier == verifier, "COMMIT: the server has begun anew");
    Attributes attributes;
    must_be_ok(bench.client.getattr(made.handle, attributes), "GETATTR");
    must(attributes.size == octets.size(), "the file has another size");
    return "WRITE and COMMIT, " + mb_per_s(octets.size(), begin) + ", " + std::to_string(most) +
           " octets each";
}

std::string read(Bench& bench) {
    const OpaqueHandle file = find(bench, "data");
    Attributes attributes;
    must_be_ok(bench.client.getattr(file, attributes), "GETATTR");
    std::uint32_t most = 0;
    std::uint32_t most_write = 0;
    must_be_ok(bench.client.fsinfo(bench.root, most, most_write), "FSINFO");
    most = std::min(most, kMaxTransferOctets);
    RegisteredMemory data(attributes.size);
    const std::span<std::byte> room = data.octets();
    const auto begin = std::chrono::steady_clock::now();
    in_parallel(bench.wanted.threads, (room.size() + most - 1) / most, [&](std::uint64_t number) {
        const std::size_t offset = number * most;
        const std::size_t octets = std::min<std::size_t>(most, room.size() - offset);
        const Moved moved = bench.client.read(file, offset, room.subspan(offset, octets));
        must_be_ok(moved.status, "READ");
        must(moved.octets == octets, "READ read less");
        must(moved.is_end == (offset + octets == room.size()), "READ: the end is elsewhere");
    });
    const std::string speed = mb_per_s(room.size(), begin);
    std::ofstream back(bench.wanted.back_path, std::ios::binary);
    back.write(reinterpret_cast<const char*>(room.data()), static_cast<std::streamsize>(room.size()));
    back.close();
    must(back.good(), "cannot write " + bench.wanted.back_path);
    return "READ, " + speed;
}

// Of sizes around words, chunks' boundaries and what goes inline.
std::string sizes(Bench& bench) {
    const Looked made = bench.client.create(bench.root, "sizes", CreateMode::kUnchecked);
    must_be_ok(made.status, "CREATE");
    RegisteredMemory sent(70000);
    RegisteredMemory came(70000);
    unsigned count = 0;
    for (const std::size_t octets :
         {0U,    1U,    2U,    3U,    4U,    5U,    700U,  850U,  900U,   960U,   1000U,
          1024U, 3800U, 3950U, 4000U, 4060U, 4095U, 4096U, 4097U, 65535U, 65536U, 65537U}) {
        const std::span<std::byte> data = sent.octets().first(octets);
        for (std::size_t i = 0; i < octets; ++i) {
            data[i] = static_cast<std::byte>(i * 7 + octets);
        }
        const Moved moved = bench.client.write(made.handle, 13, data, StableHow::kFileSync);
        must_be_ok(moved.status, "WRITE of " + std::to_string(octets));
        must(moved.octets == octets, "WRITE of " + std::to_string(octets) + " wrote less");
        std::ranges::fill(came.octets(), std::byte{0xee});
        const Moved back = bench.client.read(made.handle, 13, came.octets().first(octets));
        must_be_ok(back.status, "READ of " + std::to_string(octets));
        must(back.octets == octets && std::ranges::equal(data, came.octets().first(octets)),
             "READ of " + std::to_string(octets) + ": other data");
        must(came.octets()[octets] == std::byte{0xee},
             "READ of " + std::to_string(octets) + " wrote behind its room");
        ++count;
    }
    must_be_ok(bench.client.remove(bench.root, "sizes"), "REMOVE");
    return "WRITE and READ of " + std::to_string(count) + " sizes from 0 to 65537 octets, at an odd offset";
}

std::string symlinks(Bench& bench) {
    for (const std::size_t octets : {std::size_t{1}, std::size_t{60}, kLongTarget}) {
        const std::string name = "link" + std::to_string(octets);
        const std::string target(octets, 'x');
        const Looked made = bench.client.symlink(bench.root, name, target);
        must_be_ok(made.status, "SYMLINK of " + std::to_string(octets));
        std::string back;
        must_be_ok(bench.client.readlink(find(bench, name), back), "READLINK");
        must(back == target, "READLINK: " + back);
        must_be_ok(bench.client.remove(bench.root, name), "REMOVE");
    }
    return "SYMLINK and READLINK of 1, 60 and 1000 octets";
}

std::string names(Bench& bench) {
    const Looked directory = bench.client.mkdir(bench.root, "names");
    must_be_ok(directory.status, "MKDIR");
    must_be_ok(bench.client.create(bench.root, "a", CreateMode::kGuarded).status, "CREATE");
    must_be_ok(bench.client.rename(bench.root, "a", directory.handle, "b"), "RENAME");
    must(bench.client.lookup(bench.root, "a").status == Status::kNoent, "the old name is there");
    const Looked moved = bench.client.lookup(directory.handle, "b");
    must_be_ok(moved.status, "LOOKUP of the new name");
    must_be_ok(bench.client.link(moved.handle, bench.root, "c"), "LINK");
    Attributes attributes;
    must_be_ok(bench.client.getattr(moved.handle, attributes), "GETATTR");
    must(attributes.links == 2, "a file of two names has " + std::to_string(attributes.links) + " links");
    must(bench.client.rmdir(bench.root, "names") == Status::kNotempty, "RMDIR of what is not empty");
    must_be_ok(bench.client.remove(directory.handle, "b"), "REMOVE");
    must_be_ok(bench.client.remove(bench.root, "c"), "REMOVE");
    must_be_ok(bench.client.rmdir(bench.root, "names"), "RMDIR");
    return "MKDIR, RENAME, LINK, REMOVE, RMDIR";
}

std::string listing(Bench& bench) {
    const Looked directory = bench.client.mkdir(bench.root, "many");
    must_be_ok(directory.status, "MKDIR");
    const auto name_of = [](std::uint64_t number) { return "file number " + std::to_string(number); };
    in_parallel(bench.wanted.threads, bench.wanted.files, [&](std::uint64_t number) {
        must_be_ok(bench.client.create(directory.handle, name_of(number), CreateMode::kGuarded).status,
                   "CREATE");
    });
    const std::vector<Listed> entries = bench.client.readdirplus(directory.handle, 32768);
    std::set<std::string> seen;
    for (const Listed& entry : entries) {
        must(seen.insert(entry.name).second, "READDIRPLUS lists twice: " + entry.name);
    }
    must(entries.size() == bench.wanted.files + 2U,
         "READDIRPLUS lists " + std::to_string(entries.size()) + " entries");
    for (std::uint64_t number = 0; number < bench.wanted.files; ++number) {
        must(seen.contains(name_of(number)), "READDIRPLUS does not list " + name_of(number));
    }
    in_parallel(bench.wanted.threads, bench.wanted.files, [&](std::uint64_t number) {
        must_be_ok(bench.client.remove(directory.handle, name_of(number)), "REMOVE");
    });
    must_be_ok(bench.client.rmdir(bench.root, "many"), "RMDIR");
    return std::to_string(bench.wanted.files) + " files: CREATE, READDIRPLUS, REMOVE";
}

}  // namespace

const std::vector<ClientTest>& client_tests() {
    static const std::vector<ClientTest> tests = {
        {.name = "null", .run = null},         {.name = "lookup", .run = lookup},
        {.name = "create", .run = create},     {.name = "sizes", .run = sizes},
        {.name = "write", .run = write},       {.name = "read", .run = read},
        {.name = "symlinks", .run = symlinks}, {.name = "names", .run = names},
        {.name = "listing", .run = listing},
    };
    return tests;
}

}  // namespace urnic::nfs
