"""The guest as an NFS host: its kernel's own NFS/RDMA server and client, and the stock programs around them.

Nothing of Debian's NFS packages is installed here, because they start services: they are unpacked beside the kernel.
"""

import pathlib
import time

import harness
import image

CACHE = harness.BUILD / "interop"
LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")
# rpcrdma is both sides of the transport.
MODULES = [*image.MODULES, "nfsv3", "nfsd", "rpcrdma"]
# {program: Debian package that has it}
PROGRAMS = {"mount.nfs": "nfs-common", "rpc.mountd": "nfs-kernel-server", "exportfs": "nfs-kernel-server",
            "rpc.nfsd": "nfs-kernel-server", "rpcbind": "rpcbind", "tcc": "tcc", "make": "make"}
# What an ordinary C program is linked with, for tcc.
LINKED_WITH = ("crt1.o", "crti.o", "crtn.o")
# The initramfs lies in memory, and so does what is exported.
MEMORY_MB = 1024
EXPORT, MOUNTPOINT = "/export", "/mnt"
# Our client and server inside, with our library, over rxe.
OURS_AT = "/opt/urnic"
OURS = {"nfs_client": "tests/interop/nfs_client", "nfs_server": "tests/interop/nfs_server", "rpcrdma_check": "tests/e2e/rpcrdma_check",
        "liburnic-rpcrdma.so.0": "ulp/rpcrdma/liburnic-rpcrdma.so.0"}
CLIENT, SERVER, CHECK = (f"LD_LIBRARY_PATH=$LD_LIBRARY_PATH:{OURS_AT} {OURS_AT}/{name}"
                         for name in ("nfs_client", "nfs_server", "rpcrdma_check"))
OUR_NFS_PORT, OUR_TCP_PORT = 20051, 2051
NFS_PORT, MOUNT_PORT, TCP_PORT = 20049, 20048, 2049
# Words of the kernel that a run must not leave.
COMPLAINTS = ("rpcrdma", "svcrdma", "xprtrdma", "rdma_rxe", "not responding", "BUG", "WARNING", "Call Trace", "nfsd: ")


def _program_in(package, name):
    for folder in ("sbin", "usr/sbin", "usr/bin", "bin"):
        path = package / folder / name
        if path.is_file():
            return path
    raise image.Missing(f"{package.name} has no {name}")


def make():
    """(kernel, initramfs). Raises image.Missing."""
    packages = {name: image.download(CACHE, name) for name in {*PROGRAMS.values(), "libwrap0"}}
    extra = [_program_in(packages[package], name) for name, package in PROGRAMS.items()]
    extra += [image.find_program(name) for name in ("git", "fio")]
    files = {str(LIBRARIES / "libwrap.so.0"): next(packages["libwrap0"].glob("**/libwrap.so.0.*"))}
    files[str(LIBRARIES / "tcc/libtcc1.a")] = packages["tcc"] / "usr/lib/x86_64-linux-gnu/tcc/libtcc1.a"
    files.update({str(LIBRARIES / name): LIBRARIES / name for name in LINKED_WITH})
    files.update({name: pathlib.Path(name) for name in ("/etc/netconfig", "/etc/protocols", "/etc/services")})
    files.update({f"{OURS_AT}/{name}": harness.BUILD / path for name, path in OURS.items()})
    return image.make(CACHE, extra, files, "initramfs-nfs", MODULES)


# What an installed system has. tcc looks for the C library and the loader where libraries for linking lie.
SET_UP = f"""set -e
mkdir -p {EXPORT} {MOUNTPOINT} /var/lib/nfs/v4recovery /run/rpcbind
ln -s /proc/mounts /etc/mtab
ln -s /lib/x86_64-linux-gnu/libc.so.6 {LIBRARIES}/libc.so
ln -s /lib64/ld-linux-x86-64.so.2 {LIBRARIES}/ld-linux-x86-64.so.2
ln -s git /usr/bin/git-upload-pack
echo root:x:0: >/etc/group
echo _rpc:x:100:65534::/run/rpcbind:/bin/false >>/etc/passwd
git config --global user.name guest
git config --global user.email guest@localhost
git config --global init.defaultBranch main
git config --global safe.directory '*'
"""
# Blocks of 1 MB are what nfsd takes on a host with more memory by itself.
SERVE = f"""set -e
mount -t tmpfs -o size=512m export {EXPORT}
mount -t nfsd nfsd /proc/fs/nfsd
touch /var/lib/nfs/etab /var/lib/nfs/rmtab /var/lib/nfs/state
echo '{EXPORT} *(rw,fsid=0,no_root_squash,no_subtree_check,async,insecure)' >/etc/exports
rpcbind
exportfs -r
rpc.mountd --port {MOUNT_PORT} --no-nfs-version 4
echo 1048576 >/proc/fs/nfsd/max_block_size
rpc.nfsd --rdma={NFS_PORT} --no-nfs-version 4 8
grep 'rdma {NFS_PORT}' /proc/fs/nfsd/portlist
"""


class NfsHost:
    """`guest`: one that make() made."""

    def __init__(self, guest):
        self._guest = guest
        self._lines_read = 0
        # File times of both sides are compared.
        self.run(f"date -s @{time.time():.0f}; {SET_UP}")

    def run(self, text, seconds=60):
        """The output of a shell command, which must succeed."""
        return self._guest.run(text, seconds)

    def serve(self):
        self.run(SERVE)
        self.complaints()  # what was said until here is about the machine

    def mount(self, address, options):
        """Mounts a server's /export by its own client; returns what /proc/mounts says of it."""
        self.run(f"mount.nfs {address}:{EXPORT} {MOUNTPOINT} -o vers=3,nolock,{options}", 120)
        return self.run(f"grep ' {MOUNTPOINT} nfs ' /proc/mounts").strip()

    def unmount(self):
        self.run(f"umount {MOUNTPOINT}", 120)

    def sum_of(self, path):
        return self.run(f"sha256sum {path}", 120).split()[0]

    def complaints(self):
        """What the kernel said since this was asked before that it says when something is wrong."""
        lines = self.run("dmesg").splitlines()
        new, self._lines_read = lines[self._lines_read:], len(lines)
        return [line for line in new if any(word in line for word in COMPLAINTS)]
