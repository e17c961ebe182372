"""docs/verbs.md names every public function and every constant of the installed <infiniband/verbs.h>."""

import pathlib
import re
import subprocess

import harness

INCLUDE = pathlib.Path("/usr/include/infiniband")
LIBRARY = "/usr/lib/x86_64-linux-gnu/libibverbs.so.1"


def without_comments(name):
    text = (INCLUDE / name).read_text(encoding="utf-8")
    return re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", "", text, flags=re.S))


def documented():
    text = (harness.SOURCE / "docs/verbs.md").read_text(encoding="utf-8")
    return {name for cell in re.findall(r"^\| (.*?) \|", text, flags=re.M)
            for name in re.findall(r"`(\w+)`", cell)}


def functions():
    """Declared in verbs.h: exported by libibverbs, or inline there."""
    header = without_comments("verbs.h")
    declared = set(re.findall(r"\b(ibv_\w+)\s*\(", header)) - {"ibv_wc_opcode"}  # a function pointer's type
    exported = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True,
                              check=True).stdout
    exported = {line.split()[-1].split("@")[0] for line in exported.splitlines()}
    inline = set(re.findall(r"static inline[^;{(]*?\b(ibv_\w+)\s*\(", header))
    return declared, exported, inline


def constants():
    """Members of the enumerations, and the flags that verbs_api.h takes from the kernel's."""
    names = set()
    for body in re.findall(r"enum\s*\w*\s*\{(.*?)\}", without_comments("verbs.h"), flags=re.S):
        names.update(re.findall(r"\b(IBV_\w+)\s*(?:=|,|$)", body, flags=re.M))
    names.update(re.findall(r"#define (IBV_\w+)\s+\(?1ULL", without_comments("verbs.h")))
    names.update(re.findall(r"#define\s+(IBV_\w+)\s+IB_", without_comments("verbs_api.h")))
    return names


class VerbsList(harness.TestCase):
    def test_every_function(self):
        declared, exported, inline = functions()
        self.assertGreater(len(declared), 140, "the header was not understood")
        self.assertIn("ibv_wr_send", inline)
        self.assertTrue(inline <= declared)
        self.assertGreater(len(declared & exported), 50)
        self.assertEqual(sorted(declared - documented()), [])

    def test_every_constant(self):
        self.assertGreater(len(constants()), 400, "the header was not understood")
        self.assertEqual(sorted(constants() - documented()), [])

    def test_nothing_that_the_header_does_not_have(self):
        declared, _, _ = functions()
        # FLUSH exists from rdma-core 45, and the page says so.
        later = {name for name in documented() if "FLUSH" in name or "flush" in name} - constants()
        self.assertEqual(sorted(documented() - declared - constants() - later), [])

    def test_every_row_has_an_answer(self):
        for line in (harness.SOURCE / "docs/verbs.md").read_text(encoding="utf-8").splitlines():
            if line.startswith("| `"):
                cells = [cell.strip() for cell in line.strip("|").split("|")]
                self.assertEqual(len(cells), 3, line)
                self.assertRegex(cells[1], r"^(works|libibverbs|never|ignored|E[A-Z]+)$", line)


if __name__ == "__main__":
    harness.main()
