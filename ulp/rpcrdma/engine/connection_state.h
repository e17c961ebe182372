/// The parts of a Connection.
#pragma once

#include <cstdint>
#include <span>

#include "ulp/rpcrdma/engine/connection.h"
#include "ulp/rpcrdma/engine/link.h"
#include "ulp/rpcrdma/engine/property_exchange.h"
#include "ulp/rpcrdma/engine/requester.h"
#include "ulp/rpcrdma/engine/responder.h"

namespace urnic::rpcrdma {

/// Version negotiation (draft, section 8). The client's first Call is its one first message; a server learns
/// the version of it.
///
///     client: probing --any valid message of version 2--> open2
///                     --ERR_VERS with a version of ours--> open1 or open2, the Call is sent again
///                     --ERR_VERS without--> closed
///     server: unknown --first message--> open1 or open2; of a version it does not serve: ERR_VERS
class ConnectionState {
  public:
    ConnectionState(const Config& its_config, Outbox& outbox);

    void on_message(std::span<const std::byte> message, std::uint32_t invalidated);
    void on_disconnected();

    Config config;
    Link link;
    Requester requester;
    Responder responder;
    PropertyExchange properties;
    std::uint32_t next_property_xid = 0;

  private:
    [[nodiscard]] std::uint32_t served_versions() const;
    void on_header(const Header& header, std::span<const std::byte> message, std::uint32_t invalidated);
    void on_undecodable(DecodeStatus status, const Header& header);
    void on_error_message(const Header& header);
    void on_version_error(const Header& header);
    void on_properties(const Header& header);
    void settle(std::uint32_t version);
};

}  // namespace urnic::rpcrdma
