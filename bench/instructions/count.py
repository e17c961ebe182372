#!/usr/bin/python3
"""Counts the instructions that a message costs, and compares them with figures.json.

Two RC engines in one thread (bench/engines), under valgrind's callgrind: posted, fetched, built, checked, executed,
acknowledged, completed and polled. Callgrind shows every program the same CPU, one without VPCLMULQDQ and AVX-512, so
that neither the machine nor what else runs on it changes the count; the CRC is the PCLMULQDQ variant's, everywhere.
The compiler does change it: figures hold for the compiler named in them, at the release build's options.

Exit status: 0 within the room, 1 too many, 77 the figures are another compiler's.
`scripts/bench instructions --renew` writes the figures anew, after a change that is meant to cost more, or that costs less;
`--parts` prints which part of a message has how many.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
FIGURES = pathlib.Path(__file__).with_name("figures.json")
ROOM = 0.10
SKIP = 77
MESSAGES = 3200
# name: operation, bytes, posted at once
CASES = {
    "64 B WRITE, 32 at once": ("write", 64, 32),
    "4 KB WRITE, 32 at once": ("write", 4096, 32),
    "8 B WRITE, alone": ("write", 8, 1),
    "64 B SEND, 32 at once": ("send", 64, 32),
    "8 B READ, 16 at once": ("read", 8, 16),
    "8 B FETCH_ADD, 16 at once": ("add", 8, 16),
    "64 B WRITE, 32 at once, DCQCN at the full rate": ("write-dcqcn", 64, 32),
    # With histograms of messages (docs/adr/0029); without them nothing is different from the first cases.
    "64 B WRITE, 32 at once, histograms": ("write-measured", 64, 32),
    "8 B WRITE, alone, histograms": ("write-measured", 8, 1),
    "8 B READ, 16 at once, histograms": ("read-measured", 8, 16),
    # Within a worker, where packets are no frames (docs/adr/0035).
    "64 B WRITE, 32 at once, no frames": ("write-local", 64, 32),
    "4 KB WRITE, 32 at once, no frames": ("write-local", 4096, 32),
    "64 KB WRITE, 2 at once, no frames": ("write-local", 65536, 2),
    "64 B SEND, 32 at once, no frames": ("send-local", 64, 32),
    "8 B READ, 16 at once, no frames": ("read-local", 8, 16),
}


# A part of a message, and what its functions are called; the first that fits.
PARTS = {
    "frames built, with CRC": r"build_frame|headed<true>|headed_copy",
    "frames parsed": r"parse",
    "ICRC checked": r"icrc_ok|headed<false>|headed_update",
    "requester": r"RcRequester::|SendQueue::",
    "responder": r"RcResponder::|ResponseQueue::|RecvQueue::|execute_atomic|AtomicReplayCache::",
    "completer": r"RcCompleter::|RcSendState::|RcLossRecovery::|RttEstimator::",
    "memory keys": r"KeyTable::|may_write_all",
    "payload copied": r"copy_payload|scatter|gather",
    "CQEs": r"CompletionQueue::",
    "QP": r"RcQp::",
    "the benchmark's own": r"",
}


class Failure(Exception):
    """Something a person has to know; printed without a traceback."""


def by_part(callgrind):
    """Instructions of each part, of callgrind's file."""
    names, found, part, is_call = {}, dict.fromkeys(PARTS, 0), None, False
    for line in callgrind.splitlines():
        if begin := re.match(r"(c?)fn=\((\d+)\)(?: (.*))?$", line):
            name = names.setdefault(begin[2], begin[3])
            if not begin[1]:
                part = next(part for part, pattern in PARTS.items() if re.search(pattern, name))
        elif line.startswith("calls="):
            is_call = True
        elif part is not None and (cost := re.match(r"[+*\-\d]\S* (\d+)$", line)):
            # What stands behind a call is the callee's.
            found[part] += 0 if is_call else int(cost[1])
            is_call = False
    return found


