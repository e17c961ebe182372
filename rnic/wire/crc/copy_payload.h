// The copy that moves payload without a CRC beside it.
#pragma once

#include <cstddef>

namespace urnic::wire {

/// Copies payload (no overlap); immune to the slow alignments of libc's memcpy. The last bytes are written
/// last. The variant is that of the CRC (crc32.h).
void copy_payload(std::byte* to, const std::byte* from, std::size_t length_bytes);

}  // namespace urnic::wire
