"""The tests, as a table: which program runs on both sides, how, and what the run may and must show.

Each runs in both roles: our RNIC as the client of rxe's server, and the reverse.
"""

import dataclasses

import stock

# A program for both sides: {device}, {gid} (an index), {port} and {mtu} are filled in, and the client gets the server's
# address behind it.
PINGPONG = "ibv_{kind}_pingpong -d {{device}} -g {{gid}} -p {{port}} -c"
# READs and atomics: -o 16, since perftest asks its side for as many as the other's device offers, and rxe offers 128.
# 2^20 * 4.096 us: with a guest that is emulated, a second without an answer means nothing on a busy machine.
PERFTEST = "{tool} -d {{device}} -x {{gid}} -p {{port}} -F -u 20 -m {{mtu}}"
PEER = "peer --test {name} --device {{device}} --gid {{gid}} --port {{port}} --mtu {{mtu}}"

# rxe's counters (hw_counters) that any traffic moves.
ALWAYS = frozenset({"sent_pkts", "rcvd_pkts", "ack_deferred", "rdma_sends", "rdma_recvs"})
# Our counters of frames that are for the kernel beside us, or for others.
OTHERS = frozenset({"drop_not_roce", "drop_not_for_us"})
# A message that finds no receive: what its sender sent behind the refused packet is out of sequence then.
RNR = frozenset({"rcvd_rnr_err", "send_rnr_err", "out_of_seq_request"})
# What followed the refused packet of a message, or was under way when a program disconnected, finds our QP in error.
REFUSED = frozenset({"drop_qp_state"})
# What gets lost is sent again, in either direction.
REPEATS = frozenset({"duplicate_request", "out_of_seq_request", "rcvd_seq_err", "completer_retry_err"})
# What waits 67 ms for an acknowledgement and has no option for it, as the pingpongs, or half a second: on a busy machine the guest
# may take longer.
IMPATIENT = frozenset({"completer_retry_err", "duplicate_request"})


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    what: str
    command: str  # of both sides; of the server alone where there is `client`
    gid: str = "ipv4"
    mtu: int = 1024
    loss: int = 0  # per cent, in each direction
    # rxe's requests are not lost: a NAK behind the lost answer to a READ completes the READ without its data (linux-rxe.md).
    loses_answers_to_rxe_alone: bool = False
    moves: frozenset = frozenset()  # rxe's counters that this may move besides ALWAYS
    drops: frozenset = frozenset()  # our counters drop_* that this may move
    shows: tuple = ()  # kinds of packets and answers that the capture must have
    host: str = "ipv4"  # how the client names the server: for the program's own TCP connection
    seconds: int = 60
    # The client's, of programs that make their connections by rdma_cm; {address} is the server's.
    client: str = ""
    # Whether such a server listens by TCP, too, and is asked there first.
    by_tcp: bool = False
    # A multicast group: its "server" listens to nobody, but has joined when the client begins.
    group: str = ""
    # The server continues when the client has ended.
    serves_on: bool = False
    # Why this program cannot be the client over rxe towards another host.
    not_from_rxe: str = ""
    # Half a second without an answer ends it, and it has no option for that.
    gives_up_soon: bool = False
    # fio asks for no RNR retries, and its server may be late with its receives.
    rnr_ends_it: bool = False
    # The programs end without a word to each other: afterwards.py.
    ends_alone: bool = False


def pingpong(kind, arguments, what, name=None, **options):
    reliable = kind in ("rc", "srq")
    return Case(name or f"{kind}_pingpong", what, PINGPONG.format(kind=kind) + f" {arguments}", ends_alone=reliable, gives_up_soon=reliable,
                moves=IMPATIENT if reliable else frozenset(), **options)


def cm(name, what, server, client, **options):
    """They end their connections without waiting for the last acknowledgements, so rxe may send its last packets again, and what
    answers a repeated request comes behind the disconnect. They wait half a second for an acknowledgement (ACK timeout 17)."""
    return Case(name, what, server, client=client, ends_alone=True, gives_up_soon=True, moves=IMPATIENT, drops=REFUSED, **options)


def perftest(tool, arguments, what, name=None, **options):
    return Case(name or tool, what, PERFTEST.format(tool=tool) + f" {arguments}", **options)


def peer(name, what, row=None, arguments="", **options):
    return Case(row or name, what, PEER.format(name=name) + (f" {arguments}" if arguments else ""), **options)


