#!/usr/bin/python3
"""Checks the documents: links and anchors, paths of the tree, the table of folders, and the commands that are shown.

usage: check_docs.py BUILD_DIR [FILE.md...]

BUILD_DIR has urnic and urnicd, whose --help says which options exist. Without files: every Markdown file but CHANGELOG.md.
A command is checked as far as it can be without running it: program, subcommand, options, targets and names of tests.
"""

import functools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "scripts"))
import check_layers

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
# A path of this tree begins with one of its folders; those of scripts/ are checked as commands.
TREE_PATH = re.compile(r"^[\w.-]+(/[\w.-]+)+/?$|^[\w.-]+/$")
FOLDERS_PAGE = "docs/architecture.md"
FOLDERS_ROW = re.compile(r"^\| `([\w/]+)/?` \|")
MESON = {"setup", "configure", "compile", "test", "install", "introspect"}
SEPARATORS = {"&&", "||", ";", "|", "&", "(", ")", ";;"}


def slug(heading):
    """The anchor that GitHub gives a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


class Page:
    """A Markdown file: lines outside of code blocks, and the blocks' lines, each with its number."""

    def __init__(self, path):
        self.path = path
        self.prose, self.code = [], []
        fenced = shell = False
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.lstrip().startswith("```"):
                fenced = not fenced
                # A block with a language is no shell session.
                shell = line.strip() in ("```", "```sh", "```console", "```bash")
            elif fenced:
                if shell:
                    self.code.append((number, line))
            elif line.startswith("    ") and not re.match(r"\s+([-*]|\d+\.) ", line):
                self.code.append((number, line))
                self.prose.append((number, line))
            else:
                self.prose.append((number, line))

    @functools.cached_property
    def anchors(self):
        found, seen = set(), {}
        for _, line in self.prose:
            if match := re.match(r"#{1,6} (.*)", line):
                name = slug(match.group(1))
                count = seen.get(name, 0)
                seen[name] = count + 1
                found.add(f"{name}-{count}" if count else name)
        return found


@functools.cache
def page_at(path):
    return Page(path)


