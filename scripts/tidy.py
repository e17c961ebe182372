#!/usr/bin/python3
"""Runs clang-tidy on the given sources, several at a time, and remembers which were clean.

usage: tidy.py [--checks=MORE] BUILD_DIR FILE...

A source is checked again only when it, a header it includes or .clang-tidy has changed: the compiler's own
dependency records (ninja -t deps) say which headers those are.

clang-tidy spends most of its time on the headers of the system and of libraries, anew in each source. So sources that are
compiled alike are checked as one file, made of them all; those that cannot be one (two functions of one name) are checked in
smaller groups.
"""

import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

GROUP = 40  # sources in one file: more than any library has


def dependencies(build):
    """Object file -> the files it was made from, as the last build recorded them."""
    result, current = {}, None
    text = subprocess.run(["ninja", "-C", build, "-t", "deps"], capture_output=True, text=True, check=False).stdout
    for line in text.splitlines():
        if line.startswith("    "):
            current.append(line.strip())
        elif ":" in line:
            current = result.setdefault(line.split(":")[0], [])
    return result


class Digests:
    def __init__(self, build):
        self.build = build
        self.known = {}

    def of_file(self, path):
        path = os.path.join(self.build, path)
        if path not in self.known:
            try:
                self.known[path] = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
            except OSError:
                self.known[path] = "missing"
        return self.known[path]

    def of_entry(self, entry, inputs):
        total = hashlib.sha256(entry["command"].encode())
        for path in sorted(inputs):
            total.update(f"{path} {self.of_file(path)}\n".encode())
        return total.hexdigest()


def settings_of(source):
    """The .clang-tidy that counts for a source: the nearest above it."""
    return next(str(folder / ".clang-tidy") for folder in pathlib.Path(source).parents if (folder / ".clang-tidy").exists())


def sources_of(entry):
    """The sources that a compiler's run is about: the build compiles several as one file, which includes them."""
    file = pathlib.Path(entry["directory"], entry["file"])
    if not re.search(r"-unity\d+\.cpp$", file.name):
        return [os.path.abspath(file)]
    # Absolute paths, or after Meson has configured anew such that begin at the build folder.
    return [os.path.abspath(os.path.join(entry["directory"], source)) for source in re.findall(r"#include\s*<(.*)>", file.read_text(encoding="utf-8"))]


def arguments_of(entry, source="", output=""):
    """The compiler's arguments, with another source and output."""
    words = [word for word in shlex.split(entry["command"]) if os.path.basename(word) != "ccache"]
    changed = {entry["file"]: source, entry["output"]: output, entry["output"] + ".d": output + ".d"}
    return [changed.get(word, word) for word in words]


def clang_tidy(build, source, settings, options):
    # GCC's options that clang does not know, and a warning about libibverbs' own macros.
    known = ["--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-deprecated-enum-enum-conversion"]
    return subprocess.run(["clang-tidy", "--quiet", "-p", build, f"--config-file={settings}", *known, *options, source],
                          capture_output=True, text=True, check=False)


class Tidy:
    """Checks groups of sources; .bad holds what was said about those that are not clean."""

    def __init__(self, build, entries, options):
        self.build, self.entries, self.options, self.bad = build, entries, options, {}

    def check(self, group):
        """The clean ones of a group."""
        folder = pathlib.Path(self.build, "tidy", hashlib.sha256("".join(group).encode()).hexdigest()[:16])
        folder.mkdir(parents=True, exist_ok=True)
        source = group[0]
        if len(group) > 1:
            source = str(folder / "together.cc")
            # Not by #include: some checks look at the main file alone.
            pathlib.Path(source).write_text("\n".join(pathlib.Path(one).read_text(encoding="utf-8") for one in group), encoding="utf-8")
        entry = self.entries[group[0]]
        (folder / "compile_commands.json").write_text(json.dumps([{
            "directory": entry["directory"], "file": source,
            "arguments": arguments_of(entry, source, str(folder / "together.o"))}]), encoding="utf-8")
        done = clang_tidy(str(folder), source, settings_of(group[0]), self.options)
        if done.returncode == 0:
            return group
        if len(group) == 1:
            self.bad[source] = done.stdout + done.stderr
            return []
        # Something is wrong, or these cannot be one file: which and what, a smaller group says.
        half = len(group) // 2
        return self.check(group[:half]) + self.check(group[half:])


def groups_of(todo, entries):
    """Sources in groups that are compiled alike and have the same settings."""
    alike = collections.defaultdict(list)
    for source in todo:
        alike[(settings_of(source), *arguments_of(entries[source]))].append(source)
    groups = [sources[i:i + GROUP] for sources in alike.values() for i in range(0, len(sources), GROUP)]
    # The large ones first, so that the last one does not run alone.
    return sorted(groups, key=len, reverse=True)


def main():
    options = [word for word in sys.argv[1:] if word.startswith("--checks=")]
    build, *files = [word for word in sys.argv[1:] if word not in options]
    build, wanted = os.path.abspath(build), {os.path.abspath(path) for path in files}
    entries = {}
    for entry in json.loads(pathlib.Path(build, "compile_commands.json").read_text(encoding="utf-8")):
        for source in sources_of(entry):
            entries[source] = entry
    inputs, digests = dependencies(build), Digests(build)
    settings = [os.path.abspath(".clang-tidy"), os.path.abspath("tests/.clang-tidy")]
    cache = pathlib.Path(build, "tidy-clean")
    cache.mkdir(exist_ok=True)
    todo = {}  # source -> key
    for source in sorted(wanted & entries.keys()):
        entry = entries[source]
        key = digests.of_entry(entry, [source, *settings] + inputs.get(entry["output"], [])) + "".join(options)[9:].rstrip("*")
        if inputs.get(entry["output"]) is None or not (cache / key).exists():
            todo[source] = key
    print(f"clang-tidy: {len(todo)} of {len(wanted & entries.keys())} sources are new or changed", flush=True)
    tidy = Tidy(build, entries, options)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for clean in pool.map(tidy.check, groups_of(todo, entries)):
            for source in clean:
                (cache / todo[source]).touch()
    for source, said in sorted(tidy.bad.items()):
        print(f"clang-tidy {os.path.relpath(source)}:\n{said}", flush=True)
    return 1 if tidy.bad else 0


if __name__ == "__main__":
    sys.exit(main())
