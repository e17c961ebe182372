/// The program's options, and what follows from them for a connection.
#pragma once

#include <cstdint>
#include <optional>

#include "ulp/rpcrdma/engine/config.h"
#include "ulp/rpcrdma/include/urnic/rpcrdma.h"
#include "ulp/rpcrdma/verbs/endpoint.h"

namespace urnic::rpcrdma {

/// Those given, completed by defaults. EINVAL, with the text of last_error().
[[nodiscard]] int check_options(const rpcrdma_options* given, rpcrdma_options& options);

[[nodiscard]] EndpointSizes sizes_of(const rpcrdma_options& options);
[[nodiscard]] PrivateData private_data_of(const rpcrdma_options& options, const Device& device);
[[nodiscard]] Config config_of(const rpcrdma_options& options, Role role, const Device& device,
                               const std::optional<PrivateData>& peer);

}  // namespace urnic::rpcrdma
