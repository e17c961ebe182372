// Packets out of text in hexadecimal, as people paste it: words, hexdump, od, xxd, tcpdump -x and -XX,
// Wireshark's bytes.
#pragma once

#include <iosfwd>
#include <memory>
#include <string>

#include "cli/decode/capture_reader.h"

namespace urnic::decode {

/// Each packet ends at an empty line or at the end; a line with the offset 0 begins the next one as well.
/// Offsets and columns of characters are left out. next() throws CaptureError, with file and line, for what
/// is no hexadecimal. `stream` must outlive the reader.
[[nodiscard]] std::unique_ptr<CaptureReader> read_hex(std::istream& stream, const std::string& name,
                                                      wire::LinkLayer link);

}  // namespace urnic::decode
