#!/usr/bin/python3
"""scripts/check_packages.py BUILD: checks, without building anything, that a release leaves nothing out.

Each file that `meson install` would install from BUILD has to be in one of Debian's packages (debian/*.install, debian/*.manpages), in
one of RPM's (%files of rpm/urnic.spec) and in the tarball (scripts/release), or in the list here of what the tarball is not for. Each line
of those files has to name something that is installed. What BUILD was configured with has to be in Build-Depends of debian/control, and in the section [build] of scripts/packages.
Prints a line for each mistake; exit status 1 when there is one.
"""

import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
LIBDIR = "usr/lib/x86_64-linux-gnu"
# Meson's names of what the tests alone need: no package is built with it.
FOR_TESTS = {"gtest", "gtest_main", "gmock", "benchmark"}
# Debian's packages of what has no file of pkg-config's; None: the compiler has it.
WITHOUT_PKG_CONFIG = {"boost": "libboost-dev", "threads": None}
# What the tarball is not for: a system that it would be installed into, and programs that others build.
NOT_IN_TARBALL = [re.compile(place) for place in (
    r"etc/libibverbs\.d/urnic\.driver", r"etc/apparmor\.d/urnicd", r"etc/urnic/urnicd\.toml", r"usr/lib/systemd/system/urnicd\.service",
    r"usr/lib/sysusers\.d/urnic\.conf", r"usr/include/.*", r"usr/share/man/man3/.*", LIBDIR + r"/liburnic-rpcrdma.*",
    LIBDIR + r"/pkgconfig/.*", r"usr/share/doc/urnic/examples/rpcrdma_upper\.c")]

RPM_FOLDERS = {"_bindir": "usr/bin", "_sbindir": "usr/sbin", "_libexecdir": "usr/libexec", "_libdir": LIBDIR, "_datadir": "usr/share",
               "_mandir": "usr/share/man", "_includedir": "usr/include", "_sysconfdir": "etc", "_prefix": "usr"}


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


@functools.cache
def introspect(build, what):
    return json.loads(output_of("meson", "introspect", what, str(build)))


def debian_place(path, options):
    """Where a package has what is installed at `path`: debhelper builds with the prefix /usr and Debian's folders."""
    prefix = pathlib.PurePosixPath(options["prefix"])
    for folder, place in ((prefix / options["sysconfdir"], "etc"), (prefix / options["libdir"], LIBDIR), (prefix, "usr")):
        if path.is_relative_to(folder):
            return f"{place}/{path.relative_to(folder)}"
    return str(path).lstrip("/")


def installed_files(build, top=TOP):
    """Places in packages of all files; what debian/rules installs by hand is among them."""
    options = {option["name"]: option["value"] for option in introspect(build, "--buildoptions")}
    places = {debian_place(pathlib.PurePosixPath(path), options) for path in introspect(build, "--installed").values()}
    rules = (top / "debian/rules").read_text(encoding="utf-8")
    return sorted(places | set(re.findall(r"^\tinstall .* debian/tmp/(\S+)$", rules, re.MULTILINE)))


class Control:
    """debian/control: the names of the packages, and of those that the build needs."""

    def __init__(self, text):
        self.packages = re.findall(r"^Package: (\S+)$", text, re.MULTILINE)
        field = re.search(r"^Build-Depends:(.*(?:\n[ \t].*)*)", text, re.MULTILINE).group(1)
        self.build_depends = {re.split(r"[\s(:]", choice.strip())[0] for entry in field.split(",") for choice in entry.split("|")} - {""}


