#!/usr/bin/python3
"""Checks what the compiler cannot: the length of files and functions, which room may include what, and names taken over for nothing."""

import os
import pathlib
import re
import sys

MAX_LINES = 500
MAX_FUNCTION_LINES = 70
NOT_CODE = re.compile(r'//.*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])+\'')
NO_FUNCTION = re.compile(r"\b(namespace|struct|class|union|enum|extern)\b|=[^{]*\{")
# A name that a source takes over for itself. clang-tidy reads many sources as one, and takes the use in another for one.
TAKEN_OVER = re.compile(r"^using (?:\w+::)+(\w+);|^namespace (\w+) = ")
INCLUDE = re.compile(r'^\s*#\s*include\s+[<"]([^>"]+)[>"]')

# Every folder of the sources, lowest first: a folder includes from itself and from folders above it in this list, so there is no
# cycle between folders. docs/architecture.md says what lives in each.
FOLDERS = """
base
os
toml
abi
congestion
rnic/mem rnic/wire/crc rnic/wire rnic/wire/mad rnic/wire/dissect/eth rnic/wire/dissect/ib rnic/wire/dissect/ipoib rnic/wire/dissect
rnic/queue rnic/device rnic/fault rnic/neighbour rnic/qp rnic/qp/rc rnic/qp/unreliable rnic/cm rnic/subnet
netsim/switch netsim/topology netsim/network netsim/infiniband
dataplane/port dataplane/port/kernel dataplane/handoff dataplane/device dataplane/wire dataplane/worker
verbs_provider/memory verbs_provider/core verbs_provider/datapath verbs_provider/interpose verbs_provider/verbs verbs_provider/shim
ulp/rpcrdma/codec ulp/rpcrdma/engine ulp/rpcrdma/include/urnic ulp/rpcrdma/verbs ulp/rpcrdma/onc
ulp/ipoib/codec ulp/ipoib/engine ulp/ipoib/tap ulp/ipoib/verbs ulp/ipoib
observe/trace observe/view
daemon/config daemon/state daemon/neighbour daemon/ipc daemon/http daemon/cm daemon/verbs daemon/control daemon/subnet daemon
cli/decode cli
experiment
conform/case conform/cases conform/live conform/live_cases conform/cm conform/cm_cases conform/port conform
""".split()
ROOMS = {folder.split("/")[0] for folder in FOLDERS}
LEVEL = {folder: level for level, folder in enumerate(FOLDERS)}
# What a room may include of others, where the order alone would allow more.
MAY_USE = {
    "os": {"base"},
    "toml": {"base"},
    "abi": {"base"},
    "congestion": {"base"},
    "rnic": {"base", "abi", "congestion"},
    "netsim": {"base"},
    "verbs_provider": {"base", "abi"},
    "observe": {"base", "abi", "rnic"},
    # Its page shows QPs as urnic view does.
    "daemon": {"base", "os", "toml", "abi", "congestion", "rnic", "netsim", "dataplane", "observe"},
    # Programs on stock libibverbs, on any RDMA device: nothing of this RNIC.
    "ulp": {"ulp"},
    "cli": {"base", "os", "abi", "rnic", "ulp", "observe"},
    "conform": {"base", "os", "abi", "rnic"},
    # Its main writes the traces of urnic trace.
    "experiment": {"base", "toml", "abi", "congestion", "rnic", "netsim", "observe"},
}
# Pure: no operating system, no clock, no thread, no DPDK.
PURE = ("base", "congestion", "rnic", "netsim", "ulp/rpcrdma/codec", "ulp/rpcrdma/engine",
        "ulp/ipoib/codec", "ulp/ipoib/engine", "conform/case", "conform/cases", "conform/live",
        "conform/live_cases", "conform/cm", "conform/cm_cases")
IMPURE_HEADER = re.compile(r"^(sys/|linux/|net/|arpa/|infiniband/|rte_|fmt/)|^(unistd|pthread|fcntl|poll|time|signal|dlfcn)\.h$"
                           r"|^(thread|chrono|mutex|condition_variable|ctime|csignal|iostream|fstream|future)$")
# base/json_writer.h prints by fmt, for rooms that are not pure.
MAY_FORMAT = {"base/json_writer.h"}
# A program of whatever room reads its command line.
COMMAND_LINE = "os/command_line.h"
DPDK = re.compile(r"^rte_")


def wrong_include(path, header):
    """Why this source may not include that header; None: it may."""
    folder = os.path.dirname(path)
    if folder not in LEVEL:
        return None
    room = folder.split("/")[0]
    if (room in PURE or folder in PURE) and IMPURE_HEADER.search(header) and path not in MAY_FORMAT:
        return f"{folder}/ is pure: the standard library, without clocks, threads and streams"
    if room != "dataplane" and DPDK.search(header):
        return "DPDK is for dataplane/ alone"
    if header == COMMAND_LINE and os.path.basename(path) == "main.cc":
        return None
    other = os.path.dirname(header)
    if other not in LEVEL:
        return None
    other_room = other.split("/")[0]
    if other_room not in MAY_USE.get(room, {other_room}) | {room}:
        return f"{room}/ may use {', '.join(sorted(MAY_USE[room]))} alone"
    if LEVEL[other] > LEVEL[folder]:
        return f"{folder}/ is below {other}/ (FOLDERS in scripts/check_layers.py)"
    return None


def long_functions(path, lines):
    """Blocks of too many lines between their braces that are neither types nor tables."""
    open_blocks = []
    for number, line in enumerate(lines, 1):
        code = NOT_CODE.sub("", line)
        for character in code:
            if character == "{":
                open_blocks.append((number, code))
            elif character == "}" and open_blocks:
                start, head = open_blocks.pop()
                length = number - start - 1
                if length > MAX_FUNCTION_LINES and not NO_FUNCTION.search(head):
                    yield f"{path}:{start}: a block of {length} lines; split it, a function has at most {MAX_FUNCTION_LINES}"


def unused_names(path, lines):
    code = [NOT_CODE.sub("", line) for line in lines]
    for number, line in enumerate(code, 1):
        found = TAKEN_OVER.match(line)
        name = found and (found.group(1) or found.group(2))
        if name and not any(re.search(rf"\b{name}\b", other) for at, other in enumerate(code, 1) if at != number):
            yield f"{path}:{number}: {name} is not used here; leave the line out"


def problems(path):
    text = pathlib.Path(path).read_text(encoding="utf-8")
    lines = text.splitlines()
    if len(lines) >= MAX_LINES:
        yield f"{path}: {len(lines)} lines; split it, a file has fewer than {MAX_LINES}"
    if path.endswith((".h", ".cc")):
        yield from long_functions(path, lines)
    if path.endswith(".cc"):
        yield from unused_names(path, lines)
    for number, line in enumerate(lines, 1):
        found = INCLUDE.match(line)
        why = wrong_include(path, found.group(1)) if found else None
        if why:
            yield f"{path}:{number}: includes {found.group(1)}: {why}"


def rooms_without_tidy():
    """clang-tidy looks at the headers of rooms that .clang-tidy names, and leaves others out without a word."""
    settings = pathlib.Path(__file__).resolve().parent.parent / ".clang-tidy"
    names = re.search(r"^HeaderFilterRegex: '(.*)'$", settings.read_text(encoding="utf-8"), re.MULTILINE)[1]
    for room in sorted(ROOMS):
        if not re.fullmatch(names, f"/{room}/a.h"):
            yield f".clang-tidy: HeaderFilterRegex leaves out {room}/; add it"


def main():
    found = [problem for path in sys.argv[1:] for problem in problems(path)] + list(rooms_without_tidy())
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
