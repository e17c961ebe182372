#!/usr/bin/python3
"""Runs clang-tidy on the given sources, several at a time, and remembers which were clean.

usage: tidy.py [--checks=MORE] BUILD_DIR FILE...

A source is checked again only when it, a header it includes or .clang-tidy has changed: the compiler's own
dependency records (ninja -t deps) say which headers those are.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys


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


def check(build, source, options):
    # GCC's options that clang does not know, and a warning about libibverbs' own macros.
    known = ["--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-deprecated-enum-enum-conversion"]
    return subprocess.run(["clang-tidy", "--quiet", "-p", build, *known, *options, source], capture_output=True, text=True, check=False)


def main():
    options = [word for word in sys.argv[1:] if word.startswith("--checks=")]
    build, *files = [word for word in sys.argv[1:] if word not in options]
    build, wanted = os.path.abspath(build), {os.path.abspath(path) for path in files}
    entries = {}
    for entry in json.loads(pathlib.Path(build, "compile_commands.json").read_text(encoding="utf-8")):
        entries[os.path.abspath(os.path.join(entry["directory"], entry["file"]))] = entry
    inputs, digests = dependencies(build), Digests(build)
    settings = [os.path.abspath(".clang-tidy"), os.path.abspath("tests/.clang-tidy")]
    cache = pathlib.Path(build, "tidy-clean")
    cache.mkdir(exist_ok=True)
    todo = []
    for source in sorted(wanted & entries.keys()):
        entry = entries[source]
        key = digests.of_entry(entry, [source, *settings] + inputs.get(entry["output"], [])) + "".join(options)[9:].rstrip("*")
        if inputs.get(entry["output"]) is None or not (cache / key).exists():
            todo.append((source, key))
    print(f"clang-tidy: {len(todo)} of {len(wanted & entries.keys())} sources are new or changed", flush=True)
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for (source, key), done in zip(todo, pool.map(lambda item: check(build, item[0], options), todo)):
            if done.returncode == 0:
                (cache / key).touch()
            else:
                bad += 1
                print(f"clang-tidy {os.path.relpath(source)}:\n{done.stdout}{done.stderr}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