STOCK = [
    pingpong("rc", "-m {mtu} -n 40", "RC SEND"),
    pingpong("rc", "-m {mtu} -n 40 -e", "RC SEND, sleeping on events", name="rc_pingpong_events"),
    pingpong("uc", "-m {mtu} -n 40", "UC SEND"),
    pingpong("ud", "-s 1000 -n 40", "UD SEND"),
    pingpong("srq", "-m {mtu} -q 4 -n 15", "RC SEND to shared receive queues"),
    perftest("ib_write_bw", "-s 65536 -n 10", "RC WRITE of 64 KB"),
    perftest("ib_write_bw", "-c UC -s 65536 -n 10", "UC WRITE of 64 KB", name="ib_write_bw_uc"),
    perftest("ib_write_lat", "-s 8 -n 20", "RC WRITE of 8 bytes, to and fro"),
    perftest("ib_read_bw", "-o 16 -s 65536 -n 10", "RC READ of 64 KB"),
    perftest("ib_read_lat", "-o 16 -s 8 -n 20", "RC READ of 8 bytes"),
    perftest("ib_send_bw", "-s 4001 -n 30", "RC SEND of 4001 bytes"),
    perftest("ib_send_bw", "-c UC -s 4001 -n 30", "UC SEND of 4001 bytes", name="ib_send_bw_uc"),
    perftest("ib_send_bw", "-c UD -s 1001 -n 50", "UD SEND of 1001 bytes", name="ib_send_bw_ud"),
    perftest("ib_send_lat", "-s 8 -n 20 -e", "RC SEND of 8 bytes, to and fro, sleeping on events"),
    perftest("ib_atomic_bw", "-o 16 -A FETCH_AND_ADD -n 20", "fetch-and-add", name="ib_atomic_bw_add"),
    perftest("ib_atomic_lat", "-o 16 -A CMP_AND_SWAP -n 20", "compare-and-swap", name="ib_atomic_lat_swap"),
]

VERIFIED = [
    peer("send", "RC SEND of 17 sizes"),
    peer("send_imm", "RC SEND with immediate of 17 sizes"),
    peer("write", "RC WRITE of 17 sizes"),
    peer("write_imm", "RC WRITE with immediate of 17 sizes"),
    peer("read", "RC READ of 17 sizes"),
    peer("uc_send", "UC SEND of 17 sizes"),
    peer("uc_send_imm", "UC SEND with immediate of 17 sizes"),
    peer("uc_write", "UC WRITE of 17 sizes"),
    peer("uc_write_imm", "UC WRITE with immediate of 17 sizes"),
    peer("fetch_add", "fetch-and-add over the top"),
    peer("cmp_swap", "compare-and-swap that hits and that misses"),
    peer("window", "type-2 window: bind, WRITE, READ, local invalidate, then refused", shows=("NAK 0x62",), drops=REFUSED),
    peer("send_inv", "SEND with Invalidate of a type-2 window, then refused", shows=("RC SEND Last inv", "NAK 0x62"),
         drops=REFUSED),
    peer("rnr", "the receive is posted late", moves=RNR, shows=("RNR NAK",)),
    peer("rnr_exhausted", "the receive is never posted: RNR_RETRY_EXC_ERR", moves=RNR | {"retry_rnr_exceeded_err"},
         shows=("RNR NAK",)),
    peer("wrong_key", "WRITE with a wrong key: REM_ACCESS_ERR", shows=("NAK 0x62",), drops=REFUSED),
    peer("beyond_region", "READ beyond the region: REM_ACCESS_ERR", shows=("NAK 0x62",)),
    peer("short_receive", "a receive that is too short: REM_INV_REQ_ERR (of rxe REM_OP_ERR)"),
    peer("ud", "UD datagrams of 10 sizes; a wrong Q_Key is dropped", drops=frozenset({"drop_qkey"})),
    peer("multicast", "UD datagrams to an IPv4 group; none after leaving it"),
]

ADDRESSES = [
    pingpong("rc", "-m {mtu} -n 20", "RC SEND, IPv6 GID", name="rc_pingpong_ipv6", gid="ipv6"),
    pingpong("ud", "-s 1000 -n 20", "UD SEND, IPv6 GID", name="ud_pingpong_ipv6", gid="ipv6"),
    pingpong("rc", "-m {mtu} -n 20", "RC SEND, link-local GID", name="rc_pingpong_link_local",
             gid="link_local"),
    perftest("ib_write_bw", "-s 65536 -n 10", "RC WRITE of 64 KB, link-local GID", name="ib_write_bw_link_local",
             gid="link_local"),
    peer("write_imm", "RC WRITE with immediate of 17 sizes, IPv6 GID", row="write_imm_ipv6", gid="ipv6"),
    peer("read", "RC READ of 17 sizes, link-local GID", row="read_link_local", gid="link_local"),
    peer("ud", "UD datagrams of 10 sizes, IPv6 GID", row="ud_ipv6", gid="ipv6", drops=frozenset({"drop_qkey"})),
    peer("multicast", "UD datagrams to an IPv6 group", row="multicast_ipv6", gid="ipv6"),
]

