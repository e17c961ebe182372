// What nfs_client asks a server, and what it expects.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/interop/nfs/nfs_client.h"

namespace urnic::nfs {

struct Wanted {
    std::string data_path;  // of a file here: written to "data" in the export
    std::string back_path;  // what is read back goes here
    unsigned files = 10000;
    unsigned threads = 4;
};

struct Bench {
    NfsClient& client;
    OpaqueHandle root;
    const Wanted& wanted;
};

// Says what it did; throws std::runtime_error when something is not as it has to be.
struct ClientTest {
    const char* name;
    std::string (*run)(Bench& bench);
};
const std::vector<ClientTest>& client_tests();

}  // namespace urnic::nfs
