/// Which data of which procedure is DDP-eligible (RFC 8166, section 6.1): the process's table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ulp/rpcrdma/include/urnic/rpcrdma_onc.h"

namespace urnic::rpcrdma::onc {

struct ProcedureItems {
    std::vector<rpcrdma_onc_item> arguments;
    std::vector<rpcrdma_onc_item> results;
};

/// Returns what is eligible; never null. It stays valid when the table grows.
[[nodiscard]] std::shared_ptr<const ProcedureItems> find_items(rpcprog_t program, rpcvers_t version,
                                                               rpcproc_t procedure);

/// Where the item's data pointer is in `object`; null: it has none.
[[nodiscard]] char** place_of_data(const rpcrdma_onc_item& item, void* object);

/// The item's data pointer in `object`; null: it has none.
[[nodiscard]] const char* data_pointer(const rpcrdma_onc_item& item, void* object);

/// The most that a result has for a call with these arguments.
[[nodiscard]] std::uint32_t result_room(const rpcrdma_onc_item& item, const void* arguments);

}  // namespace urnic::rpcrdma::onc