VLANS = [
    pingpong("rc", "-m {mtu} -n 20", "RC SEND on a VLAN", name="rc_pingpong_vlan", gid="vlan"),
    pingpong("ud", "-s 1000 -n 20", "UD SEND on a VLAN", name="ud_pingpong_vlan", gid="vlan"),
    perftest("ib_write_bw", "-s 65536 -n 10", "RC WRITE of 64 KB on a VLAN", name="ib_write_bw_vlan", gid="vlan"),
    peer("read", "RC READ of 17 sizes on a VLAN", row="read_vlan", gid="vlan"),
    peer("ud", "UD datagrams of 10 sizes on a VLAN", row="ud_vlan", gid="vlan", drops=frozenset({"drop_qkey"})),
]

PATH_MTUS = [
    case for mtu in (256, 4096) for case in (
        pingpong("rc", "-m {mtu} -n 10 -s 9000", f"RC SEND of 9000 bytes, path MTU {mtu}", name=f"rc_pingpong_{mtu}",
                 mtu=mtu),
        perftest("ib_write_bw", "-s 65536 -n 10", f"RC WRITE of 64 KB, path MTU {mtu}", name=f"ib_write_bw_{mtu}", mtu=mtu),
        peer("send_imm", f"RC SEND with immediate of 17 sizes, path MTU {mtu}", row=f"send_imm_{mtu}", mtu=mtu),
        peer("read", f"RC READ of 17 sizes, path MTU {mtu}", row=f"read_{mtu}", mtu=mtu),
        peer("ud", f"UD datagrams of 10 sizes, path MTU {mtu}", row=f"ud_{mtu}", mtu=mtu, drops=frozenset({"drop_qkey"})))
]

# No pingpong: when the answer to its last message is lost, the side that sent it asks a program that has ended.
LOSSY = [
    perftest("ib_send_bw", "-s 4001 -n 80 -u 16", "RC SEND of 4001 bytes, 5 % lost each way", name="ib_send_bw_loss", loss=5,
             moves=REPEATS),
    perftest("ib_send_lat", "-s 4001 -n 80 -u 16", "RC SEND of 4001 bytes, to and fro, 5 % lost each way",
             name="ib_send_lat_loss", loss=5, moves=REPEATS),
    perftest("ib_write_bw", "-s 65536 -n 10 -u 16", "RC WRITE of 64 KB, 5 % lost each way", name="ib_write_bw_loss", loss=5,
             moves=REPEATS),
    perftest("ib_read_bw", "-o 16 -s 65536 -n 10 -u 16", "RC READ of 64 KB, 5 % lost each way", name="ib_read_bw_loss",
             loss=5, moves=REPEATS),
    # Enough packets that some get lost: of 300 none but once in five million runs.
    *[peer(name, f"{what}, 5 % lost each way", row=f"{name}_loss", arguments=f"--timeout 16 {more}", loss=5,
           moves=REPEATS, loses_answers_to_rxe_alone=name == "read")
      for name, what, more in (
          ("send_imm", "RC SEND with immediate of 17 sizes", "--rounds 6"),
          ("write_imm", "RC WRITE with immediate of 17 sizes", "--rounds 6"),
          ("read", "RC READ of 17 sizes", "--rounds 6"),
          ("fetch_add", "fetch-and-add", "--count 150"),
          ("cmp_swap", "compare-and-swap", "--count 150"))],
]

CM_PERFTEST = "{tool} -R -d {{device}} -x {{gid}} -p {{port}} -F -n {count} -s {size} {more}"
MCKEY = "mckey -m 239.1.2.3 -b {bind} -C 4"
# A TCP program that knows nothing of RDMA, its sockets made into rsockets. `urnic run` preloads a library, too.
RSOCKET_NPTCP = f"sh -c 'LD_PRELOAD=\"$LD_PRELOAD {stock.RSPRELOAD}\" exec NPtcp -i -u 5000 -o /dev/null -P {{port}} {{where}}'"
# rxe has no CQs of the size that libfabric wants for its usual number of peers.
FI_PINGPONG = "env FI_UNIVERSE_SIZE=8 fi_pingpong -p '{provider}' -e {endpoint} -d {{device}} -I 10 -S 4096"
UCX = (f"env UCX_SOCKADDR_TLS_PRIORITY=rdmacm UCX_TLS=rc UCX_MODULE_DIR={stock.UCX_MODULES} UCX_NET_DEVICES={{device}}:1 "
       "io_demo -p {port} -d 64:65536 -q")
FIO = "fio --ioengine=rdma --port={{port}} --bs=64k --size=1m --name={name} {more}"
DAPLTEST = f"env DAT_OVERRIDE={stock.DAT_REGISTRY} dapltest"
FIO_VERIFIED = "--verify=crc32c --do_verify=0 --verify_state_save=0"


