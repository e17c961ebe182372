// file_client TRANSPORT HOST PORT COMMAND...: what is wrong goes to standard error; the exit status is 0 if
// nothing is.
//   work THREADS ROUNDS    one CLIENT, many threads: files written and read, echoes, samples, lists; octets
//   verified large OCTETS           one message of that size written, read, echoed errors wrong program,
//   version, procedure; credentials; garbage hold SECONDS           prints "holding", and calls a procedure
//   that takes that long; prints what it returned
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/rpcrdma_rpcgen/connect.h"
#include "tests/support/file_service/service.h"

namespace urnic::e2e {

namespace {

using file_service::fill_pattern;
using file_service::has_pattern;

std::atomic<int> failures{0};

void fail(const char* what, clnt_stat status, std::uint64_t detail = 0) {
    if (++failures <= 20) {
        std::fprintf(stderr, "%s: %s (%llu): %s\n", what, clnt_sperrno(status),
                     static_cast<unsigned long long>(detail), rpcrdma_last_error());
    }
}

void expect(const char* what, clnt_stat status, clnt_stat expected) {
    if (status != expected) {
        fail(what, status, expected);
    }
}

template <class T>
void release(CLIENT* client, bool_t (*encode)(XDR*, T*), T& object) {
    clnt_freeres(client, reinterpret_cast<xdrproc_t>(encode), &object);
}

void echo(CLIENT* client, std::uint32_t octets, std::uint64_t seed) {
    std::vector<char> data(octets);
    fill_pattern(seed, 0, data.data(), octets);
    payload arguments{.payload_len = octets, .payload_val = data.data()};
    payload result{};
    const clnt_stat status = file_echo_1(&arguments, &result, client);
    if (status != RPC_SUCCESS || result.payload_len != octets ||
        !has_pattern(seed, 0, result.payload_val, octets)) {
        fail("echo", status, octets);
    }
    release(client, xdr_payload, result);
}

void write_and_read(CLIENT* client, const std::string& name, std::uint64_t offset, std::uint32_t octets) {
    std::string own_name = name;
    std::vector<char> data(octets);
    const std::uint64_t seed = std::hash<std::string>{}(name);
    fill_pattern(seed, offset, data.data(), octets);
    write_arguments writing{.name = own_name.data(),
                            .offset = offset,
                            .data = {.payload_len = octets, .payload_val = data.data()}};
    write_result written{};
    clnt_stat status = file_write_1(&writing, &written, client);
    if (status != RPC_SUCCESS || written.status != FILE_OK || written.write_result_u.size < offset + octets) {
        fail("write", status, octets);
    }
    read_arguments reading{.name = own_name.data(), .offset = offset, .octets = octets};
    read_result result{};
    status = file_read_1(&reading, &result, client);
    const read_data& read = result.read_result_u.read;
    if (status != RPC_SUCCESS || result.status != FILE_OK || read.data.payload_len != octets ||
        !has_pattern(seed, offset, read.data.payload_val, octets)) {
        fail("read", status, octets);
    }
    release(client, xdr_read_result, result);
}

void read_missing(CLIENT* client) {
    char name[] = "no such file";
    read_arguments reading{.name = name, .offset = 0, .octets = 100'000};
    read_result result{};
    const clnt_stat status = file_read_1(&reading, &result, client);
    if (status != RPC_SUCCESS || result.status != FILE_MISSING || result.read_result_u.message == nullptr ||
        std::string(result.read_result_u.message) != "no such file") {
        fail("read of nothing", status);
    }
    release(client, xdr_read_result, result);
}

void compare_samples(CLIENT* client, std::uint64_t seed, std::uint32_t octets) {
    sample arguments = file_service::make_sample(seed, octets);
    sample result{};
    const clnt_stat status = file_sample_1(&arguments, &result, client);
    if (status != RPC_SUCCESS || !file_service::are_equal(arguments, result)) {
        fail("sample", status, octets);
    }
    release(client, xdr_sample, arguments);
    release(client, xdr_sample, result);
}

void list(CLIENT* client, const std::string& prefix, std::size_t expected) {
    std::string own = prefix;
    char* pointer = own.data();
    list_result result{};
    const clnt_stat status = file_list_1(&pointer, &result, client);
    std::size_t count = 0;
    for (const file_entry* entry = result.first; entry != nullptr; entry = entry->next) {
        count += std::string(entry->name).starts_with(prefix) ? 1 : 0;
    }
    if (status != RPC_SUCCESS || count != expected) {
        fail("list", status, count);
    }
    release(client, xdr_list_result, result);
}

/// Around what goes inline, with items, in chunks of one page and of many.
constexpr std::array<std::uint32_t, 16> kSizes = {0,    1,    3,    4,    850,    1000,   1023,   1024,
                                                  1025, 3900, 4060, 4096, 10'007, 65'536, 65'537, 262'145};

constexpr int kCallsInARound = 6;

void work(CLIENT* client, int thread, int rounds) {
    const std::string own = "thread" + std::to_string(thread) + "/";
    std::size_t files = 0;
    for (int round = 0; round < rounds; ++round) {
        const std::uint32_t octets = kSizes[static_cast<std::size_t>(thread + round) % kSizes.size()];
        echo(client, octets, static_cast<std::uint64_t>(thread * 1000 + round));
        write_and_read(client, own + std::to_string(round), static_cast<std::uint64_t>(round) * 13, octets);
        ++files;
        compare_samples(client, static_cast<std::uint64_t>(thread + round), octets % 70'000);
        list(client, own, files);
        read_missing(client);
    }
}

u_int executed(CLIENT* client) {
    u_int none = 0;
    u_int count = 0;
    const clnt_stat status = file_count_1(&none, &count, client);
    if (status != RPC_SUCCESS) {
        fail("count", status);
    }
    return count;
}

void run_work(const Address& address, int threads, int rounds) {
    CLIENT* const client = make_client(address, FILE_SERVICE, FILE_SERVICE_V1);
    if (client == nullptr) {
        clnt_pcreateerror("client");
        ++failures;
        return;
    }
    const u_int before = executed(client);
    std::vector<std::thread> running;
    for (int thread = 0; thread < threads; ++thread) {
        running.emplace_back(work, client, thread, rounds);
    }
    for (std::thread& thread : running) {
        thread.join();
    }
    list(client, "thread", static_cast<std::size_t>(threads) * static_cast<std::size_t>(rounds));
    // Whatever the transport sent again.
    const u_int calls = executed(client) - before;
    if (calls != static_cast<u_int>(threads * rounds * kCallsInARound) + 1) {
        fail("procedures executed", RPC_SUCCESS, calls);
    }
    if (address.is_rdma) {
        rpcrdma_statistics statistics{};
        statistics.size = sizeof statistics;
        if (rpcrdma_client_statistics(clnt_rdma_connection(client), &statistics) != 0 ||
            statistics.version != address.version || statistics.connects != 1) {
            fail("version of the transport", RPC_SUCCESS, statistics.version);
        }
    }
    clnt_destroy(client);
}

void run_large(const Address& address, std::uint32_t octets) {
    CLIENT* const client = make_client(address, FILE_SERVICE, FILE_SERVICE_V1);
    if (client == nullptr) {
        clnt_pcreateerror("client");
        ++failures;
        return;
    }
    write_and_read(client, "large", 0, octets);
    echo(client, octets, 5);
    clnt_destroy(client);
}

clnt_stat call_words(CLIENT* client, rpcproc_t procedure) {
    u_int word = 0xFFFFFFFF;
    const timeval timeout{.tv_sec = 60, .tv_usec = 0};
    const auto encode = reinterpret_cast<xdrproc_t>(xdr_u_int);
    return clnt_call(client, procedure, encode, &word, encode, &word, timeout);
}

clnt_stat call_once(const Address& address, rpcprog_t program, rpcvers_t version, rpcproc_t procedure) {
    CLIENT* const client = make_client(address, program, version);
    if (client == nullptr) {
        return RPC_FAILED;
    }
    const clnt_stat status = call_words(client, procedure);
    clnt_destroy(client);
    return status;
}

void check_credentials(const Address& address) {
    CLIENT* const client = make_client(address, kGuardedProgram, 1);
    expect("no credentials", call_words(client, 1), RPC_AUTHERROR);
    rpc_err error{};
    clnt_geterr(client, &error);
    if (error.re_why != AUTH_TOOWEAK) {
        fail("why credentials are refused", RPC_AUTHERROR, error.re_why);
    }
    AUTH* const none = client->cl_auth;
    client->cl_auth = authsys_create_default();
    expect("AUTH_SYS", call_words(client, 1), RPC_SUCCESS);
    auth_destroy(client->cl_auth);
    client->cl_auth = none;
    clnt_destroy(client);
}

void run_errors(const Address& address) {
    expect("wrong program", call_once(address, FILE_SERVICE + 7, 1, 1), RPC_PROGUNAVAIL);
    expect("wrong version", call_once(address, FILE_SERVICE, 2, 1), RPC_PROGVERSMISMATCH);
    expect("wrong procedure", call_once(address, FILE_SERVICE, FILE_SERVICE_V1, 77), RPC_PROCUNAVAIL);
    for (const rpcproc_t procedure : {FILE_WRITE, FILE_READ, FILE_LIST, FILE_ECHO, FILE_SAMPLE}) {
        expect("garbage", call_once(address, FILE_SERVICE, FILE_SERVICE_V1, procedure), RPC_CANTDECODEARGS);
    }
    check_credentials(address);
}

void run_hold(const Address& address, u_int seconds) {
    CLIENT* const client = make_client(address, FILE_SERVICE, FILE_SERVICE_V1);
    echo(client, 5000, 1);
    std::puts("holding");
    std::fflush(stdout);
    u_int milliseconds = seconds * 1000;
    u_int count = 0;
    const clnt_stat status = file_count_1(&milliseconds, &count, client);
    std::printf("%s\n", clnt_sperrno(status));
    clnt_destroy(client);
}

int run(const std::vector<std::string>& words) {
    Address address{.host = words[1], .port = words[2]};
    address.set_transport(words[0]);
    const std::string& command = words[3];
    // A table needs the arguments and results that it is of.
    if (command != "errors") {
        add_ddp_items();
    }
    const auto number = [&words](std::size_t at) { return std::stoi(words.at(at)); };
    if (command == "work") {
        run_work(address, number(4), number(5));
    } else if (command == "large") {
        run_large(address, static_cast<std::uint32_t>(number(4)));
    } else if (command == "errors") {
        run_errors(address);
    } else if (command == "hold") {
        run_hold(address, static_cast<u_int>(number(4)));
    } else {
        return 2;
    }
    return failures == 0 ? 0 : 1;
}

}  // namespace

}  // namespace urnic::e2e

int main(int argc, char** argv) { return argc < 5 ? 2 : urnic::e2e::run({argv + 1, argv + argc}); }
