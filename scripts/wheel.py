#!/usr/bin/python3
"""scripts/wheel.py FOLDER VERSION GLIBC OUT: puts a wheel for Python of FOLDER, the unpacked tarball of a release, into the folder OUT.

The tag is that of PEP 600 for the C library's version that FOLDER needs; auditwheel's other rule, which libraries may be the system's,
holds but for libibverbs, which has to be the one of the programs. Called by scripts/release.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
MODULES = TOP / "cli/python"
# PEP 600: what each distribution has. The dynamic linker is in the C library's package.
SYSTEM = re.compile(r"^(libc|libm|libdl|librt|libpthread|libresolv)\.so\.\d+$|^ld-linux-x86-64\.so\.2$|^libibverbs\.so\.1$")
METADATA = """Metadata-Version: 2.1
Name: urnic
Version: {version}
Summary: RDMA NICs made of software, for programs of libibverbs and librdmacm
License: BSD-3-Clause
Classifier: License :: OSI Approved :: BSD License
Classifier: Operating System :: POSIX :: Linux
Classifier: Framework :: Pytest
Requires-Python: >=3.9
Description-Content-Type: text/markdown

# urnic
`urnic run --standalone -- CMD` gives CMD two RNICs on a wire, without root and without a kernel module.
The fixture `rnics` of pytest does so for the programs that a test starts, and `urnic_faults.drop(count=1)` loses packets.
It needs an x86-64 processor of level v2, glibc {glibc} or later, and the system's libibverbs of rdma-core 34 to 56
(`apt install libibverbs1`).
"""
WHEEL = """Wheel-Version: 1.0
Generator: urnic
Root-Is-Purelib: false
Tag: {tag}
"""
ENTRY_POINTS = """[console_scripts]
urnic = urnic.__main__:main

[pytest11]
urnic = urnic_pytest
"""


def needed(path):
    """Names of the libraries that a file of ELF asks for; none for other files."""
    with open(path, "rb") as file:
        if file.read(4) != b"\x7fELF":
            return []
    dynamic = subprocess.run(["readelf", "--wide", "--dynamic", path], check=True, stdout=subprocess.PIPE, text=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)


def check_libraries(tree):
    files = [path for path in sorted(tree.rglob("*")) if path.is_file()]
    names = {path.name for path in files}
    for path in files:
        for library in needed(path):
            if library not in names and not SYSTEM.match(library):
                sys.exit(f"{path} needs {library}, which is neither in {tree} nor in every distribution: add it to what scripts/release bundles")


def main():
    if len(sys.argv) != 5:
        sys.exit(f"usage: {sys.argv[0]} FOLDER VERSION GLIBC OUT")
    tree, version, glibc, out = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4])
    check_libraries(tree)
    tag = f"py3-none-manylinux_{glibc.replace('.', '_')}_x86_64"
    with tempfile.TemporaryDirectory() as scratch:
        stage = pathlib.Path(scratch) / "stage"
        information = stage / f"urnic-{version}.dist-info"
        shutil.copytree(MODULES, stage, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(tree, stage / "urnic/tree")
        information.mkdir()
        (information / "METADATA").write_text(METADATA.format(version=version, glibc=glibc), encoding="utf-8")
        (information / "WHEEL").write_text(WHEEL.format(tag=tag), encoding="utf-8")
        (information / "entry_points.txt").write_text(ENTRY_POINTS, encoding="utf-8")
        shutil.copy(TOP / "LICENSE", information)
        # Modes are part of a wheel, and those of a checkout depend on who made it.
        for path in stage.rglob("*"):
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) and path.stat().st_mode & 0o100 else 0o644)
        subprocess.run(["/usr/bin/python3", "-m", "wheel", "pack", "--dest-dir", out, stage], check=True, stdout=subprocess.DEVNULL)
    print(out / f"urnic-{version}-{tag}.whl")


if __name__ == "__main__":
    main()