def cm_perftest(tool, size=4001, count=20, more=""):
    command = CM_PERFTEST.format(tool=tool, count=count, size=size, more=more)
    return cm(f"cm_{tool}", f"{tool} -R", command, command + " {address}")


def cm_fio(verb, server="", client=""):
    return cm(f"cm_fio_{verb}", f"fio, verb={verb}" + (", verified" if server else ""),
              FIO.format(name="server", more=f"--rw=read --iodepth=32 {server}"),
              FIO.format(name="client", more=f"--hostname={{address}} --verb={verb} --rw=write --iodepth=4 {client}"), rnr_ends_it=True)


CM = [
    cm("cm_rping", "rping, validated", "rping -s -a {address} -p {port} -C 10 -V -S 1001", "rping -c -a {address} -p {port} -C 10 -V -S 1001"),
    cm("cm_rping_ipv6", "rping over IPv6, validated", "rping -s -a {address} -p {port} -C 5 -V", "rping -c -a {address} -p {port} -C 5 -V",
       gid="ipv6"),
    cm("cm_rdma_client", "rdma_client and rdma_server", "rdma_server -p {port}", "rdma_client -s {address} -p {port}"),
    cm("cm_ucmatose", "ucmatose: 10 connections", "ucmatose -b {address} -p {port} -c 10", "ucmatose -s {address} -p {port} -c 10"),
    cm("cm_udaddy", "udaddy: datagrams by SIDR", "udaddy -b {address} -c 3", "udaddy -s {address} -c 3"),
    cm("cm_cmtime", "cmtime: 20 connections at once", "cmtime -b {address} -p {port} -c 20", "cmtime -s {address} -p {port} -c 20",
       serves_on=True),
    cm("cm_rstream", "rsockets, verified", "rstream -b {address} -p {port} -T v -S 10000 -C 20",
       "rstream -s {address} -p {port} -T v -S 10000 -C 20"),
    cm("cm_riostream", "rsockets, RDMA WRITEs", "riostream -b {address} -p {port} -S 4096 -C 20 -I 2",
       "riostream -s {address} -p {port} -S 4096 -C 20 -I 2"),
    cm("cm_librspreload", "NPtcp under librspreload, verified", RSOCKET_NPTCP.format(port="{port}", where=""),
       RSOCKET_NPTCP.format(port="{port}", where="-h {address}")),
    cm("cm_mckey", "mckey: datagrams to a group", MCKEY.format(bind="{address}"), MCKEY.format(bind="{own}") + " -s", group="239.1.2.3"),
    cm("cm_rdma_xserver", "rdma_xserver and rdma_xclient, RC", "rdma_xserver -p {port}", "rdma_xclient -s {address} -p {port}"),
    cm_perftest("ib_send_bw"), cm_perftest("ib_send_lat"), cm_perftest("ib_write_bw"), cm_perftest("ib_write_lat"),
    cm_perftest("ib_read_bw", more="-o 16"), cm_perftest("ib_read_lat", more="-o 16"),
    cm_perftest("ib_atomic_bw", more="-o 16", size=8), cm_perftest("ib_atomic_lat", more="-o 16", size=8),
    cm("cm_qperf", "qperf -cm1: rc_bw", "qperf -lp {port}", "qperf -lp {port} -to 30 {address} -cm1 -t 1 rc_bw", by_tcp=True, serves_on=True),
    *[cm(f"cm_libfabric_{name}", f"fi_pingpong over {provider}",
         FI_PINGPONG.format(provider=provider, endpoint=endpoint) + " -B {port}",
         FI_PINGPONG.format(provider=provider, endpoint=endpoint) + " -P {port} {address}", by_tcp=True,
         not_from_rxe="the guest's kernel refuses rdma_resolve_route (ENODEV) before it sends anything")
      for name, provider, endpoint in (("msg", "verbs", "msg"), ("rxm", "verbs;ofi_rxm", "rdm"))],
    cm("cm_ucx", "UCX with rdmacm, verified", UCX, UCX + " -i 20 -o read,write {address}", serves_on=True),
    cm_fio("write"), cm_fio("read"), cm_fio("send", "--verify=crc32c", FIO_VERIFIED),
    cm("cm_dapltest", "dapltest: transactions, verified", f"{DAPLTEST} -T S -D {{device}}",
       f"{DAPLTEST} -T T -s {{address}} -D {{device}} -i 5 -t 1 -w 2 -V "
       "client SR 65536 1 server SR 4096 2 client RW 4096 1 server RR 4096 1", serves_on=True),
]

CASES = STOCK + VERIFIED + ADDRESSES + VLANS + PATH_MTUS + LOSSY + CM


def find(names):
    """The cases of these names ("cm": all of the connection manager's); all without. Raises KeyError for a name that is none."""
    known = {case.name: [case] for case in CASES} | {"cm": CM}
    return [case for name in names for case in known[name]] if names else list(CASES)
