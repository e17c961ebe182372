// File handles and attributes of NFS version 3 in XDR (RFC 1813, section 2.5 and 2.6), both ways.
#pragma once

#include <cstdint>
#include <optional>

#include "tests/interop/nfs/rpc.h"
#include "tests/interop/nfs/tree.h"

namespace urnic::nfs {

// The handles that this server gives out: which server it is, and which node.
struct Handle {
    std::uint64_t server = 0;
    NodeId node = 0;
};
inline constexpr std::size_t kHandleOctets = 16;

void put(XdrWriter& out, const Handle& handle);
// Nothing: no handle of the form that this server gives out; `in` has failed where it is none of NFS at all.
std::optional<Handle> take_handle(XdrReader& in);

void put(XdrWriter& out, const Attributes& attributes);
Attributes take_attributes(XdrReader& in);
// post_op_attr.
void put(XdrWriter& out, const std::optional<Attributes>& attributes);
std::optional<Attributes> take_optional_attributes(XdrReader& in);
// wcc_data.
void put_change(XdrWriter& out, const std::optional<Attributes>& before,
                const std::optional<Attributes>& after);
// sattr3. A value that is none sets failed().
void put(XdrWriter& out, const Changes& changes);
Changes take_changes(XdrReader& in);

timespec take_time(XdrReader& in);

}  // namespace urnic::nfs
