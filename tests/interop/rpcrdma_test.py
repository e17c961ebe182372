"""The short form of scripts/interop rpcrdma: the kernel's NFS/RDMA as the peer of ulp/rpcrdma, captured."""

import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

import guest as guests
import harness
import nfs_table
import run_rpcrdma


class LinuxNfs(harness.TestCase):
    def test_both_roles(self):
        directory = self.enterContext(tempfile.TemporaryDirectory(prefix=f"urnic-nfs-{os.getpid()}-"))
        bench = run_rpcrdma.Bench(directory)
        self.addCleanup(bench.close)
        bench.start()
        step = run_rpcrdma.PASSES[0]
        results = run_rpcrdma.run_all(bench, [step])
        for side, name in nfs_table.WHAT:
            if nfs_table.is_part(step, side, name):
                with self.subTest(side=side, test=name):
                    state, text = results[side, name][step.name]
                    self.assertEqual(state, "passed", text)


if __name__ == "__main__":
    if not guests.installable():
        print(f"there is no {guests.QEMU} here")
        sys.exit(77)  # skipped, as Meson sees it
    harness.main()
