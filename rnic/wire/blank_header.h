// A packet header to begin with.
#pragma once

#include "rnic/wire/headers.h"

namespace urnic::wire {

/// To be copied, for each packet: a header that is made from nothing GCC clears with a `rep stos`, whose
/// start alone takes as long as parsing a small packet. Defined where the compiler does not see it.
extern const PacketHeader kBlankHeader;
/// The same with MigReq 0.
extern const PacketHeader kBlankHeaderWithoutMigReq;

}  // namespace urnic::wire
