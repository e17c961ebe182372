"""A guest with NICs on its PCI bus that DPDK drives, an urnicd for each, and QEMU's monitor to pull cables and cards."""

import json
import pathlib
import shlex
import socket

import guest as guests
import harness
import image
import network
import sides

SLOT = "0000:{bus:02x}:00.0"
# An IOMMU, as vfio wants one; QEMU's own RSS, which no kernel takes part in.
VIRTIO = "virtio-net-pci,mq=on,rss=on,vectors=8,rx_queue_size=1024,iommu_platform=on,disable-legacy=on"
DRIVERS = ("net_virtio", "net_e1000", "mempool_ring")
MODULES = ("virtio_pci", "virtio_net", "virtio_console", "virtio_rng", "vfio", "vfio_virqfd", "vfio_iommu_type1", "vfio_pci")
URNIC = "/opt/urnic/urnic"


class Nic:
    """One on the PCI bus, and the RNIC on it. `model`: QEMU's -device; `queues`: of the tap behind it."""

    def __init__(self, bus, name, model, queues, mac, ipv4, ipv6, workers):
        self.bus, self.name, self.model, self.queues, self.workers = bus, name, model, queues, workers
        self.mac, self.ipv4, self.ipv6 = mac, ipv4, ipv6
        self.address = SLOT.format(bus=bus)

    def devices(self):
        tap = f"tap,id={self.name},ifname={self.name},script=no,downscript=no" + (f",queues={self.queues}" if self.queues > 1 else "")
        return ["-device", f"pcie-root-port,id=port{self.bus},chassis={self.bus}", "-netdev", tap,
                "-device", f"{self.model},id={self.name},bus=port{self.bus},netdev={self.name},mac={self.mac},romfile="]

    def configuration(self):
        return "\n".join(["[daemon]", f'run_dir = "/run/{self.name}"', f"workers = {self.workers}", "hugepages = false",
                          "[[rnic]]", 'name = "urnic0"', 'port = "pci"', f'device = "{self.address}"', "mtu = 4096",
                          f'ipv4 = "{self.ipv4}/24"', f'ipv6 = "{self.ipv6}/64"', ""])

    def set_up_tap(self):
        network.ip("tuntap", "add", "dev", self.name, "mode", "tap", *(["multi_queue"] if self.queues > 1 else []))
        network.ip("link", "set", self.name, "addrgenmode", "none")
        network.ip("link", "set", self.name, "mtu", network.MTU, "master", "switch", "up")


class Monitor:
    """QEMU's QMP."""

    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(harness.PATIENCE_S)
        self._socket.connect(str(path))
        self._lines = self._socket.makefile("r")
        self._events = []
        self._lines.readline()
        self.ask("qmp_capabilities")

    def _next(self):
        return json.loads(self._lines.readline())

    def ask(self, command, **arguments):
        self._socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while True:
            answer = self._next()
            if "event" in answer:
                self._events.append(answer)
            elif "error" in answer:
                raise guests.GuestError(f"QEMU: {command}: {answer['error']}")
            else:
                return answer["return"]

    def wait_for_deletion(self, device):
        """Until the guest has let go of it."""
        while not any(event["event"] == "DEVICE_DELETED" and event["data"].get("device") == device for event in self._events):
            self._events.append(self._next())

    def features(self, device):
        """The names of what QEMU and the driver have agreed on."""
        status = self.ask("x-query-virtio-status", path=f"/machine/peripheral/{device}/virtio-backend")
        return {text.split(":")[0] for text in status["guest-features"]["dev-features"]}

    def received(self, device, queue):
        """How many buffers of that receive queue QEMU has filled, modulo 65536."""
        return self.ask("x-query-virtio-queue-status", path=f"/machine/peripheral/{device}/virtio-backend",
                        queue=2 * queue)["used-idx"]

    def close(self):
        self._lines.close()
        self._socket.close()


def daemon_files(drivers):
    """urnicd, what programs over it need, and those drivers of DPDK's, by the path inside."""
    files = {f"/opt/urnic/{name}": harness.BUILD / name for name in (
        "urnic", "urnicd", "verbs_provider/liburnic-rdmav34.so", "verbs_provider/liburnic-discovery.so")}
    # DPDK loads what lies in its directory, each file once: under the name of its release alone.
    for path in pathlib.Path("/usr/lib/x86_64-linux-gnu/dpdk").glob("pmds-*/librte_*.so.*.*"):
        if path.name.split(".so")[0].removeprefix("librte_") in drivers:
            files[str(path)] = path
    return files


