"""perftest's eight tools, unmodified, between urnic0 and urnic1, under `urnic run --standalone`.

What they transfer is not checked by them; verbs_check does that. Here every option must work, every requested size must
be reported, and the figures must be figures.
"""

import functools
import re

import harness

ALL_SIZES = [2 ** power for power in range(1, 24)]


@functools.lru_cache
def options_of(tool):
    """The options that this version of the tool describes."""
    text = harness.run([tool, "--help"]).out
    return set(re.findall(r"^\s*(-\w)\b", text, re.M)) | set(re.findall(r"(--[\w-]+)", text))


class Perftest(harness.TestCase):
    connection = "RC"

    def measure(self, tool, *options, sizes=None, iterations=200, client_device="urnic1"):
        """One run of a tool; returns the client's rows, {bytes: [figures]}."""
        port = str(harness.free_port())
        common = ["-F", "-c", self.connection, "-p", port, "-n", str(iterations), *(str(option) for option in options)]
        _, client = self.run_pair([tool, "-d", "urnic0", *common], [tool, "-d", client_device, *common, "127.0.0.1"],
                                  int(port), timeout=300)
        rows = harness.perftest_rows(client)
        if sizes is not None:
            self.assertEqual(sorted(rows), sizes, str(client))
        return rows

    def variants(self, tool, *variants):
        for variant in variants:
            with self.subTest(tool=tool, options=" ".join(str(word) for word in variant)):
                self.measure(tool, *variant)

    def common_variants(self, tool, bandwidth, atomic=False):
        """The options that all tools of a kind share."""
        size = [] if atomic else ["-s", 10_000]
        for mtu in (256, 512, 1024, 2048, 4096):
            self.variants(tool, ["-m", mtu, *size])
        self.variants(tool, [*size, "--use_old_post_send"], ["-x", 0], ["-x", 1])
        if "-e" in options_of(tool):
            self.variants(tool, ["-e", *size], ["-e", *size, "--use_old_post_send"])
        if bandwidth:
            self.variants(tool, ["-b", *size], ["-q", 16, *size], ["-b", "-q", 16, *size], ["-q", 16, *size,
                          "--use_old_post_send"], ["-t", 16, *size], ["-Q", 10, *size], ["-l", 4, *size],
                          ["-b", *size, "--report-both"] if not atomic else ["-N"])
            if "-e" in options_of(tool):
                self.variants(tool, ["-e", "-b", "-q", 4, *size])
        with self.subTest(tool=tool, peer="own device"):
            self.measure(tool, *size, client_device="urnic0")

    def all_sizes(self, tool, *options):
        with self.subTest(tool=tool, sizes="all", options=options):
            self.measure(tool, "-a", *options, sizes=ALL_SIZES, iterations=20)

    def inline(self, tool):
        for size in (1, 64, 220):
            self.variants(tool, ["-s", size, "-I", 220], ["-s", size, "-I", 220, "--use_old_post_send"],
                          ["-s", size, "-I", 0])


class Write(Perftest):
    def test_bw(self):
        self.common_variants("ib_write_bw", bandwidth=True)

    def test_bw_all_sizes(self):
        self.all_sizes("ib_write_bw")
        self.all_sizes("ib_write_bw", "-b")

    def test_bw_inline(self):
        self.inline("ib_write_bw")

    def test_lat(self):
        self.common_variants("ib_write_lat", bandwidth=False)
        self.inline("ib_write_lat")

    def test_lat_all_sizes(self):
        self.all_sizes("ib_write_lat")


class Read(Perftest):
    def test_bw(self):
        self.common_variants("ib_read_bw", bandwidth=True)
        self.variants("ib_read_bw", ["-o", 1], ["-o", 16])

    def test_bw_all_sizes(self):
        self.all_sizes("ib_read_bw")

    def test_lat(self):
        self.common_variants("ib_read_lat", bandwidth=False)

    def test_lat_all_sizes(self):
        self.all_sizes("ib_read_lat")


class Send(Perftest):
    def test_bw(self):
        self.common_variants("ib_send_bw", bandwidth=True)
        self.variants("ib_send_bw", ["-r", 16])

    def test_bw_all_sizes(self):
        self.all_sizes("ib_send_bw")
        self.all_sizes("ib_send_bw", "-e")

    def test_bw_inline(self):
        self.inline("ib_send_bw")

    def test_lat(self):
        self.common_variants("ib_send_lat", bandwidth=False)
        self.inline("ib_send_lat")

    def test_lat_all_sizes(self):
        self.all_sizes("ib_send_lat")
        self.all_sizes("ib_send_lat", "-e")


