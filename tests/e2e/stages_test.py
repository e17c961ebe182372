"""What scripts/test says of failures: their first causes, out of what compilers, Meson and the other scripts print."""

import os
import sys

import harness

SCRIPTS = harness.SOURCE / "scripts"
sys.path.insert(0, str(SCRIPTS))

import first_cause

BUILD_LOG = """\
[1/3] Compiling C++ object a.p/a.cc.o
FAILED: a.p/a.cc.o
ccache c++ -Werror -o a.p/a.cc.o -c ../a.cc
In file included from ../a.cc:1:
../a.h: In function ‘int f()’:
\x1b[01m../a.h:3:5:\x1b[m \x1b[01;31m\x1b[Kerror: \x1b[m\x1b[K‘x’ was not declared in this scope
../a.h:4:5: error: ‘y’ was not declared in this scope
[2/3] Compiling C++ object b.p/b.cc.o
ninja: build stopped: subcommand failed.
"""
LINK_LOG = """\
FAILED: urnic
c++ -o urnic main.o
/usr/bin/ld: main.o: in function `main':
main.cc:(.text+0x5): undefined reference to `f()'
collect2: error: ld returned 1 exit status
"""
MESON_LOG = """\
  1/3 urnic:unit / base     OK              0.12s
  2/3 urnic:unit / wire     FAIL            0.30s   exit status 1
>>> GTEST_BRIEF=1 /build/wire_test
――――――――――――――――――――――――――――――――――――― ✀  ―――――――――――――――――――――――――――――――――――――
../tests/unit/wire_test.cc:12: Failure
Expected equality of these values:
  f()
    Which is: 3
  4

[  FAILED  ] Wire.Sum (0 ms)
――――――――――――――――――――――――――――――――――――――――――――――――――――――――――――――――――――――――――――――
  3/3 urnic:e2e / pauses    TIMEOUT       300.01s   killed by signal 15 SIGTERM
>>> /usr/bin/python3 pfc_test.py
――――――――――――――――――――――――――――――――――――― ✀  ―――――――――――――――――――――――――――――――――――――
FAIL: test_two (__main__.Pfc.test_two)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "pfc_test.py", line 9, in test_two
AssertionError: 3 != 2 : counted twice

――――――――――――――――――――――――――――――――――――――――――――――――――――――――――――――――――――――――――――――
Summary of Failures:

  2/3 urnic:unit / wire     FAIL            0.30s   exit status 1
"""
OTHER_LOG = """\
lint format: ok
rnic/a.cc: 501 lines; split it, a file has fewer than 500
lint layers: FAILED
perftest: failed: rc_write: no rows: 3
perftest: 3 passed, 1 failed, 0 skipped in 3 s
interop: 3/80 uc_send, urnic0 as client: FAILED (1.2 s): rxe's counters moved
==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x60
fuzz parse: FAILED
fuzz cm: ok
"""


def failures(text):
    os.environ.setdefault("build", str(harness.BUILD))
    import run_stages
    found = []
    watch = run_stages.Watch(lambda name, cause: found.append((name, cause)))
    for line in text.splitlines():
        watch.feed(line)
    watch.end()
    return found


class FirstCause(harness.TestCase):
    def test_of_a_build(self):
        self.assertEqual(first_cause.build_cause(BUILD_LOG), "../a.h:3:5: error: ‘x’ was not declared in this scope")
        self.assertIn("undefined reference to `f()'", first_cause.build_cause(LINK_LOG))
        self.assertEqual(first_cause.build_cause("[1/1] Linking a\n"), "")

    def test_of_a_test(self):
        sanitized = "[ RUN ] A.b\n../a.cc:3:9: runtime error: signed integer overflow: 1 + 2\nSUMMARY: UndefinedBehaviorSanitizer"
        self.assertEqual(first_cause.test_cause(sanitized), "../a.cc:3:9: runtime error: signed integer overflow: 1 + 2")
        self.assertEqual(first_cause.test_cause("one\nurnicd is gone\n\n"), "urnicd is gone")
        self.assertEqual(first_cause.test_cause(""), "")


class Watch(harness.TestCase):
    def test_a_build_is_named_once(self):
        self.assertEqual(failures(BUILD_LOG + BUILD_LOG), [("build", "../a.h:3:5: error: ‘x’ was not declared in this scope")])

    def test_tests(self):
        self.assertEqual(failures(MESON_LOG), [
            ("urnic:unit / wire (fail)", "../tests/unit/wire_test.cc:12: Expected equality of these values: f() Which is: 3 4"),
            ("urnic:e2e / pauses (timeout)", "test_two: AssertionError: 3 != 2 : counted twice")])

    def test_other_stages(self):
        self.assertEqual(failures(OTHER_LOG), [
            ("lint layers", "rnic/a.cc: 501 lines; split it, a file has fewer than 500"),
            ("suite perftest.rc_write", "no rows: 3"),
            ("interop uc_send, urnic0 as client", "rxe's counters moved"),
            ("fuzz parse", "==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x60")])


class Named(harness.TestCase):
    def test_a_name_that_is_none(self):
        result = harness.run(["/usr/bin/python3", SCRIPTS / "select_tests.py", "targets", harness.BUILD, "wirr"])
        self.assertEqual(result.returncode, 1, result)
        self.assertIn("there is no test wirr; there are wire", result.err)


if __name__ == "__main__":
    harness.main()
