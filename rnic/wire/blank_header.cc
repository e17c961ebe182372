#include "rnic/wire/blank_header.h"

namespace urnic::wire {

constexpr PacketHeader kBlankHeader;

}  // namespace urnic::wire
