"""What tshark says of the captures: nothing may be malformed, but for its own known mistakes, each with its reason."""

import subprocess

ERROR = 0x800000
# tshark guesses a protocol from the first bytes of a payload; ours is a pattern, and belongs to none of these.
GUESSED = ("fcoib", "infiniband.eoib", "infiniband_sdp", "iser", "idp", "lnet", "nvme-rdma", "rpcordma", "smb_direct", "smc")
# (message, why it is no error of the packet)
KNOWN = {
    "Illegal checksum value (0)":
        "UDP over IPv6 without a checksum is allowed to tunnels (RFC 6935), RoCEv2 has its ICRC, and rxe sends it so",
}
# A payload that begins as IP over InfiniBand does, with an EtherType and zeros, is taken for that in any QP, and what
# follows for such a packet. That is no part of the packet: its headers end before.
GUESSED_LAYERS = ":infiniband:ethertype"
FIELDS = ("frame.number", "infiniband.bth.opcode", "frame.protocols", "_ws.expert.message")
# NFS; NFS_ACL, which Linux asks for.
NFS_PROGRAMS = ("100003", "100227")
# NFS messages that tshark takes for malformed: data of a READ that went by RDMA WRITE, which it looks for in the reply (between two
# Linux kernels, too); and a Reply chunk of several WRITEs, the last of which it puts over the ones before.
MISUNDERSTOOD_NFS = ("(nfs.procedure_v3 == 6 && rpc.msgtyp == 1 && rpcordma.writes_count > 0)"
                     " || rpcordma.fragment.overlap.conflicts == 1")
# Between several values of a field.
AND = "\x1f"


def frames_in(path):
    output = subprocess.run(["capinfos", "-c", "-M", "-T", "-r", path], capture_output=True, text=True, check=True).stdout
    return int(output.split()[-1])


def complaints(captures, guessed_rightly=(), but_for=""):
    """(which run, what) for each packet that tshark finds wrong. `captures`: (which run, path). One tshark reads all:
    it takes longer to start than to read one of them. `guessed_rightly`: of GUESSED what the payload is; `but_for`: a
    filter of packets whose payload tshark is known not to understand."""
    if not captures:
        return
    paths = [path for _, path in captures]
    merged = paths[0].parent / "all.pcap"
    subprocess.run(["mergecap", "-a", "-F", "pcap", "-w", merged, *paths], check=True, capture_output=True)
    owners = [name for name, path in captures for _ in range(frames_in(path))]
    guesses = [word for name in GUESSED if name not in guessed_rightly for word in ("--disable-protocol", name)]
    exception = f" and not ({but_for})" if but_for else ""
    command = ["tshark", "-n", "-r", merged, *guesses, "-Y", f"(_ws.malformed or _ws.expert.severity >= {ERROR}){exception}",
               "-T", "fields", "-E", "separator=\t", "-E", "occurrence=a", "-E", f"aggregator={AND}",
               *[word for field in FIELDS for word in ("-e", field)]]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        yield owners[0], f"does not read the captures: {result.stderr.strip()}"
    for line in result.stdout.splitlines():
        number, opcode, layers, text = line.split("\t")
        if GUESSED_LAYERS in layers:
            continue
        messages = text.split(AND)
        if not all(message in KNOWN for message in messages):
            yield owners[int(number) - 1], f"frame {number} of {merged.name}, {layers}, opcode {opcode or 'none'}: {messages}"


def nfs_messages(path):
    """({kind of message: how many} of NFS by RPC-over-RDMA, what tshark cannot make sense of)."""
    guesses = [word for name in GUESSED if name != "rpcordma" for word in ("--disable-protocol", name)]
    fields = ("frame.number", "_ws.malformed", "rpc.program", "rpcordma.reads_count", "rpcordma.writes_count", "rpcordma.reply_count")
    result = subprocess.run(["tshark", "-n", "-r", path, *guesses, "-Y", f"rpcordma && !({MISUNDERSTOOD_NFS})", "-T", "fields",
                             *[word for field in fields for word in ("-e", field)]], capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    kinds = {"messages": len(rows)}
    for column, kind in ((3, "with Read chunks"), (4, "with Write chunks"), (5, "with a Reply chunk")):
        kinds[kind] = sum(row[column] not in ("", "0") for row in rows)
    # A Call whose data were read by RDMA has no RPC layer of its own.
    wrong = [f"frame {row[0]}" for row in rows if row[1] or (row[2] not in NFS_PROGRAMS and row[3] in ("", "0"))]
    return kinds, wrong
