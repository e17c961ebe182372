"""The Python tests of the installed rdma-core, unpacked for running.

Debian's package python3-pyverbs holds them in /usr/share/doc; where dpkg was told to leave that out (as slim images do) they
come out of the package's file again.
"""

import gzip
import pathlib
import shutil
import subprocess
import tempfile

import harness

PACKAGE = "python3-pyverbs"
INSTALLED = pathlib.Path("/usr/share/doc/rdma-core/tests")


def _fetch(directory, version):
    """The tests in the package's file, which apt downloads."""
    subprocess.run(["apt-get", "-q", "-o", "Acquire::Retries=3", "download", f"{PACKAGE}={version}"], cwd=directory, check=True)
    package, = directory.glob(f"{PACKAGE}_*.deb")
    subprocess.run(["dpkg-deb", "-x", package, directory / "package"], check=True)
    return directory / "package" / INSTALLED.relative_to("/")


def provide():
    """The directory with the tests, in the build tree. May need the network, but only once for a version."""
    version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", PACKAGE], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    tests = harness.BUILD / f"rdma-core-tests-{version}"
    if tests.exists():
        return tests
    with tempfile.TemporaryDirectory(dir=harness.BUILD) as name:
        directory = pathlib.Path(name)
        source = INSTALLED if (INSTALLED / "run_tests.py").exists() else _fetch(directory, version)
        unpacked = directory / "tests"
        unpacked.mkdir()
        for path in source.iterdir():
            if path.suffix == ".gz":
                with gzip.open(path) as text, open(unpacked / path.stem, "wb") as out:
                    shutil.copyfileobj(text, out)
            else:
                shutil.copy(path, unpacked / path.name)
        unpacked.rename(tests)
    return tests
