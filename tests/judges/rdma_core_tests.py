"""The Python tests of the installed rdma-core, unpacked for running.

Debian's package rdma-core holds them in /usr/share/doc; where dpkg was told to leave that out (as slim images do) they come out of
the package's file again.
"""

import gzip
import pathlib
import shutil
import subprocess

INSTALLED = pathlib.Path("/usr/share/doc/rdma-core/tests")


def _fetch(directory):
    """The tests in the package's file, which apt downloads."""
    version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "rdma-core"], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    subprocess.run(["apt-get", "-q", "download", f"rdma-core={version}"], cwd=directory, check=True)
    package, = directory.glob("rdma-core_*.deb")
    subprocess.run(["dpkg-deb", "-x", package, directory / "package"], check=True)
    return directory / "package" / INSTALLED.relative_to("/")


def unpack(directory):
    """Puts the tests into directory/tests and returns that."""
    source = INSTALLED if (INSTALLED / "run_tests.py").exists() else _fetch(directory)
    tests = directory / "tests"
    tests.mkdir()
    for path in source.iterdir():
        if path.suffix == ".gz":
            with gzip.open(path) as text, open(tests / path.stem, "wb") as out:
                shutil.copyfileobj(text, out)
        else:
            shutil.copy(path, tests / path.name)
    return tests
