#include "tests/sim/scripts/rc_script.h"

namespace urnic::sim {

void RcScript::create(const ConnectOptions& options, const SimHost::Options& host) {
    bench_.host_options = host;
    Script::create(options, {.send_entries = host.send_entries,
                             .recv_entries = host.recv_entries,
                             .cq_entries = host.cq_entries,
                             .max_sge = host.max_sge,
                             .max_inline = host.max_inline,
                             .sq_sig_all = host.sq_sig_all,
                             .pkeys = host.pkeys});
}

void RcScript::connect(const ConnectOptions& options, const SimHost::Options& host) {
    create(options, host);
    rtr();
    rts();
}

void RcScript::arrives(const ScriptPacket& request) {
    wire::PacketView view;
    view.header = request.header();
    view.src_gid = peer_gid();
    host().deliver(view);
}

std::uint64_t& RcScript::word(std::size_t offset) {
    return *reinterpret_cast<std::uint64_t*>(memory().data() + offset);
}

}  // namespace urnic::sim
