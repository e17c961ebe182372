"""A small Linux in QEMU, without KVM, and a channel on which commands run in it."""

import base64
import contextlib
import ctypes
import pathlib
import shutil
import signal
import socket
import subprocess
import threading
import time

QEMU = "qemu-system-x86_64"
# It boots in 10 s on an idle machine, and in minutes on a very busy one.
BOOT_PATIENCE_S = 600


# Emulated timers come late on a busy machine: the kernel must not look how well they keep time.
KERNEL_OPTIONS = "console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable no_timer_check"
PR_SET_PDEATHSIG = 1


def die_with_parent():
    """For a child before it runs its program: it is killed when the thread that made it ends, however that comes."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class GuestError(Exception):
    """The guest does not do what it is for; the text has its console."""


class Command:
    """One that runs in the guest."""

    def __init__(self):
        self._done = threading.Event()
        self.status, self.output = None, ""

    def end(self, status, output):
        self.status, self.output = status, output
        self._done.set()

    def ended(self):
        return self._done.is_set()

    def wait(self, timeout):
        return self._done.wait(timeout)


class Guest:
    """`netdev`: what stands behind QEMU's -netdev, with the id "net". `devices`: further arguments of QEMU's. `cpu`: its -cpu. `counts`: its
    clock counts instructions, 1 ns each, and leaps while it has nothing to do; with one processor only."""

    def __init__(self, kernel, initramfs, directory, netdev, mac, arguments, cpus=1, memory_mb=384, devices=(), cpu="max",
                 counts=False):
        self._console_path = pathlib.Path(directory) / "console.log"
        path = pathlib.Path(directory) / "agent.sock"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen(1)
            offloads = ",".join(f"{name}=off" for name in (
                "csum", "gso", "guest_csum", "guest_tso4", "guest_tso6", "guest_ufo", "host_tso4", "host_tso6", "host_ufo"))
            command = [
                QEMU, "-accel", f"tcg,thread={'single' if counts else 'multi'},tb-size=128",
                *(["-icount", "shift=0,sleep=off"] if counts else []), "-cpu", cpu, "-M", "q35", "-smp", str(cpus),
                "-m", str(memory_mb), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
                "-serial", f"file:{self._console_path}", "-kernel", str(kernel), "-initrd", str(initramfs),
                "-append", " ".join([KERNEL_OPTIONS, *arguments]),
                "-netdev", netdev, "-device", f"virtio-net-pci,netdev=net,romfile=,mac={mac},{offloads}",
                "-device", "virtio-rng-pci", "-device", "virtio-serial-pci",
                "-chardev", f"socket,id=agent,path={path}", "-device", "virtserialport,chardev=agent,name=urnic.agent",
                *devices]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                             stderr=subprocess.STDOUT, text=True, preexec_fn=die_with_parent)
            listener.settimeout(BOOT_PATIENCE_S)
            try:
                self._channel = listener.accept()[0]
            except OSError as error:
                self.close()
                raise GuestError(f"{QEMU} did not start: {self.console()}") from error
        self._commands, self._lock, self._last = {0: Command()}, threading.Lock(), 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._commands[0].wait(BOOT_PATIENCE_S):
            self.close()
            raise GuestError(f"the guest did not boot: {self.console()}")

    def _read(self):
        with contextlib.suppress(OSError, ValueError), self._channel.makefile("rb") as lines:
            for line in lines:
                number, status, output = line.rstrip(b"\n").split(b" ", 2)
                with self._lock:
                    command = self._commands.get(int(number))
                if command is not None:
                    command.end(int(status), base64.b64decode(output).decode(errors="replace"))
        with self._lock:
            for command in self._commands.values():
                if not command.ended():
                    command.end(None, "the guest is gone")

    def start(self, text, seconds):
        """Runs a shell command in the guest; it is ended there after `seconds`."""
        command = Command()
        with self._lock:
            self._last += 1
            self._commands[self._last] = command
            number = self._last
        line = b"%d %d %s\n" % (number, seconds, base64.b64encode(text.encode()))
        self._channel.sendall(line)
        return command

    def run(self, text, seconds=30):
        """The output of a shell command, which must succeed."""
        command = self.start(text, seconds)
        if not command.wait(seconds + 30) or command.status != 0:
            raise GuestError(f"in the guest: {text}: status {command.status}: {command.output}\n{self.console()}")
        return command.output

    def console(self):
        """What the kernel and init said."""
        with contextlib.suppress(OSError):
            return self._console_path.read_text(errors="replace")
        return ""

    def close(self):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        with contextlib.suppress(AttributeError, OSError):
            self._channel.close()


def installable():
    """Whether QEMU is here. `scripts/interop` has tried to install it."""
    return shutil.which(QEMU) is not None


def wait_until(condition, seconds, pause=0.02):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(pause)
    return False
