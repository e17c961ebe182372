"""Stock programs of librdmacm that need more in the guest than themselves and the libraries that they are linked with.

Everything lies at the same path on both sides.
"""

import pathlib

import harness
import network

LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")
PROGRAMS = ["rdma_xserver", "rdma_xclient", "NPtcp", "qperf", "fi_pingpong", "io_demo", "fio", "dapltest"]
RSPRELOAD = LIBRARIES / "rsocket/librspreload.so"
UCX_MODULES = LIBRARIES / "ucx"
DAPL_PROVIDER = LIBRARIES / "libdaplofa.so.2"
# uDAPL's registry: an adapter by the name of the RNIC, on either side.
DAT_REGISTRY = harness.BUILD / "interop/dat.conf"
ADAPTERS = {"urnic0": network.OUR_IPV4, "rxe0": network.PEER_IPV4}


def files():
    """{path in the guest: file here} besides the programs; the registry is written by this."""
    DAT_REGISTRY.parent.mkdir(parents=True, exist_ok=True)
    DAT_REGISTRY.write_text("".join(
        f'{name} u2.0 nonthreadsafe default {DAPL_PROVIDER.name} dapl.2.0 "{address} 0" ""\n'
        for name, address in ADAPTERS.items()), encoding="ascii")
    paths = [RSPRELOAD, DAPL_PROVIDER, *UCX_MODULES.glob("*.so.0"), DAT_REGISTRY, pathlib.Path("/etc/protocols")]
    return {str(path): path for path in paths}
