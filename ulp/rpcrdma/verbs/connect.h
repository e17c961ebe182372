/// Opens a connection with librdmacm.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "ulp/rpcrdma/codec/private_data.h"
#include "ulp/rpcrdma/verbs/endpoint.h"
#include "ulp/rpcrdma/verbs/options.h"

namespace urnic::rpcrdma {

struct Connected {
    std::unique_ptr<Endpoint> endpoint;
    std::optional<PrivateData> peer;
};

/// Within options.connect_timeout_ms. `can_continue` is asked now and then; false: ECANCELED. An errno value,
/// with the text of last_error().
[[nodiscard]] int connect_to(const sockaddr_storage& server, const rpcrdma_options& options,
                             const std::function<bool()>& can_continue, Connected& out);

/// An address as text, for messages: "192.0.2.1:20049".
struct AddressText {
    explicit AddressText(const sockaddr* address);
    char text[80];
};

}  // namespace urnic::rpcrdma
