"""The table NFS test x result of scripts/interop rpcrdma: printed, and compared with the one in docs/rpcrdma.md."""

import difflib
import sys

import harness
import nfs_mounted

BEGIN = "<!-- nfs: written by scripts/interop rpcrdma --renew -->"
END = "<!-- nfs: end -->"
DOCUMENT = harness.SOURCE / "docs/rpcrdma.md"
COLUMNS = {"captured": "few, captured", "much": "much", "lost": "2 % lost"}
SIDES = {"client": "`nfs_client`, Linux nfsd", "server": "Linux mount, `nfs_server`",
         "guest": "all in the guest, over rxe"}
# What each test does, in the table's order.
WHAT = {
    ("client", "version"): "probe with version 2, ERR_VERS, version 1",
    ("client", "null"): "NULL, and a procedure that there is none of",
    ("client", "lookup"): "LOOKUP, GETATTR, ACCESS, a damaged handle",
    ("client", "create"): "CREATE, guarded and exclusive; SETATTR",
    ("client", "sizes"): "WRITE and READ of 22 sizes from 0 to 65537 octets",
    ("client", "write"): "WRITE of 1 MB each (Read chunks), COMMIT; SHA-256 in the guest",
    ("client", "read"): "READ of 1 MB each (Write chunks), SHA-256",
    ("client", "symlinks"): "SYMLINK and READLINK of 1 to 1000 octets",
    ("client", "names"): "MKDIR, RENAME, LINK, REMOVE, RMDIR",
    ("client", "listing"): "CREATE of many files, READDIRPLUS (Reply chunks), REMOVE",
    ("client", "watch"): "error counters of both RNICs, the guest's kernel log",
    ("client", "tshark"): "tshark finds nothing malformed; all ICRCs are right",
    ("server", "mount"): "`mount -o rdma,vers=3`, `umount`",
    **{("server", name): (test.__doc__ or "").split("\n")[0].rstrip(".") for name, test in nfs_mounted.TESTS},
    ("server", "watch"): "error counters of both RNICs, the guest's kernel log",
    ("server", "tshark"): "tshark finds nothing malformed; all ICRCs are right",
    ("guest", "interface"): "`rpcrdma_check`: the C interface, both versions, handles that are dead behind their calls",
    ("guest", "own"): "`nfs_client`'s tests of `nfs_server`, version 2",
    ("guest", "speed"): "`nfs_client` beside Linux's mount, of Linux's nfsd: a file written and read by both, SHA-256; how fast is in `bench/RESULTS.md`",
    ("guest", "watch"): "error counters of both RNICs, the guest's kernel log",
}


def lines_of(results):
    yield "| roles | test | what | " + " | ".join(COLUMNS.values()) + " |"
    yield "|---|---|---|" + "---|" * len(COLUMNS)
    for (side, name), what in WHAT.items():
        cells = [results.get((side, name), {}).get(column, ("",))[0] for column in COLUMNS]
        yield f"| {SIDES[side]} | `{name}` | {what} | " + " | ".join(cells) + " |"


def is_documented(results, renew):
    """Whether the document has this very table, or has it now."""
    text = DOCUMENT.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    new = f"{head}{BEGIN}\n\n" + "\n".join(lines_of(results)) + f"\n\n{END}{rest.split(END)[1]}"
    if new != text and renew:
        DOCUMENT.write_text(new, encoding="utf-8")
    elif new != text:
        sys.stdout.writelines(difflib.unified_diff(text.splitlines(True), new.splitlines(True), "in the document", "seen", n=0))
        print(f"interop: the table in {DOCUMENT} is not what was seen: scripts/interop rpcrdma --renew writes it")
        return False
    return True


def is_part(step, side, name):
    """Whether the pass has that test."""
    return step.is_compared if side == "guest" else name != "tshark" or step.is_captured


def end(results, steps, is_whole, renew, seconds):
    """Prints the verdict; the exit status."""
    print()
    print("\n".join(lines_of(results)))
    failed = [(key, column) for key, by_pass in results.items() for column, (state, _) in by_pass.items() if state != "passed"]
    for (side, name), column in failed:
        print(f"interop: FAILED: {SIDES[side]}: {name} ({column})")
    missing = [f"{side} {name} ({step.name})" for side, name in WHAT for step in steps
               if is_part(step, side, name) and step.name not in results.get((side, name), {})]
    if missing:
        print(f"interop: without a result: {', '.join(missing)}")
    right = not is_whole or is_documented(results, renew)
    print(f"interop: {sum(map(len, results.values())) - len(failed)} passed, {len(failed)} failed in {seconds:.0f} s")
    return 0 if right and not failed and not missing else 1
