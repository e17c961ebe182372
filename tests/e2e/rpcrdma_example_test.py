"""docs/examples/rpcrdma_upper.c, as a reader would run it."""

import sys

import harness

PROGRAM = sys.argv.pop(1)


class Example(harness.TestCase):
    def test_a_call_and_its_reply(self):
        port = str(harness.free_port())
        server = harness.start([PROGRAM, "serve", "198.18.0.1", port], env=None)
        self.addCleanup(harness.end_group, server)
        self.assertEqual(harness.read_line(server).strip(), "listening")
        # The second is longer than what goes inline, both ways.
        for text in ("hello", "rdma " * 4000):
            result = self.run_ok([PROGRAM, "call", "198.18.0.1", port, text], env=None)
            self.assertEqual(result.out, text.upper() + "\n")


if __name__ == "__main__":
    harness.main()