def count(program, case):
    """Instructions a message, by part too, and what the program said of itself."""
    operation, size, batch = CASES[case]
    batches = MESSAGES // batch
    with tempfile.TemporaryDirectory(prefix="urnic-instructions-") as directory:
        out = pathlib.Path(directory, "callgrind.out")
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--collect-atstart=no",
                   "--toggle-collect=measured_messages", str(program), operation, str(size), str(batch), str(batches)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode != 0:
            raise Failure(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
        text = out.read_text(encoding="utf-8")
        total = re.search(r"^(?:totals|summary): (\d+)", text, re.MULTILINE)
    if total is None or int(total.group(1)) == 0:
        raise Failure(f"{' '.join(command)} counted nothing: is measured_messages() still a function of its own?")
    messages = batch * batches
    return int(total.group(1)) / messages, {part: own / messages for part, own in by_part(text).items()}, json.loads(done.stdout)


def count_all(program):
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        counted = dict(zip(CASES, pool.map(lambda case: count(program, case), CASES)))
    about = counted[next(iter(CASES))][2]
    totals = {case: round(instructions, 1) for case, (instructions, *_) in counted.items()}
    return about, totals, {case: parts for case, (_, parts, _) in counted.items()}


def parts_table(parts):
    cases = [case for case in parts if "histograms" not in case and "DCQCN" not in case]
    yield "| part | " + " | ".join(cases) + " |"
    yield "|---|" + "---|" * len(cases)
    for part in PARTS:
        yield f"| {part} | " + " | ".join(f"{parts[case][part]:,.0f}" for case in cases) + " |"
    yield "| together | " + " | ".join(f"{sum(parts[case].values()):,.0f}" for case in cases) + " |"


def compare(figures, about, counted):
    """Prints the table; returns the cases that cost too much."""
    print(f"Instructions a message, {about['compiler']}, CRC-32 by {about['crc32']}:")
    over, under = [], []
    for case, instructions in counted.items():
        allowed = figures["instructions"].get(case)
        if allowed is None:
            raise Failure(f"figures.json knows no {case!r}; renew it: scripts/bench instructions --renew")
        change = instructions / allowed - 1
        print(f"  {case:46} {instructions:9.1f}   figure {allowed:9.1f}   {change:+7.1%}")
        if change > ROOM:
            over.append(case)
        elif change < -ROOM:
            under.append(case)
    if under:
        print(f"{', '.join(under)}: cheaper than the figure by more than {ROOM:.0%}. Keep the gain: "
              "scripts/bench instructions --renew")
    return over


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=SOURCE / "build" / "bench" / "instructions" / "messages",
                        help="what is counted (%(default)s)")
    parser.add_argument("--figures", type=pathlib.Path, default=FIGURES, help="what to compare with (%(default)s)")
    parser.add_argument("--renew", action="store_true", help="write the figures anew")
    parser.add_argument("--parts", action="store_true", help="print the parts of each case as a table, and compare nothing")
    return parser.parse_args()


def main():
    args = arguments()
    if shutil.which("valgrind") is None:
        raise Failure("valgrind is not installed: scripts/setup test")
    about, counted, parts = count_all(args.program)
    if args.parts:
        print("\n".join(parts_table(parts)))
        return 0
    if args.renew:
        text = json.dumps({**about, "instructions": counted}, indent=1) + "\n"
        args.figures.write_text(text, encoding="utf-8")
        print(text, end="")
        return 0
    figures = json.loads(args.figures.read_text(encoding="utf-8"))
    for what in ("crc32", "compiler"):
        if figures[what] != about[what]:
            print(f"the figures are for {what} {figures[what]!r}, this is {about[what]!r}")
            return SKIP
    over = compare(figures, about, counted)
    if over:
        print(f"{', '.join(over)}: more than {ROOM:.0%} above the figure. Find out what it is (callgrind_annotate; "
              "docs/performance.md), or, if it is worth it, renew the figure: scripts/bench instructions --renew")
    return 1 if over else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        print(f"count.py: {failure}", file=sys.stderr)
        sys.exit(1)
