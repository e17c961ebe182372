/// Types of libtirpc's that have no name of their own in C++ (structures and members of one name), and a
/// function whose type its casts hide.
#pragma once

#include <rpc/rpc.h>

#include <type_traits>

namespace urnic::rpcrdma::onc {

using XdrOps = std::remove_pointer_t<decltype(XDR::x_ops)>;
using ClientOps = std::remove_pointer_t<decltype(CLIENT::cl_ops)>;
using TransportFunctions = std::remove_pointer_t<decltype(SVCXPRT::xp_ops)>;
using TransportControl = std::remove_pointer_t<decltype(SVCXPRT::xp_ops2)>;

/// xdr_void() as the xdrproc_t that it is used as.
inline bool_t xdr_nothing(XDR* /*xdr*/, ...) { return TRUE; }

}  // namespace urnic::rpcrdma::onc
