"""Judges RNICs of ours, each over a veth pair, and writes the results: scripts/conform makes its table of them.

usage: URNIC_CONFORM_RESULTS=DIRECTORY conform_devices.py
"""

import os
import pathlib

import conform_results
import conform_test
import harness
import netns

# Of a machine that does much else meanwhile; alone it takes less than two minutes.
PATIENCE_S = 1800
CNPS = "[rnic.congestion]\ncnp = true\n"


class Devices(conform_test.Hosts):
    def judge(self, name, label, *words):
        folder = pathlib.Path(os.environ["URNIC_CONFORM_RESULTS"])
        self.start_agent()
        words = ("--label", label, "--json", folder / f"{name}.json", "--evidence", folder / name,
                 "--junit", folder / f"{name}.xml", *words)
        result = self.conform(*words, timeout=PATIENCE_S)
        self.assertIn(result.returncode, (0, 1), result)
        if conform_results.has_inconclusive(folder / f"{name}.json"):
            result = self.conform(*words, "--resume", timeout=PATIENCE_S)
            self.assertIn(result.returncode, (0, 1), result)


class Selective(Devices):
    extra = CNPS

    def test_selective(self):
        self.judge("1-selective", "urnic")


class GoBackN(Devices):
    extra = 'recovery = "go-back-n"\n' + CNPS

    def test_go_back_n(self):
        self.judge("2-go-back-n", "urnic, go-back-N")


class PortCnps(Devices):
    """CNPs as those ConnectX models send them that have one gap for a port, 4 us (docs/congestion.md)."""
    extra = CNPS + 'cnp_scope = "port"\nmin_time_between_cnps_us = 4\n'

    def test_port_cnps(self):
        self.judge("3-port-cnps", "urnic, CNPs by port")


class Xdp(Devices):
    port = "af_xdp"
    extra = CNPS

    def test_xdp(self):
        self.judge("4-af-xdp", "urnic, AF_XDP")


class Strict(Devices):
    """With the ways of a profile, and compared with it (docs/conform.md, "Peers like other RNICs")."""
    profile = "strict"

    @property
    def extra(self):
        return f'profile = "{self.profile}"\n'

    def test_profile(self):
        self.judge(f"6-{self.profile}", f"urnic as {self.profile}", "--profile", self.profile)


class ConnectX(Strict):
    profile = "connectx"


class E810(Strict):
    profile = "e810"


class Rxe(Strict):
    profile = "rxe"


if __name__ == "__main__":
    netns.private()
    harness.main()
