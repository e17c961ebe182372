#include "ulp/rpcrdma/onc/result_memory.h"

#include <algorithm>
#include <limits>

#include "ulp/rpcrdma/onc/ddp_table.h"

namespace urnic::rpcrdma::onc {

ResultMemory::~ResultMemory() {
    for (void* const memory : owned_) {
        rpcrdma_free(memory);
    }
}

bool ResultMemory::allocate(std::span<const rpcrdma_onc_item> items, const void* arguments, void* results) {
    for (const rpcrdma_onc_item& item : items) {
        const std::uint32_t room = result_room(item, arguments);
        if (room == 0 || count_ == vectors_.size()) {
            break;
        }
        // A pointer that is set already is where xdr_bytes() puts the data.
        void* memory = const_cast<char*>(data_pointer(item, results));
        if (memory == nullptr) {
            memory = rpcrdma_alloc(room);
            if (memory == nullptr) {
                return false;
            }
            owned_[count_] = memory;
        }
        vectors_[count_++] = {.iov_base = memory, .iov_len = room};
    }
    return true;
}

bool ResultMemory::enlarge(std::size_t index, std::uint64_t octets) {
    // Memory of the caller's has the room that it has.
    if (index >= count_ || owned_[index] == nullptr || octets <= vectors_[index].iov_len ||
        octets > std::numeric_limits<std::uint32_t>::max()) {
        return false;
    }
    void* const memory = rpcrdma_alloc(octets);
    if (memory == nullptr) {
        return false;
    }
    rpcrdma_free(owned_[index]);
    owned_[index] = memory;
    vectors_[index] = {.iov_base = memory, .iov_len = octets};
    return true;
}

std::array<ChunkData, RPCRDMA_MAX_ITEMS> ResultMemory::chunks(const rpcrdma_reply& reply) const {
    std::array<ChunkData, RPCRDMA_MAX_ITEMS> chunks{};
    for (std::size_t i = 0; i < count_; ++i) {
        const auto room = static_cast<std::uint32_t>(vectors_[i].iov_len);
        chunks[i] = {.memory = static_cast<const std::byte*>(vectors_[i].iov_base),
                     .octets = std::min(reply.result_octets[i], room),
                     .room = owned_[i] == nullptr ? room : 0};
    }
    return chunks;
}

}  // namespace urnic::rpcrdma::onc
