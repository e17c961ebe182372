// Packets of a capture as lines of text or JSON.
#pragma once

#include <cstdint>
#include <string>

#include "cli/decode/capture_reader.h"
#include "cli/decode/rpcrdma_decoder.h"

namespace urnic::decode {

enum class Style : std::uint8_t { kLines, kFull, kJson };

/// Text of one packet, each line with its newline. `number` counts from 1; times are shown relative to
/// `first_time_ns`. `rpcrdma` learns from each packet; none: RPC-over-RDMA is payload.
[[nodiscard]] std::string print_record(const Record& record, std::uint64_t number,
                                       std::uint64_t first_time_ns, Style style,
                                       RpcrdmaDecoder* rpcrdma = nullptr);

}  // namespace urnic::decode