def patterns(path):
    """(number of the line, pattern) of each file that it asks for. dh_install's last word is a folder."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        words = line.split("#")[0].split()
        if path.suffix == ".install" and len(words) > 1:
            words.pop()
        yield from ((number, word) for word in words)


def takes(pattern, place):
    """Returns whether the pattern names the file, or a folder that it is in. A star does not reach over a slash."""
    path = pathlib.PurePosixPath("/", place)
    return any(folder.match(f"/{pattern}") for folder in (path, *path.parents[:-1]))


def rpm_patterns(spec):
    """(number of the line, package, pattern) of each file in %files."""
    package = None
    for number, line in enumerate(spec.read_text(encoding="utf-8").splitlines(), 1):
        words = line.split()
        if words[:1] == ["%files"]:
            package = words[2] if "-n" in words else "-".join(["urnic", *words[1:]])
        elif words and package and words[0] not in ("%dir", "%license"):
            yield number, package, re.sub(r"%\{(\w+)\}", lambda macro: RPM_FOLDERS.get(macro[1], macro[0]), words[-1])


def owner_problems(places, listed, more):
    """`listed`: (where, package, pattern) of each line. `more`: where a file that has no package is to be named."""
    owners = {place: set() for place in places}
    for where, package, pattern in listed:
        found = [place for place in places if takes(pattern, place)]
        for place in found:
            owners[place].add(package)
        if not found:
            yield f"{where}: nothing is installed as {pattern}: take the line out, or correct it"
    for place, packages in owners.items():
        if not packages:
            yield f"{place} is installed and in no package: name it in {more}"
        elif len(packages) > 1:
            yield f"{place} is in the packages {', '.join(sorted(packages))}: none could be installed beside the other; leave it to one"


def package_problems(top, places):
    control = Control((top / "debian/control").read_text(encoding="utf-8"))
    listed = []
    for path in sorted((*(top / "debian").glob("*.install"), *(top / "debian").glob("*.manpages"))):
        if path.stem not in control.packages:
            yield f"{path.relative_to(top)}: debian/control has no package {path.stem}: name one that it has"
        listed += [(f"{path.relative_to(top)}:{number}", path.stem, pattern) for number, pattern in patterns(path)]
    yield from owner_problems(places, listed, "debian/PACKAGE.install (or .manpages)")
    spec = top / "rpm/urnic.spec"
    yield from owner_problems(places, [(f"{spec.relative_to(top)}:{number}", *what) for number, *what in rpm_patterns(spec)],
                              "%files of rpm/urnic.spec")


def tarball_problems(top, places):
    """By name: scripts/release takes files from where the build has them."""
    text = (top / "scripts/release").read_text(encoding="utf-8")
    bundle = re.search(r"^bundle\(\) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL).group(1)
    for place in places:
        name = os.path.basename(place)
        is_there = re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", bundle)
        if not is_there and not any(rule.fullmatch(place) for rule in NOT_IN_TARBALL):
            yield f"{place} is installed and not in the tarball: add it to bundle() in scripts/release, or to NOT_IN_TARBALL here"


@functools.cache
def package_of(dependency):
    """The package with a dependency's file of pkg-config's; None: nothing is to be installed for it."""
    if dependency in WITHOUT_PKG_CONFIG:
        return WITHOUT_PKG_CONFIG[dependency]
    folder = output_of("pkg-config", "--variable=pcfiledir", dependency).strip()
    return output_of("dpkg-query", "--search", f"{folder}/{dependency}.pc").split(":")[0]


def build_section(top):
    """What the section [build] of scripts/packages has."""
    text = (top / "scripts/packages").read_text(encoding="utf-8")
    return set(re.search(r"^\[build\]\n(.*?)^\[", text, re.MULTILINE | re.DOTALL).group(1).splitlines())


def dependency_problems(top, dependencies):
    control = Control((top / "debian/control").read_text(encoding="utf-8"))
    section = build_section(top)
    for dependency in sorted(dependencies):
        package = package_of(dependency)
        if package is None:
            continue
        if dependency not in FOR_TESTS and package not in control.build_depends:
            yield f"debian/control: the build needs {dependency}: add {package} to Build-Depends"
        if package not in section:
            yield f"scripts/packages: the build needs {dependency}: add {package} to [build]"


def problems(build, top=TOP):
    places = installed_files(build, top)
    yield from package_problems(top, places)
    yield from tarball_problems(top, places)
    # Elsewhere the names of packages are others.
    if shutil.which("dpkg-query"):
        yield from dependency_problems(top, {entry["name"] for entry in introspect(build, "--dependencies")})


def main():
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} BUILD")
    found = list(problems(pathlib.Path(sys.argv[1])))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
