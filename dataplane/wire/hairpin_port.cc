#include "dataplane/wire/hairpin_port.h"

#include "dataplane/port/frame_pool.h"
#include "rnic/wire/dissect/eth/pause_frame.h"
#include "rnic/wire/layout.h"

namespace urnic::dataplane {

HairpinPort::HairpinPort(InProcessSwitch& local_switch, std::uint32_t index, Port& wire)
    : local_switch_(local_switch), index_(index), local_(local_switch.port(index)), wire_(wire) {}

HairpinPort::Path HairpinPort::path_of(const rte_mbuf& frame) const {
    const std::span<const std::byte> bytes = frame_bytes(&frame);
    if (bytes.size() < wire::kEthernetBytes) {
        return Path::kWire;
    }
    if (wire::is_mac_control(bytes)) {
        return Path::kWire;
    }
    if ((bytes[0] & std::byte{1}) != std::byte{0}) {
        return Path::kBoth;
    }
    return local_switch_.port_of(bytes) ? Path::kLocal : Path::kWire;
}

// Groups are for datagrams, which either way may lose.
void HairpinPort::send_on_both(std::uint32_t queue, rte_mbuf* frame) {
    rte_mbuf_refcnt_update(frame, 1);
    for (Port* port : {&local_, &wire_}) {
        if (port->tx_burst(queue, &frame, 1) == 0) {
            free_frames({&frame, 1});
        }
    }
}

std::uint16_t HairpinPort::tx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) {
    std::uint16_t taken = 0;
    while (taken < count) {
        const Path path = path_of(*frames[taken]);
        if (path == Path::kBoth) {
            send_on_both(queue, frames[taken]);
            ++taken;
            continue;
        }
        std::uint16_t end = taken + 1;
        while (end < count && path_of(*frames[end]) == path) {
            ++end;
        }
        const auto wanted = static_cast<std::uint16_t>(end - taken);
        Port& port = path == Path::kLocal ? local_ : wire_;
        const std::uint16_t sent = port.tx_burst(queue, frames + taken, wanted);
        taken = static_cast<std::uint16_t>(taken + sent);
        if (sent < wanted) {
            break;
        }
    }
    return taken;
}

std::uint16_t HairpinPort::rx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) {
    bool& wire_first = turns_[queue].wire_first;
    Port& first = wire_first ? wire_ : local_;
    Port& second = wire_first ? local_ : wire_;
    wire_first = !wire_first;
    const std::uint16_t got = first.rx_burst(queue, frames, count);
    return got == count
               ? got
               : static_cast<std::uint16_t>(
                     got + second.rx_burst(queue, frames + got, static_cast<std::uint16_t>(count - got)));
}

void HairpinPort::set_multicast(std::span<const wire::Mac> groups) {
    local_.set_multicast(groups);
    wire_.set_multicast(groups);
}

}  // namespace urnic::dataplane