def make_image(directory, nics):
    """Kernel and initramfs of the guest, with the RNICs' configurations. What is missing is loaded by apt, which has to be as in no user
    namespace. Raises image.Missing."""
    files = daemon_files(DRIVERS)
    files["/opt/urnic/peer"] = sides.PEER_PROGRAM
    for nic in nics:
        config = pathlib.Path(directory) / f"{nic.name}.toml"
        config.write_text(nic.configuration(), encoding="ascii")
        files[f"/opt/urnic/{config.name}"] = config
    return image.make(harness.BUILD / "interop", ["/usr/bin/ibv_asyncwatch"], files, "initramfs-pci", MODULES)


class Machine:
    """The guest, and an urnicd in it for each NIC that is to have one. `kernel`, `initramfs`: make_image() of all NICs."""

    def __init__(self, directory, kernel, initramfs, served, idle=()):
        # The kernel numbers the buses in their order.
        nics = sorted([*served, *idle], key=lambda nic: nic.bus)
        monitor = pathlib.Path(directory) / "monitor.sock"
        arguments = [*network.guest_arguments(), "intel_iommu=on", "urnic.vfio=" + ",".join(nic.address for nic in nics)]
        self.guest = guests.Guest(kernel, initramfs, directory, "tap,id=net,ifname=guest,script=no,downscript=no",
                                  network.PEER_MAC, arguments, cpus=2, memory_mb=1024,
                                  devices=["-device", "intel-iommu", "-qmp", f"unix:{monitor},server=on,wait=off",
                                           *[word for nic in nics for word in nic.devices()]])
        try:
            self.monitor = Monitor(monitor)
            # DPDK wants a /var/run, and loads nothing from below a directory that everybody may write, as / is here.
            self.guest.run("mkdir -p /var/run && chmod 755 / && /usr/bin/ip route add 224.0.0.0/4 dev eth0")
            for nic in served:
                self._serve(nic)
        except BaseException:
            self.guest.close()
            raise

    def _serve(self, nic):
        # What the daemon says must not hold the channel.
        self.guest.start(f"/opt/urnic/urnicd --config /opt/urnic/{nic.name}.toml >/tmp/{nic.name}.log 2>&1", 86400)
        ready = self.guest.start(f"until {URNIC} status --socket /run/{nic.name} >/dev/null 2>&1; do usleep 100000; done", 120)
        if not ready.wait(150) or ready.status != 0:
            raise guests.GuestError(f"urnicd does not run in the guest: {self.log(nic)}")

    def log(self, nic):
        return self.guest.run(f"cat /tmp/{nic.name}.log")

    def device(self, nic):
        """What `urnic status` says of its RNIC."""
        return json.loads(self.guest.run(f"{URNIC} status --json --socket /run/{nic.name}"))["devices"][0]

    def close(self):
        self.monitor.close()
        self.guest.close()


class OnPci(sides.Side):
    """Programs in the guest, over the RNIC of one of its NICs."""

    name, address = "pci", network.PEER_IPV4

    def __init__(self, machine, nic):
        super().__init__()
        self._guest, self._nic = machine.guest, nic

    def device(self, kind):
        return "urnic0"

    def words(self, text):
        words = shlex.split(text)
        program = "/opt/urnic/peer" if words[0] == "peer" else words[0]
        return f"{URNIC} run --socket /run/{self._nic.name} -- {shlex.join([program, *words[1:]])}"

    def start(self, text, seconds):
        command = self._guest.start(f"exec {self.words(text)}", seconds)
        name = shlex.split(text)[0]
        command.stop = lambda: self._guest.run(f"killall -q {name} || true")
        return command

    def listens(self, port, seconds):
        waits = f"until grep -q ':{port:04X} [0-9A-F:]* 0A ' /proc/net/tcp /proc/net/tcp6; do usleep 5000; done"
        command = self._guest.start(waits, seconds)
        return command.wait(seconds + 5) and command.status == 0
