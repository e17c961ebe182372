#!/usr/bin/python3
"""Makes sources of rnic/ with deliberate defects in them, each of which can be switched on.

usage: mutate.py --files | SOURCE_ROOT DIRECTORY
--files prints the sources that have defects; otherwise they are written to DIRECTORY, by their last names.
"""

import pathlib
import sys

import mutants

INCLUDE = '#include "tests/mutants/mutants.h"\n'


def mutated(text, file):
    """The source with its defects; a defect has to stand at exactly one place."""
    for number, mutant in enumerate(mutants.MUTANTS, 1):
        if mutant.file != file:
            continue
        if text.count(mutant.old) != 1:
            raise SystemExit(f"tests/mutants/mutants.py: '{mutant.name}': {file} has its text {text.count(mutant.old)} times")
        text = text.replace(mutant.old, mutant.new.replace("MUTANT", f"::urnic::mutants::is({number})"))
    return INCLUDE + text


def main():
    files = sorted({mutant.file for mutant in mutants.MUTANTS})
    if sys.argv[1:] == ["--files"]:
        print("\n".join(files))
        return
    root, directory = map(pathlib.Path, sys.argv[1:])
    for file in files:
        text = mutated((root / file).read_text(encoding="utf-8"), file)
        (directory / pathlib.Path(file).name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
