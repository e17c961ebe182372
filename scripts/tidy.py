#!/usr/bin/python3
"""Runs clang-tidy on the given sources, several at a time, and remembers which were clean.

usage: tidy.py [--checks=MORE] BUILD_DIR FILE...

A source is checked again only when it, a header it includes or .clang-tidy has changed: the compiler's own
dependency records (ninja -t deps) say which headers those are.

clang-tidy spends most of its time on the headers of the system and of libraries, anew in each source. So sources that are
compiled alike are checked as one file, made of them all, whatever library they belong to. Sources that define one name each for
themselves cannot be one file and are put in different ones; what cannot be one for another reason is checked in smaller groups.
"""

import bisect
import collections
import concurrent.futures
import hashlib
import itertools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

GROUP = 150  # sources in one file; what it says comes when all of them have been read
# What may differ between the sources of one file: where headers are and what macros of libraries are defined (the file has all of them),
# how it is optimized and hardened, and where the outcome goes.
UNITED = re.compile(r"-I|-isystem|-D(?!_)")
OURS = re.compile(r"-I(?=[^/]+/|\.\./)(?!.*/include$)")
IGNORED = re.compile(r"-I|-O|-f(?!no-exceptions|no-rtti)|-[DU]_FORTIFY_SOURCE|-march=|-pthread|-M|-c|-o|/|.*\.p/")
# The library's and the kernel's header of one protocol define the same names.
RIVALS = re.compile(r"/rdma/rdma_(?:user_cm|cma)\.h$")
# What a source defines at the left margin: a function, a constant, a type. Its name stands in one of the groups.
DEFINITION = re.compile(
    r"^(?!(?:return|using|namespace|extern|template|friend|typedef|case|else)\b)[A-Za-z_\[][^;=(){}\"]*?[ &*](\w+)\("
    r"|^(?:inline |static |constexpr |const |constinit |thread_local )+[^;(={]*?[ &*](\w+)(?:\[[^\]]*\])?\s*[={]"
    r"|^(?:struct|class|enum class|enum|union)\s+(?:alignas\([^)]*\)\s*)?(\w+)\s*[:{]", re.MULTILINE)


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
        source, ends, done = self.run(group)
        if done.returncode == 0:
            return group
        # After an error of the compiler's not all of the rest has been looked at.
        is_compiled = "[clang-diagnostic-" not in done.stdout
        headers, lines = self.places(source, done.stdout)
        if len(group) == 1 or (headers and is_compiled):
            self.bad[group[0] if len(group) == 1 else ", ".join(sorted(headers))] = done.stdout + done.stderr
            return []
        blamed = {group[bisect.bisect_left(ends, line)] for line in lines}
        if headers or not blamed or len(blamed) == len(group):
            # Nobody's, or everybody's: a smaller group says more.
            half = len(group) // 2
            return self.check(group[:half]) + self.check(group[half:])
        # Something is wrong, or these cannot be one file with the others: alone they say.
        rest = [one for one in group if one not in blamed]
        return [one for suspect in sorted(blamed) for one in self.check([suspect])] + (rest if is_compiled else self.check(rest))

    def run(self, group):
        """The file that was checked, the last line of each source in it, and what clang-tidy said."""
        folder = pathlib.Path(self.build, "tidy", hashlib.sha256("".join(group).encode()).hexdigest()[:16])
        folder.mkdir(parents=True, exist_ok=True)
        source, ends, options = group[0], [], self.options
        if len(group) > 1:
            source = str(folder / "together.cc")
            # Not by #include: some checks look at the main file alone.
            texts = [pathlib.Path(one).read_text(encoding="utf-8") for one in group]
            pathlib.Path(source).write_text("\n".join(texts), encoding="utf-8")
            ends = list(itertools.accumulate(text.count("\n") + 1 for text in texts))
            # What another source uses is used: scripts/check_layers.py looks at these source by source.
            options = [f"--checks={','.join([*(word[9:] for word in options), '-misc-unused-using-decls', '-misc-unused-alias-decls'])}"]
        entry = self.entries[group[0]]
        words = arguments_of(entry, source, str(folder / "together.o"))
        more = [word for one in group[1:] for word in arguments_of(self.entries[one]) if UNITED.match(word)]
        # A folder of ours may have a header that is named as one of the system's.
        words = [OURS.sub("-iquote", word) for word in [*words, *dict.fromkeys(more)]]
        (folder / "compile_commands.json").write_text(json.dumps([{
            "directory": entry["directory"], "file": source, "arguments": words}]), encoding="utf-8")
        return source, ends, clang_tidy(str(folder), source, settings_of(group[0]), options)

    @staticmethod
    def places(source, said):
        """The headers that `said` names, and the lines of the source."""
        places = re.findall(r"^(\S+?):(\d+):\d+: (?:error|warning): ", said, re.MULTILINE)
        return {file for file, _ in places if file != source}, {int(line) for file, line in places if file == source}


class Group:
    """Sources that can be one file."""

    def __init__(self):
        self.sources, self.names, self.macros, self.rivals = [], set(), {}, set()

    def take(self, source, words, rivals):
        """False: it has a name of another source's, a macro has another value there, or a header is a rival of one there."""
        names = {name for found in DEFINITION.findall(pathlib.Path(source).read_text(encoding="utf-8")) for name in found if name}
        macros = dict((word[2:] + "=").split("=", 1) for word in words if word.startswith("-D") and UNITED.match(word))
        if len(self.sources) == GROUP or self.names & names or any(self.macros.get(name, value) != value for name, value in macros.items()):
            return False
        if self.rivals and rivals and self.rivals != rivals:
            return False
        self.sources.append(source)
        self.names |= names
        self.macros |= macros
        self.rivals |= rivals
        return True


def groups_of(todo, entries, inputs):
    """Sources in groups that are compiled alike and have the same settings. What the build compiles alone stays alone."""
    alike = collections.defaultdict(list)
    for source in todo:
        entry = entries[source]
        words = arguments_of(entry)
        alone = source if sources_of(entry) == [source] else ""
        rivals = {path for path in inputs.get(entry["output"], []) if RIVALS.search(path)}
        # Of several -march the last counts.
        machine = [word for word in words if word.startswith("-march=")][-1:]
        shape = (settings_of(source), alone, *machine, *sorted(word for word in words if not UNITED.match(word) and not IGNORED.match(word)))
        groups = alike[shape]
        if not any(group.take(source, words, rivals) for group in groups):
            groups.append(Group())
            groups[-1].take(source, words, rivals)
    # The large ones first, so that the last one does not run alone.
    return sorted((group.sources for groups in alike.values() for group in groups), key=len, reverse=True)


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
        for clean in pool.map(tidy.check, groups_of(todo, entries, inputs)):
            for source in clean:
                (cache / todo[source]).touch()
    for source, said in sorted(tidy.bad.items()):
        print(f"clang-tidy {os.path.relpath(source)}:\n{said}", flush=True)
    return 1 if tidy.bad else 0


if __name__ == "__main__":
    sys.exit(main())
