"""Makes what QEMU boots: Debian's kernel, and an initramfs with rdma_rxe and the stock programs of this machine.

Nothing is installed and no root is needed: the kernel comes by `apt-get download`, the initramfs is written here. Both
lie in a directory of the build and are made again when something in them has changed. The kernel of another release of
Debian comes from its archive, with lists of packages that lie beside it: those of this machine stay as they are.
"""

import contextlib
import fcntl
import hashlib
import lzma
import os
import pathlib
import re
import shutil
import stat
import struct
import subprocess
import sys
import zlib

HERE = pathlib.Path(__file__).resolve().parent

# The stock programs that go in, with every library that they load.
PROGRAMS = ["ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong", "ibv_devinfo",
            "ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat", "ib_send_bw", "ib_send_lat", "ib_atomic_bw",
            "ib_atomic_lat", "ip", "tc", "rdma", "ethtool", "flock",
            "rping", "rdma_server", "rdma_client", "ucmatose", "udaddy", "mckey", "cmtime", "rstream", "riostream"]
# Modules that are wanted for what they do; those that they need come by themselves. rxe asks the crypto layer for
# "crc32", which no dependency names.
MODULES = ["virtio_pci", "virtio_net", "virtio_console", "virtio_rng", "8021q", "ifb", "sch_netem",
           "sch_ingress", "cls_u32", "cls_matchall", "act_mirred", "crc32_generic", "crc32-pclmul", "ib_uverbs",
           "rdma_ucm", "rdma_rxe"]

# e_type of an ELF file that a program or a library is.
ET_EXEC, ET_DYN = 2, 3


class Missing(Exception):
    """The image cannot be made here; the text says why."""


def run(*command, **options):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    if result.returncode != 0:
        raise Missing(f"{' '.join(str(word) for word in command)}: {result.stderr.strip() or result.stdout.strip()}")
    return result.stdout


def release_options(cache, release):
    """Options that make apt look into the archive of another release of Debian's, with its lists in `cache`."""
    (cache / "lists/partial").mkdir(parents=True, exist_ok=True)
    (cache / "archives/partial").mkdir(parents=True, exist_ok=True)
    (cache / "status").touch()
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (cache / "sources.list").write_text(f"deb [arch=amd64 signed-by={keys}] http://deb.debian.org/debian {release} main\n",
                                        encoding="ascii")
    places = {"Dir::Etc::sourcelist": cache / "sources.list", "Dir::Etc::sourceparts": "-", "Dir::State::lists": cache / "lists",
              "Dir::State::status": cache / "status", "Dir::Cache": cache, "APT::Sandbox::User": "root"}
    return [f"-o{name}={value}" for name, value in places.items()]


def release_kernel(cache, release):
    """The kernel's package of another release, unpacked; the one that is there already, if any."""
    have = sorted(complete.parent for complete in cache.glob("linux-image-*/.complete"))
    if have:
        return have[-1]
    options = release_options(cache, release)
    run("apt-get", *options, "-o", "Acquire::Retries=3", "update")
    return download(cache, kernel_package(options), options)


def kernel_package(options=()):
    for line in run("apt-cache", *options, "depends", "linux-image-amd64").splitlines():
        found = re.search(r"Depends: (linux-image-[0-9]\S*)", line)
        if found:
            return found.group(1)
    raise Missing("apt knows no linux-image-amd64: apt-get update, and Debian's archive in /etc/apt/sources.list")


def download(cache, package, options=()):
    """The package, unpacked in a directory of the cache."""
    target = cache / package
    if (target / ".complete").exists():
        return target
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    # As root apt lets another user do it, who may not write here; it falls back by itself and says so.
    run("apt-get", *options, "-o", "Acquire::Retries=3", "download", package, cwd=target)
    for archive in target.glob("*.deb"):
        run("dpkg-deb", "-x", archive, target)
        archive.unlink()
    (target / ".complete").touch()
    return target


