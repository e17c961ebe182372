/// Transport properties of a connection of version 2 (draft, section 6): what is told, asked and answered.
#pragma once

#include <cstdint>
#include <optional>

#include "ulp/rpcrdma/codec/properties.h"
#include "ulp/rpcrdma/engine/link.h"

namespace urnic::rpcrdma {

class PropertyExchange {
  public:
    explicit PropertyExchange(Link& link) : link_(link) {}

    /// CONNPROP, once, as soon as the version is settled.
    void tell_all();
    /// Any of the four. Returns false for an error in its XDR (the caller answers).
    [[nodiscard]] bool on_message(const Header& header);
    /// ERROR that answers one of ours: the peer does not support it. Returns false if it answers none.
    [[nodiscard]] bool on_error(const Header& header);
    /// REQPROP for receives of that size; false: not now. `xid`: none that a Call of ours has.
    [[nodiscard]] bool request_receive_size(std::uint32_t octets, std::uint32_t xid);
    [[nodiscard]] bool grow_receives(std::uint32_t octets);
    void on_receives_resized(std::uint32_t octets);

  private:
    struct Asked {
        std::uint32_t xid = 0;
        std::uint32_t octets = 0;
        std::uint32_t before = 0;  ///< the peer's size when it was asked
    };
    void apply(const PropertySet& values);
    void on_request(const Header& header, const PropertyBody& body);
    void on_response(const Header& header, const PropertyBody& body);
    /// Answers the REQPROP that is kept; `resized`: receives have now that size.
    void answer(std::uint32_t resized);
    void send(Proc proc, std::uint32_t xid, const PropertyBody& body);

    Link& link_;
    std::optional<Asked> asked_;
    /// A REQPROP whose answer waits for larger or smaller receives.
    struct Kept {
        std::uint32_t xid = 0;
        PropertyBody answer;
        std::size_t index = 0;  ///< of RBSIZ in the request
        std::uint32_t wanted = 0;
    };
    std::optional<Kept> kept_;
    std::uint32_t resizing_to_ = 0;  ///< 0: no change is under way
    bool has_told_ = false;
    bool peer_has_properties_ = true;
};

}  // namespace urnic::rpcrdma
