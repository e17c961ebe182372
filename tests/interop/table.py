"""The table test x role x result: printed, compared with the one in docs/conformance/linux-rxe.md, and as a report of cases."""

import difflib
import os
import pathlib
import sys
import xml.etree.ElementTree as ElementTree

import harness

BEGIN = "<!-- interoperation: written by scripts/interop --renew -->"
END = "<!-- interoperation: end -->"
DOCUMENT = harness.SOURCE / "docs/conformance/linux-rxe.md"
ROLES = (("ours", "urnic0 client, rxe server"), ("theirs", "rxe client, urnic0 server"))


NOT_RUN = "not run"


def lines_of(results, wanted):
    yield "| test | what | " + " | ".join(title for _, title in ROLES) + " |"
    yield "|---|---|" + "---|" * len(ROLES)
    for case in wanted:
        cells = [results.get((case.name, role), ("",))[0] for role, _ in ROLES]
        yield f"| `{case.name}` | {case.what} | " + " | ".join(cells) + " |"


def compare(results, wanted, renew):
    """True when the document has this very table, or has it now."""
    text = DOCUMENT.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    new = f"{head}{BEGIN}\n\n" + "\n".join(lines_of(results, wanted)) + f"\n\n{END}{rest.split(END)[1]}"
    if new == text:
        return True
    if renew:
        DOCUMENT.write_text(new, encoding="utf-8")
        return True
    sys.stdout.writelines(difflib.unified_diff(text.splitlines(True), new.splitlines(True), "in the document", "seen", n=0))
    print(f"interop: the table in {DOCUMENT} is not what was seen: scripts/interop --renew writes it")
    return False


def write_report(results, skipped=""):
    """In GoogleTest's form, for scripts/report.py, where URNIC_INTEROP names a file."""
    path = os.environ.get("URNIC_INTEROP")
    if not path:
        return
    suite = ElementTree.Element("testsuite", name="interop")
    for (name, role), (state, text) in results.items():
        case = ElementTree.SubElement(suite, "testcase", classname="interop", name=f"{name}.{role}", status="run")
        if state == NOT_RUN:
            ElementTree.SubElement(case, "skipped", message=text)
        elif state != "passed":
            # What a program printed may hold bytes that XML cannot.
            said = "".join(sign if sign.isprintable() or sign in "\n\t" else "?" for sign in text)
            ElementTree.SubElement(case, "failure", message=said[:200]).text = said
    if skipped:
        case = ElementTree.SubElement(suite, "testcase", classname="interop", name="all", status="notrun")
        ElementTree.SubElement(case, "skipped", message=skipped)
    ElementTree.ElementTree(suite).write(pathlib.Path(path))


def end(results, wanted, renew, whole, seconds):
    """Prints the verdict; the exit status."""
    print()
    print("\n".join(lines_of(results, wanted)))
    failed = [key for key, (state, _) in results.items() if state not in ("passed", NOT_RUN)]
    missing = [case.name for case in wanted for role, _ in ROLES if (case.name, role) not in results]
    for name, role in failed:
        print(f"interop: FAILED: {name}, {'urnic0' if role == 'ours' else 'rxe0'} as client")
    left_out = [key for key, (state, _) in results.items() if state == NOT_RUN]
    # What has failed makes the document wrong, too, and is one failure.
    right = not whole or (bool(failed) and not renew) or compare(results, wanted, renew)
    if whole:
        results = {**results, ("table", "document"): ("passed" if right else "failed", "docs/conformance/linux-rxe.md is out of date")}
    write_report(results)
    wrong = len(failed) + (0 if right else 1)
    print(f"interop: {len(results) - wrong - len(left_out)} passed, {wrong} failed, {len(left_out)} not run in {seconds:.0f} s")
    return 0 if results and right and not failed and not missing else 1