class Atomic(Perftest):
    def test_bw(self):
        self.common_variants("ib_atomic_bw", bandwidth=True, atomic=True)

    def test_lat(self):
        self.common_variants("ib_atomic_lat", bandwidth=False, atomic=True)

    def test_both_operations(self):
        for tool in ("ib_atomic_bw", "ib_atomic_lat"):
            for operation in ("CMP_AND_SWAP", "FETCH_AND_ADD"):
                self.variants(tool, ["-A", operation], ["-A", operation, "--use_old_post_send"])


class Unreliable(Perftest):
    """No more messages than receives are posted beforehand: nothing holds a fast sender back, and what finds no
    receive is lost."""

    def run_all(self, connection, *runs):
        self.connection = connection
        for tool, *options in runs:
            self.variants(tool, options)

    def test_uc(self):
        self.run_all("UC", ["ib_send_bw", "-s", 10_000], ["ib_send_bw", "-s", 10_000, "-e", "-b"],
                     ["ib_send_bw", "-q", 8, "-s", 3000, "-m", 256], ["ib_send_bw", "-s", 64, "-I", 100],
                     ["ib_send_lat", "-s", 5000], ["ib_send_lat", "-e", "--use_old_post_send"],
                     ["ib_write_bw", "-s", 100_000], ["ib_write_bw", "-q", 8, "-b", "-m", 1024],
                     ["ib_write_bw", "-s", 64, "-I", 100], ["ib_write_lat", "-s", 64],
                     ["ib_write_lat", "-s", 64, "-I", 100, "--use_old_post_send"])

    def test_uc_all_sizes(self):
        self.connection = "UC"
        self.all_sizes("ib_write_bw")

    def test_ud(self):
        self.run_all("UD", ["ib_send_bw", "-s", 4096], ["ib_send_bw", "-s", 1024, "-e", "-b"],
                     ["ib_send_bw", "-q", 8, "-s", 1000], ["ib_send_bw", "-s", 512, "-m", 512, "-b"],
                     ["ib_send_bw", "-s", 64, "-I", 100, "--use_old_post_send"], ["ib_send_bw", "-x", 0],
                     ["ib_send_lat", "-s", 4096], ["ib_send_lat", "-s", 64, "-I", 100],
                     ["ib_send_lat", "-e", "-s", 64], ["ib_send_lat", "-s", 64, "--use_old_post_send"])


class Shared(Perftest):
    """Shared receive queues and XRC."""

    def test_srq(self):
        self.variants("ib_send_bw", ["--use-srq", "-s", 10_000], ["--use-srq", "-q", 8, "-s", 3000],
                      ["--use-srq", "-b", "-s", 10_000], ["--use-srq", "-e", "-s", 4096])
        self.variants("ib_send_lat", ["--use-srq", "-s", 5000], ["--use-srq", "-e"])
        self.connection = "UC"
        self.variants("ib_send_bw", ["--use-srq", "-s", 10_000])
        self.connection = "UD"
        self.variants("ib_send_bw", ["--use-srq", "-s", 2048])

    def test_xrc(self):
        self.connection = "XRC"
        for tool in ("ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_write_lat", "ib_read_lat", "ib_send_lat"):
            self.variants(tool, ["-s", 10_000], ["-s", 10_000, "--use_old_post_send"])
        for tool in ("ib_atomic_bw", "ib_atomic_lat"):
            self.variants(tool, [])
        for tool in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
            self.variants(tool, ["-q", 4, "-s", 3000], ["-b", "-s", 3000])

    def test_xrc_all_sizes(self):
        self.connection = "XRC"
        self.all_sizes("ib_send_bw")


class Duration(Perftest):
    def test_bw_for_a_second(self):
        port = str(harness.free_port())
        common = ["-F", "-p", port, "-D", "1", "-s", "65536"]
        _, client = self.run_pair(["ib_write_bw", "-d", "urnic0", *common],
                                  ["ib_write_bw", "-d", "urnic1", *common, "127.0.0.1"], int(port))
        self.assertRegex(client.out, r"(?m)^\s*65536\s+\d+\s")


if __name__ == "__main__":
    harness.main()
