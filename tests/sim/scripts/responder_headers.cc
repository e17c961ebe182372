// What is looked at before a request reaches the responder: transport header, addresses, ICRC, the QP's state
// (IBA 9.6.1, 10.3.1, annex A17). What does not pass is dropped and draws no answer.
#include "conform/case/responder_packets.h"
#include "tests/sim/scripts/rc_script.h"

namespace urnic::sim {
namespace {

constexpr std::size_t kBth = 20 + 8;  // behind IPv4 and UDP

// --- BTH --------------------------------------------------------------------------------------------------

// --- ICRC and addresses -----------------------------------------------------------------------------------

// --- States -----------------------------------------------------------------------------------------------

RC_SCRIPT(ResponderState, ErrWithResponsesOwed, "10.3.1.7",
          "modify_qp to ERR while a READ is answered: no response goes out behind it") {
    connect({.mtu = 256});
    wire::PacketView view;
    view.header = read_request(2000, 1024).header();
    view.src_gid = peer_gid();
    host().deliver(view);
    ASSERT_TRUE(host().qp().progress(now(), 1, host()));
    sends(response_first(2000, 1, 256).credits(0));
    modify(QpState::kErr);
    silence(kSecond);
}

RC_SCRIPT(ResponderState, ErrWithANakOwed, "10.3.1.7",
          "modify_qp to ERR before a NAK went out: it does not go out any more") {
    connect();
    wire::PacketView view;
    view.header = write_only(2001, 0).header();
    view.src_gid = peer_gid();
    host().deliver(view);
    modify(QpState::kErr);
    silence(kSecond);
}

RC_SCRIPT(ResponderHeader, PkeyOfTheIndex, "10.9.3",
          "the P_Key at the QP's index alone: those of other entries are dropped; answers carry it") {
    connect({}, {.pkeys = {0xffff, 0x7abc, 0x8002}, .pkey_index = 1});
    for (const std::uint16_t pkey : {0xffff, 0x8002, 0x7abc}) {
        peer(write_only(2000, 8).pkey(pkey));
    }
    silence(kSecond);
    EXPECT_EQ(host().counters.drop_pkey.value(), 3U);
    holds_own_data(0, 8);
    peer(write_only(2000, 8).pkey(0xfabc));
    sends(acked(2000, 1).pkey(0x7abc));
}

}  // namespace
}  // namespace urnic::sim
