#include "rnic/wire/blank_header.h"

namespace urnic::wire {

constexpr PacketHeader kBlankHeader;
constexpr PacketHeader kBlankHeaderWithoutMigReq{.mig_req = false};

}  // namespace urnic::wire
