"""UCX: it finds the devices, and ucx_perftest runs over rc_verbs and ud_verbs, on UCX's own layer (UCP) and on the
transports' (UCT), with messages from 8 B to 4 MB."""

import functools
import os
import sys

import verdict
import counters
import harness
import pair

TRANSPORTS = ("rc_verbs", "ud_verbs")
SIZES = (8, 1000, 8192, 65_536, 1 << 20, 4 << 20)
SIZES_SHORT = (8, 8192, 4 << 20)
UCP = ("tag_lat", "tag_bw", "ucp_put_lat", "ucp_put_bw", "ucp_get", "ucp_am_lat", "ucp_am_bw", "stream_bw")
UCP_SHORT = ("tag_bw", "ucp_put_bw", "ucp_get")
UCP_ATOMICS = ("ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap")
UCT_RC = [(test, size, layout) for test, layouts in {"am_lat": ("short", "bcopy", "zcopy"), "am_bw": ("bcopy",),
                                                     "put_lat": ("short", "bcopy", "zcopy"), "put_bw": ("zcopy",),
                                                     "get": ("bcopy", "zcopy")}.items()
          for layout in layouts for size in ((8, 64) if layout == "short" else (8, 4096))
          if (test, size, layout) != ("get", 8, "zcopy")]  # UCX gets so few bytes by copy alone
UCT_ATOMICS = ("add_lat", "add_mr", "fadd", "cswap")
UCT_UD = [("am_lat", 8, "short"), ("am_lat", 2048, "bcopy"), ("am_lat", 2048, "zcopy"), ("am_bw", 2048, "bcopy")]


def devices():
    out = harness.run(["ucx_info", "-d"], env=dict(os.environ)).out
    for text in ("urnic0:1", "urnic1:1", *(f"Transport: {transport}" for transport in TRANSPORTS)):
        if text not in out:
            raise verdict.Refused(f"ucx_info -d does not name {text}: {out}")


def perftest(environment, options):
    """environment(device) -> variables; options(device) -> words of the command line."""
    def command(device, port, *peer):
        words = [f"{name}={value}" for name, value in environment(device).items()]
        return ["env", *words, "ucx_perftest", "-p", str(port), "-f", "-v", *options(device), *peer]
    before = counters.sent_bytes()
    _, client = pair.run_pair(lambda port: command("urnic0", port), lambda port: command("urnic1", port, "127.0.0.1"))
    if counters.sent_bytes() - before < 4000:
        raise verdict.Refused(f"it went past our devices: {client}")
    figures = [line for line in client.out.splitlines() if line.strip()[:1].isdigit() and "," in line]
    if not figures or " ERROR " in client.out + client.err:
        raise verdict.Refused(f"no figures: {client}")


def iterations(size):
    return ["-s", str(size), "-n", str(max(20, min(1000, (8 << 20) // size))), "-w", "5"]


def ucp(transport, test, size):
    # An RC connection is made by way of UD.
    transports = transport if transport == "ud_verbs" else f"{transport},ud_verbs:aux"
    perftest(lambda device: {"UCX_TLS": transports, "UCX_NET_DEVICES": f"{device}:1"},
             lambda device: ["-t", test, *iterations(size)])


def uct(transport, test, size, layout):
    perftest(lambda device: {},
             lambda device: ["-t", test, "-d", f"{device}:1", "-x", transport, "-D", layout, *iterations(size)])


def checks(short):
    yield "devices", devices
    for transport in TRANSPORTS:
        for test in UCP_SHORT if short else UCP:
            for size in SIZES_SHORT if short else SIZES:
                yield f"ucp {transport} {test} {size}", functools.partial(ucp, transport, test, size)
        for test in UCP_ATOMICS:
            for size in (8,) if short else (4, 8):
                yield f"ucp {transport} {test} {size}", functools.partial(ucp, transport, test, size)
    uct_checks = [("rc_verbs", *check) for check in UCT_RC] + [("ud_verbs", *check) for check in UCT_UD]
    uct_checks += [("rc_verbs", test, 8, "short") for test in UCT_ATOMICS]
    for check in uct_checks[::4] if short else uct_checks:
        yield "uct " + " ".join(str(word) for word in check), functools.partial(uct, *check)


def main():
    suite = verdict.Verdict("ucx", __doc__)
    names = []
    for name, check in checks(suite.short):
        names.append(name)
        suite.run(name, check)
    suite.end(expected=names if suite.short else None)


if __name__ == "__main__":
    sys.exit(main())