def elf_kernel(package):
    """The kernel without its compression: QEMU boots the ELF file itself, which saves the guest seconds of unpacking."""
    image = next((package / "boot").glob("vmlinuz-*")).read_bytes()
    # The boot protocol's header: sectors of the real-mode part, then where the payload lies behind it.
    start = ((image[0x1F1] or 4) + 1) * 512
    offset, length = struct.unpack_from("<II", image, 0x248)
    payload = image[start + offset:start + offset + length]
    if payload.startswith(b"\xfd7zXZ\0"):
        kernel = lzma.LZMADecompressor().decompress(payload)
    elif payload.startswith(b"\x1f\x8b"):
        kernel = zlib.decompressobj(31).decompress(payload)
    elif payload.startswith(b"\x28\xb5\x2f\xfd"):
        if shutil.which("zstd") is None:
            raise Missing("no program zstd here: scripts/setup run interop")
        # The length behind the payload is no part of it: zstd complains, and has unpacked it.
        kernel = subprocess.run(["zstd", "-dc"], input=payload, capture_output=True, check=False).stdout
    else:
        raise Missing(f"the kernel's payload is packed in an unknown way ({payload[:6].hex()})")
    if not kernel.startswith(b"\x7fELF"):
        raise Missing("the kernel's payload is no ELF file")
    return kernel


class Modules:
    """The modules of an unpacked kernel package."""

    def __init__(self, package):
        self._paths = {}
        for path in package.glob("**/lib/modules/**/*.ko*"):
            self._paths[self._key(path.name.split(".ko")[0])] = path
        self.order = []

    @staticmethod
    def _key(name):
        return name.replace("-", "_")

    def _content(self, path):
        raw = path.read_bytes()
        return lzma.decompress(raw) if path.suffix == ".xz" else raw

    def add(self, name):
        """Appends (name, content) of the module and, before it, of those it depends on. A module that the kernel has
        built in has no file."""
        path = self._paths.get(self._key(name))
        if path is None or any(self._key(name) == have for have, _ in self.order):
            return
        content = self._content(path)
        depends = re.search(rb"\0depends=([^\0]*)\0", content)
        for other in (depends.group(1).decode().split(",") if depends else []):
            self.add(other)
        self.order.append((self._key(name), content))


