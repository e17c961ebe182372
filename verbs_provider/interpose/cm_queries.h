// Where librdmacm has found that AF_IB is taken it asks for a route in three parts.
#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstddef>
#include <cstdint>

namespace urnic::provider {

/// Answers QUERY with what QUERY_ROUTE would answer. Returns whether that has it all: not of addresses of
/// AF_IB, for which it has no room. `answer` has `answer_bytes`, and is zeros where nothing is written.
[[nodiscard]] bool answer_cm_query(std::uint32_t option, const rdma_ucm_query_route_resp& route,
                                   std::uint8_t* answer, std::size_t answer_bytes);

}  // namespace urnic::provider
