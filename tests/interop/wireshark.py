"""What tshark says of the captures: nothing may be malformed, but for its own known mistakes, each with its reason."""

import subprocess

ERROR = 0x800000
# tshark guesses protocols from the first bytes of a payload; ours is a pattern, and belongs to none of these.
GUESSED = ("rpcordma", "smb_direct", "iser", "nvme-rdma", "isns")
ZERO_BYTES = {0x04: 0, 0x05: 4, 0x24: 0, 0x25: 4, 0x64: 8, 0x65: 12, 0x0A: 16, 0x0B: 20, 0x2A: 16, 0x2B: 20}
# (beginning of the message, of what (opcode, bytes of payload) it is said wrongly, why it is no error of the packet)
KNOWN = (
    ("Malformed Packet", lambda opcode, payload: opcode in ZERO_BYTES and payload == 0,
     "tshark takes a message of zero bytes for a cut one"),
    ("Illegal checksum value (0)", lambda opcode, payload: True,
     "UDP over IPv6 without a checksum is allowed to tunnels (RFC 6935), RoCEv2 has its ICRC, and rxe sends it so"),
)
FIELDS = ("frame.number", "infiniband.bth.opcode", "udp.length", "_ws.expert.message", "_ws.malformed")
# UDP, BTH and ICRC, around what the opcode's own headers and the payload are.
AROUND = 8 + 12 + 4
# Between several values of a field.
AND = "\x1f"


def known(opcode, length, message):
    payload = length - AROUND - ZERO_BYTES.get(opcode, 0)
    return any(message.startswith(begin) and holds(opcode, payload) for begin, holds, _ in KNOWN)


def frames_in(path):
    output = subprocess.run(["capinfos", "-c", "-M", "-T", "-r", path], capture_output=True, text=True, check=True).stdout
    return int(output.split()[-1])


def complaints(captures):
    """(which run, what) for each packet that tshark finds wrong. `captures`: (which run, path). One tshark reads all:
    it takes longer to start than to read one of them."""
    if not captures:
        return
    paths = [path for _, path in captures]
    merged = paths[0].parent / "all.pcap"
    subprocess.run(["mergecap", "-a", "-F", "pcap", "-w", merged, *paths], check=True, capture_output=True)
    owners = [name for name, path in captures for _ in range(frames_in(path))]
    guesses = [word for name in GUESSED for word in ("--disable-protocol", name)]
    command = ["tshark", "-n", "-r", merged, *guesses, "-Y", f"_ws.malformed or _ws.expert.severity >= {ERROR}",
               "-T", "fields", "-E", "separator=\t", "-E", "occurrence=a", "-E", f"aggregator={AND}",
               *[word for field in FIELDS for word in ("-e", field)]]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        yield owners[0], f"does not read the captures: {result.stderr.strip()}"
    for line in result.stdout.splitlines():
        number, opcode, length, message, malformed = line.split("\t")
        messages = [text for text in (message + AND + malformed).split(AND) if text]
        if opcode and length:
            messages = [text for text in messages if not known(int(opcode.split(AND)[0], 0), int(length.split(AND)[0]), text)]
        if messages or not (opcode and length):
            yield owners[int(number) - 1], f"frame {number} of {merged.name}, opcode {opcode or 'none'}: {messages}"