class Archive:
    """An initramfs: cpio of the kind "newc", which needs no root to hold devices and root's files."""

    def __init__(self):
        self._parts, self._names, self._inode = [], set(), 0

    def _entry(self, name, mode, content=b"", device=(0, 0)):
        if name in self._names:
            return
        self._names.add(name)
        self._inode += 1
        encoded = name.encode() + b"\0"
        fields = (self._inode, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(encoded), 0)
        header = b"070701" + b"".join(b"%08X" % field for field in fields)
        self._parts.append((header + encoded).ljust(-(-(len(header) + len(encoded)) // 4) * 4, b"\0"))
        self._parts.append(content.ljust(-(-len(content) // 4) * 4, b"\0"))

    def directory(self, name):
        parts = [part for part in name.split("/") if part]
        for count in range(1, len(parts) + 1):
            self._entry("/".join(parts[:count]), stat.S_IFDIR | 0o755)

    def file(self, name, content, mode=0o755):
        self.directory(os.path.dirname(name))
        self._entry(name.strip("/"), stat.S_IFREG | mode, content)

    def link(self, name, target):
        self.directory(os.path.dirname(name))
        self._entry(name.strip("/"), stat.S_IFLNK | 0o777, target.encode())

    def character_device(self, name, major, minor):
        self._entry(name.strip("/"), stat.S_IFCHR | 0o600, device=(major, minor))

    def content(self):
        self._entry("TRAILER!!!", 0)
        return b"".join(self._parts)


def find_program(name):
    path = shutil.which(name, path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    if path is None:
        raise Missing(f"no program {name} here: scripts/setup run interop")
    return pathlib.Path(path)


def libraries_of(path):
    """What the loader would load, the loader itself included; nothing of scripts, data and object files."""
    names = set()
    head = pathlib.Path(path).read_bytes()[:18]
    if head[:4] != b"\x7fELF" or head[16] not in (ET_EXEC, ET_DYN):
        return names
    for line in run("ldd", path).splitlines():
        found = re.search(r"(?:=> )?(/\S+) \(0x", line)
        if found:
            names.add(found.group(1))
    return names


def add_userland(archive, busybox, extra, files):
    """Busybox for everything ordinary, the stock programs, `extra` and `files` with their libraries, rxe's provider."""
    archive.file("bin/busybox", busybox.read_bytes())
    wanted = {path.name: path for path in [*map(find_program, PROGRAMS), *map(pathlib.Path, extra)]}
    for applet in run(busybox, "--list").split():
        if applet not in wanted and applet != "busybox":
            archive.link(f"bin/{applet}", "busybox")
    provider = next(pathlib.Path("/usr/lib/x86_64-linux-gnu/libibverbs").glob("librxe-rdmav*.so"), None)
    if provider is None:
        raise Missing("no provider for rxe here: scripts/setup run interop")
    archive.file(str(provider), provider.read_bytes())
    archive.file("etc/libibverbs.d/rxe.driver", pathlib.Path("/etc/libibverbs.d/rxe.driver").read_bytes(), 0o644)
    # Ending a thread loads libgcc by name.
    libraries = {"/lib/x86_64-linux-gnu/libgcc_s.so.1"}
    for path in [*wanted.values(), provider, *files.values()]:
        libraries |= libraries_of(path)
    for name, path in files.items():
        archive.file(name, pathlib.Path(path).read_bytes())
    for name, path in wanted.items():
        archive.file(f"usr/bin/{name}", path.read_bytes())
    for library in sorted(libraries):
        archive.file(library, pathlib.Path(library).read_bytes())


def initramfs(kernel, busybox, extra, files, wanted):
    archive = Archive()
    for name in ("dev", "proc", "sys", "tmp", "run", "root", "etc"):
        archive.directory(name)
    archive.character_device("dev/console", 5, 1)
    archive.file("init", (HERE / "guest_init.sh").read_bytes())
    archive.file("agent", (HERE / "guest_agent.sh").read_bytes())
    archive.file("etc/hosts", b"127.0.0.1 localhost\n", 0o644)
    archive.file("etc/passwd", b"root:x:0:0:::/bin/sh\n", 0o644)
    modules = Modules(kernel)
    for name in wanted:
        modules.add(name)
    if wanted[-1] not in [name for name, _ in modules.order]:
        raise Missing(f"{kernel.name} has no {wanted[-1]}")
    for name, content in modules.order:
        archive.file(f"modules/{name}.ko", content, 0o644)
    archive.file("modules/order", "".join(f"/modules/{name}.ko\n" for name, _ in modules.order).encode(), 0o644)
    add_userland(archive, busybox, extra, files)
    return archive.content()


def write_changed(path, content):
    """Whole or not at all, and nothing when it is there already."""
    digest = hashlib.sha256(content).hexdigest()
    note = path.with_suffix(".sha256")
    with contextlib.suppress(OSError):
        if path.exists() and note.read_text(encoding="ascii") == digest:
            return
    temporary = path.with_suffix(".new")
    temporary.write_bytes(content)
    temporary.rename(path)
    note.write_text(digest, encoding="ascii")


def locked(cache, work):
    """One at a time in that directory, which is made."""
    cache.mkdir(parents=True, exist_ok=True)
    lock = os.open(cache, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return work()
    finally:
        os.close(lock)


def fetch(cache):
    """(kernel, busybox): what apt brings."""
    return download(cache, kernel_package()), download(cache, "busybox-static")


def make(cache, extra=(), files=None, name="initramfs", modules=tuple(MODULES), release=None):
    """(kernel, initramfs `name`), two files in the directory `cache`. `extra`: programs that go in too; `files`: others,
    by the path they have inside; `modules`: what the kernel loads, the last one a module in any case; `release`: of Debian,
    whose kernel it is, this machine's where None. Raises Missing. Tests that need it at once wait for one that makes it."""
    return locked(cache, lambda: _make(cache, extra, files, name, modules, release))


def _make(cache, extra, files, name, modules, release):
    kernel = release_kernel(cache / release, release) if release else download(cache, kernel_package())
    busybox = download(cache, "busybox-static") / "bin/busybox"
    vmlinux = kernel / "vmlinux"
    if not vmlinux.exists():
        write_changed(vmlinux, elf_kernel(kernel))
    image = cache / name
    write_changed(image, initramfs(kernel, busybox, extra, files or {}, modules))
    return vmlinux, image


if __name__ == "__main__":
    # Before a test, whose time is limited, would have to wait for it: `image.py DIRECTORY`.
    directory = pathlib.Path(sys.argv[1])
    try:
        locked(directory, lambda: fetch(directory))
    except Missing as problem:
        print(f"no kernel for virtual machines: {problem}", file=sys.stderr)
