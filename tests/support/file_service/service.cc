#include "tests/support/file_service/service.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace urnic::file_service {

namespace {

struct Files {
    std::mutex mutex;
    std::map<std::string, std::vector<char>> contents;
    std::atomic<u_int> executed{0};
};

Files& files() {
    static Files all;
    return all;
}

constexpr std::uint64_t kLargestFile = std::uint64_t{1} << 30U;

char* copy_of(const char* data, std::size_t octets) {
    auto* const copy = static_cast<char*>(std::malloc(std::max<std::size_t>(octets, 1)));
    if (octets != 0) {
        std::memcpy(copy, data, octets);
    }
    return copy;
}

std::uint32_t room_of_read(const void* arguments) {
    return static_cast<const read_arguments*>(arguments)->octets;
}

// What is echoed is not larger than what was sent.
std::uint32_t room_of_echo(const void* arguments) {
    return static_cast<const payload*>(arguments)->payload_len;
}

// The same as an offset, as programs need it that have pointers or arrays on the way.
char** data_of_read(void* object) {
    auto* const result = static_cast<read_result*>(object);
    return result->status == FILE_OK ? &result->read_result_u.read.data.payload_val : nullptr;
}

rpcrdma_onc_item item_of(rpcproc_t procedure, rpcrdma_onc_side side, std::size_t offset) {
    rpcrdma_onc_item item{};
    item.program = FILE_SERVICE;
    item.version = FILE_SERVICE_V1;
    item.procedure = procedure;
    item.side = side;
    item.offset = offset;
    return item;
}

}  // namespace

std::vector<rpcrdma_onc_item> ddp_items(std::uint32_t least_octets, std::uint32_t most_octets,
                                        bool echoes_know_their_size) {
    std::vector<rpcrdma_onc_item> items = {
        item_of(FILE_WRITE, RPCRDMA_ONC_ARGUMENT, offsetof(write_arguments, data.payload_val)),
        item_of(FILE_READ, RPCRDMA_ONC_RESULT, 0),
        item_of(FILE_ECHO, RPCRDMA_ONC_ARGUMENT, offsetof(payload, payload_val)),
        item_of(FILE_ECHO, RPCRDMA_ONC_RESULT, offsetof(payload, payload_val)),
        item_of(FILE_SAMPLE, RPCRDMA_ONC_ARGUMENT, offsetof(sample, before.payload_val)),
        item_of(FILE_SAMPLE, RPCRDMA_ONC_ARGUMENT, offsetof(sample, data.payload_val)),
        item_of(FILE_SAMPLE, RPCRDMA_ONC_RESULT, offsetof(sample, before.payload_val)),
        item_of(FILE_SAMPLE, RPCRDMA_ONC_RESULT, offsetof(sample, data.payload_val)),
    };
    for (rpcrdma_onc_item& item : items) {
        item.least_octets = least_octets;
        item.max_octets = most_octets;
    }
    items[1].locate = data_of_read;
    items[1].room = room_of_read;
    if (echoes_know_their_size) {
        items[3].room = room_of_echo;
    }
    return items;
}

void fill_pattern(std::uint64_t seed, std::uint64_t offset, char* data, std::size_t octets) {
    for (std::size_t i = 0; i < octets; ++i) {
        data[i] = pattern_octet(seed, offset + i);
    }
}

bool has_pattern(std::uint64_t seed, std::uint64_t offset, const char* data, std::size_t octets) {
    for (std::size_t i = 0; i < octets; ++i) {
        if (data[i] != pattern_octet(seed, offset + i)) {
            return false;
        }
    }
    return true;
}

}  // namespace urnic::file_service

using urnic::file_service::copy_of;
using urnic::file_service::files;

// The procedures, as rpcgen -M declares them.
bool_t file_write_1_svc(write_arguments* arguments, write_result* result, svc_req* /*request*/) {
    ++files().executed;
    const std::scoped_lock lock(files().mutex);
    const std::uint64_t end = arguments->offset + arguments->data.payload_len;
    if (arguments->offset > urnic::file_service::kLargestFile || end > urnic::file_service::kLargestFile) {
        result->status = FILE_REFUSED;
        return TRUE;
    }
    std::vector<char>& file = files().contents[arguments->name];
    file.resize(std::max<std::size_t>(file.size(), end));
    std::copy_n(arguments->data.payload_val, arguments->data.payload_len,
                file.begin() + static_cast<std::ptrdiff_t>(arguments->offset));
    result->status = FILE_OK;
    result->write_result_u.size = file.size();
    return TRUE;
}

bool_t file_read_1_svc(read_arguments* arguments, read_result* result, svc_req* /*request*/) {
    ++files().executed;
    const std::scoped_lock lock(files().mutex);
    const auto found = files().contents.find(arguments->name);
    if (found == files().contents.end()) {
        result->status = FILE_MISSING;
        result->read_result_u.message = strdup("no such file");
        return TRUE;
    }
    const std::vector<char>& file = found->second;
    const std::uint64_t offset = std::min<std::uint64_t>(arguments->offset, file.size());
    const std::uint64_t octets = std::min<std::uint64_t>(arguments->octets, file.size() - offset);
    read_data& read = result->read_result_u.read;
    result->status = FILE_OK;
    read.is_end = offset + octets == file.size() ? TRUE : FALSE;
    read.data.payload_len = static_cast<u_int>(octets);
    read.data.payload_val = copy_of(file.data() + offset, octets);
    return TRUE;
}

bool_t file_list_1_svc(file_name* prefix, list_result* result, svc_req* /*request*/) {
    ++files().executed;
    const std::scoped_lock lock(files().mutex);
    result->first = nullptr;
    for (const auto& [name, file] : files().contents) {
        if (name.starts_with(*prefix)) {
            auto* const entry = static_cast<file_entry*>(std::malloc(sizeof(file_entry)));
            *entry = {.name = strdup(name.c_str()), .size = file.size(), .next = result->first};
            result->first = entry;
        }
    }
    return TRUE;
}

bool_t file_echo_1_svc(payload* arguments, payload* result, svc_req* /*request*/) {
    ++files().executed;
    // The arguments' memory is the result's then.
    *result = *arguments;
    *arguments = {};
    return TRUE;
}

bool_t file_sample_1_svc(sample* arguments, sample* result, svc_req* /*request*/) {
    ++files().executed;
    *result = *arguments;
    *arguments = {};
    return TRUE;
}

bool_t file_count_1_svc(u_int* arguments, u_int* result, svc_req* /*request*/) {
    std::this_thread::sleep_for(std::chrono::milliseconds(*arguments));
    *result = files().executed;
    return TRUE;
}

int file_service_1_freeresult(SVCXPRT* /*transport*/, xdrproc_t encode, caddr_t result) {
    xdr_free(encode, result);
    return TRUE;
}
