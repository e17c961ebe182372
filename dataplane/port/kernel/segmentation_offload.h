// Whether the frames of a port leave several at a time, to be cut apart by the kernel (docs/adr/0040).
#pragma once

#include <cstdint>

namespace urnic::dataplane {

enum class SegmentationOffload : std::uint8_t {
    kNotPacket,  // the port is none of packet sockets
    kOn,
    kNotVeth,  // the interface is not one that hands frames over whole
    kRefused,  // by the kernel, for good
    kOff,      // the configuration says so
};

}  // namespace urnic::dataplane
