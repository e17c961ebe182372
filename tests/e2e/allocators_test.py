"""Allocators under a registration cache, unmodified, under `urnic run --standalone`: memory that calloc() gives is
zero and what was written stays, though regions outlive the memory that they were made for."""

import os
import re

import harness

LIBRARIES = "/usr/lib/x86_64-linux-gnu/"
ROUNDS = 3000


class Allocators(harness.TestCase):
    def torture(self, library=None, **settings):
        env = {**os.environ, **settings}
        if library is not None:
            self.assertTrue(os.path.exists(LIBRARIES + library), f"{library} is missing: scripts/setup installs it")
            env["LD_PRELOAD"] += ":" + LIBRARIES + library
        program = harness.BUILD / "tests/e2e/allocator_torture"
        result = self.run_ok([program, "urnic0", str(ROUNDS)], env=env)
        figures = dict(re.findall(r"(\w+) (\d+)", result.out))
        self.assertEqual(figures["not_zero"], "0", result.out)
        self.assertEqual(figures["changed"], "0", result.out)
        self.assertGreater(int(figures["callocs"]), ROUNDS / 2)
        self.assertGreater(int(figures["registered"]), ROUNDS / 10)

    def test_glibc(self):
        self.torture()

    def test_glibc_that_gives_everything_back(self):
        self.torture(MALLOC_TRIM_THRESHOLD_="1024", MALLOC_MMAP_THRESHOLD_="65536", MALLOC_ARENA_MAX="3")

    def test_jemalloc(self):
        self.torture("libjemalloc.so.2")

    def test_jemalloc_that_gives_everything_back(self):
        self.torture("libjemalloc.so.2", MALLOC_CONF="dirty_decay_ms:0,muzzy_decay_ms:0")

    def test_jemalloc_that_frees_lazily(self):
        self.torture("libjemalloc.so.2", MALLOC_CONF="dirty_decay_ms:0,muzzy_decay_ms:1000")

    def test_tcmalloc(self):
        self.torture("libtcmalloc_minimal.so.4", TCMALLOC_RELEASE_RATE="1000", TCMALLOC_AGGRESSIVE_DECOMMIT="1")

    def test_mimalloc(self):
        self.torture("libmimalloc.so.2", MIMALLOC_PAGE_RESET="1", MIMALLOC_RESET_DELAY="0",
                     MIMALLOC_DECOMMIT_DELAY="0", MIMALLOC_EAGER_COMMIT="0")


if __name__ == "__main__":
    harness.main()