def link_problems(page):
    for number, line in page.prose:
        for target in LINK.findall(CODE.sub("", line)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            path = (page.path.parent / name).resolve() if name else page.path
            if not path.exists():
                yield number, f"link to {target}: there is no {name}"
            elif anchor and path.suffix == ".md" and anchor not in page_at(path).anchors:
                yield number, f"link to {target}: no heading of {path.name} has this anchor"


def path_problems(page):
    tops = {entry.name for entry in TOP.iterdir() if entry.is_dir() and not entry.name.startswith((".", "build", "scripts"))}
    for number, line in page.prose:
        for text in CODE.findall(line):
            if TREE_PATH.match(text) and text.split("/")[0] in tops and not (TOP / text).exists():
                yield number, f"`{text}` is not in the tree"


def folder_problems(page):
    listed = {}
    for number, line in page.prose:
        if match := FOLDERS_ROW.match(line):
            listed.setdefault(match.group(1).rstrip("/"), number)
    for folder in check_layers.FOLDERS:
        if folder not in listed:
            yield 1, f"the table of folders lacks {folder} (FOLDERS in scripts/check_layers.py)"
    for folder, number in listed.items():
        if folder.split("/")[0] in check_layers.ROOMS and folder not in check_layers.LEVEL:
            yield number, f"{folder} is not in FOLDERS of scripts/check_layers.py"


@functools.cache
def words_of_tests():
    """Each word in the sources of tests."""
    sources = (path for folder in ("tests", "conform") for path in (TOP / folder).rglob("*") if path.suffix in (".cc", ".h", ".py"))
    return {word for path in sources for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}


def test_problems(page, programs):
    """Programs, and their cases, in the last column of tables whose last column is headed "test"."""
    known = programs.tests()[0] | {os.path.basename(target) for target in programs.targets()}
    known |= {name.removeprefix("fuzz_corpus_") for name in known}
    inside = False
    for number, line in page.prose:
        if not line.startswith("|"):
            inside = False
        elif line.endswith("| test |"):
            inside = True
        elif inside:
            column = line.rstrip(" |").rpartition(" | ")[2]
            for name in re.findall(r"`([a-z]\w*)`", column):
                if name not in known:
                    yield number, f"there is no test {name}"
            for case in re.findall(r"\b(?:[A-Z]\w*|test_\w+)(?:\.\w+)*", CODE.sub("", LINK.sub("", column))):
                if not words_of_tests().issuperset(case.split(".")):
                    yield number, f"there is no test {case}"


class Programs:
    """What the programs of the build, the scripts and Meson know."""

    def __init__(self, build):
        self.build = build

    @functools.cache
    def help(self, *command):
        program = self.build / command[0]
        if not program.exists():
            sys.exit(f"check_docs.py: {program} is not built: run scripts/build")
        done = subprocess.run([program, *command[1:], "--help"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"check_docs.py: {' '.join(command)} --help: {done.stderr.strip()}")
        return done.stdout

    @functools.cache
    def introspect(self, what):
        output = subprocess.run(["meson", "introspect", what, str(self.build)], capture_output=True, text=True, check=True).stdout
        return json.loads(output)

    @functools.cache
    def tests(self):
        found = self.introspect("--tests")
        names = {test["name"] for test in found}
        suites = {suite.split(":")[-1] for test in found for suite in test["suite"]}
        return names, suites

    @functools.cache
    def targets(self):
        root = self.build.resolve()
        return {os.path.relpath(name, root) for target in self.introspect("--targets") for name in target["filename"]}

    @functools.cache
    def script_text(self, name):
        """The script, the Python programs that it starts, and their neighbours' names and text."""
        text = (TOP / name).read_text(encoding="utf-8")
        folders = {(TOP / path).parent for path in re.findall(r"[\w/]+\.py", text) if "/" in path}
        for folder in folders - {TOP / "scripts"}:
            for path in sorted(folder.rglob("*.py")):
                text += f"\n{path.name} {path.stem.removeprefix('suite_')}\n" + path.read_text(encoding="utf-8")
        for path in re.findall(r"scripts/\w+\.py", text):
            text += (TOP / path).read_text(encoding="utf-8")
        return text


def words_of(line):
    """The commands of a line, each a list of words; nothing when it is no shell."""
    line = re.sub(r"\[|\]|\.\.\.|…", " ", line.split(" # ")[0]).strip().removeprefix("$ ")
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        words = line.split()
    command = []
    for word in words + [";"]:
        if word in SEPARATORS:
            if command:
                yield command
            command = []
        elif not (not command and re.match(r"[A-Z_]+=", word)):
            command.append(word)


def unknown_options(words, text):
    for word in words:
        for option in re.findall(r"^--?[A-Za-z][\w-]*", word):
            if not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text):
                yield option


def urnic_problems(words, programs, program):
    words = words[:words.index("--")] if "--" in words else words
    path = [program]
    if program == "urnic":
        while words and re.fullmatch(r"[a-z]+", words[0]):
            text = programs.help(*path)
            if not re.search(rf"(?m)^  {words[0]}\s", text.partition("Subcommands:")[2]):
                if "Subcommands:" in text:
                    yield f"{' '.join(path)} has no command {words[0]}"
                    return
                break
            path.append(words.pop(0))
    for option in unknown_options(words, programs.help(*path)):
        yield f"{' '.join(path)} has no option {option}"


def script_problems(name, words, programs):
    path = TOP / name
    if path.is_dir():
        return
    if not path.is_file() or (words and not os.access(path, os.X_OK)):
        yield f"there is no program {name}"
        return
    if name == "scripts/build":
        for word in words:
            if re.fullmatch(r"[a-z][\w/.-]*", word) and word not in programs.targets():
                yield f"there is no target {word}"
        return
    text = programs.script_text(name)
    for option in unknown_options(words, text):
        yield f"{name} has no option {option}"
    for before, word in zip(["", *words], words):
        # What follows an option may be its value.
        if re.fullmatch(r"[a-z]\w*", word) and not before.startswith("-") and not re.search(rf"\b{word}\b", text):
            yield f"{name} knows no {word}"


def meson_problems(words, programs):
    if not words or words[0] not in MESON:
        yield f"meson has no command {words[0] if words else ''}"
        return
    if words[0] != "test":
        return
    names, suites = programs.tests()
    rest = iter(words[1:])
    for word in rest:
        if word in ("-C", "--timeout-multiplier", "-t", "--logbase"):
            next(rest, None)
        elif word == "--suite":
            suite = next(rest, "")
            if suite and suite not in suites:
                yield f"there is no suite {suite}"
        elif re.fullmatch(r"\w+", word) and word not in names and not word.isupper():
            yield f"there is no test {word}"


def command_problems(words, programs):
    program = words[0]
    if program.startswith("scripts/"):
        yield from script_problems(program, words[1:], programs)
    elif program in ("urnic", "urnicd", "build/urnic", "build/urnicd"):
        yield from urnic_problems(words[1:], programs, program.removeprefix("build/"))
    elif program == "meson":
        yield from meson_problems(words[1:], programs)
    elif program == "ninja":
        for word in words[1:]:
            if re.fullmatch(r"[a-z]\w*(/[\w.-]+)*", word) and word != "build" and word not in programs.targets():
                yield f"there is no target {word}"
    elif re.match(r"build/[\w/]+$", program) and program.removeprefix("build/") not in programs.targets():
        yield f"nothing builds {program}"


def joined(lines):
    """Lines of code, those that end in a backslash with what follows."""
    begun, text = 0, ""
    for number, line in lines:
        begun, text = begun or number, text + line.rstrip("\\")
        if not line.endswith("\\"):
            yield begun, text
            begun, text = 0, ""


def problems_of_commands(page, programs):
    spans = [(number, text) for number, line in page.prose for text in CODE.findall(line)]
    for number, text in [*joined(page.code), *spans]:
        for words in words_of(text):
            for problem in command_problems(words, programs):
                yield number, f"{problem}: {text.strip()}"


def problems(path, programs):
    page = page_at(path)
    yield from link_problems(page)
    yield from path_problems(page)
    yield from problems_of_commands(page, programs)
    yield from test_problems(page, programs)
    if path == TOP / FOLDERS_PAGE:
        yield from folder_problems(page)


def main():
    programs = Programs(pathlib.Path(sys.argv[1]))
    files = [pathlib.Path(name).resolve() for name in sys.argv[2:]]
    if not files:
        listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=TOP, capture_output=True, text=True, check=True).stdout
        files = [TOP / name for name in listed.split() if name != "CHANGELOG.md" and (TOP / name).exists()]
    found = [f"{path}:{number}: {problem}" for path in files for number, problem in problems(path, programs)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
