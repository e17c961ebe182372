"""docs/verbs.md names every public function, every constant and every reported field of the installed
<infiniband/verbs.h>, and the tests of the fields."""

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
    """Members of the enumerations and macros, among them the flags that verbs_api.h takes from the kernel's."""
    return {name for header in ("verbs.h", "verbs_api.h") for name in re.findall(r"\bIBV_\w+", without_comments(header))}


def fields():
    """What a device and a port report."""
    names = set()
    for struct in ("ibv_device_attr", "ibv_device_attr_ex", "ibv_port_attr"):
        body = re.search(r"struct " + struct + r" \{(.*?)\n\};", without_comments("verbs.h"), flags=re.S)[1]
        names.update(re.findall(r"(\w+)(?:\[\w+\])?\s*;", body))
    return names


def rows():
    """Cells of each row that names something, and whether it is one of what a device reports."""
    section = ""
    for line in (harness.SOURCE / "docs/verbs.md").read_text(encoding="utf-8").splitlines():
        section = line if line.startswith("## ") else section
        if line.startswith("| `"):
            yield [cell.strip() for cell in line.strip("|").split("|")], section == "## What a device reports"


def tests():
    """Suite.Test of every test in C++."""
    return {".".join(name) for path in (harness.SOURCE / "tests").rglob("*_test.cc")
            for name in re.findall(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", path.read_text(encoding="utf-8"), flags=re.M)}


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

    def test_every_field(self):
        self.assertGreater(len(fields()), 75, "the header was not understood")
        named = {name for cells, reported in rows() if reported for name in re.findall(r"`(\w+)`", cells[0])}
        self.assertEqual(fields() ^ named, set())

    def test_every_field_has_a_test(self):
        known = tests()
        for cells, reported in rows():
            if reported:
                named = re.findall(r"`(\w+\.\w+)`", cells[-1])
                self.assertTrue(named, cells)
                self.assertEqual(sorted(set(named) - known), [])

    def test_every_test_that_is_named_exists(self):
        for page in ("verbs.md", "events.md"):
            text = (harness.SOURCE / "docs" / page).read_text(encoding="utf-8")
            named = set(re.findall(r"(?<![\w.])([A-Z]\w+\.[A-Z]\w+)", text))
            self.assertTrue(named)
            self.assertEqual(sorted(named - tests()), [], page)

    def test_nothing_that_the_header_does_not_have(self):
        declared, _, _ = functions()
        # FLUSH exists from rdma-core 45, and the page says so.
        later = {name for name in documented() if "FLUSH" in name or "flush" in name} - constants()
        self.assertEqual(sorted(documented() - declared - constants() - fields() - later), [])

    def test_every_row_has_an_answer(self):
        for cells, reported in rows():
            self.assertEqual(len(cells), 3, cells)
            if not reported:
                self.assertRegex(cells[1], r"^(works|libibverbs|never|ignored|E[A-Z]+)$")


if __name__ == "__main__":
    harness.main()
