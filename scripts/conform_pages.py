#!/usr/bin/python3
"""Puts what `urnic conform matrix` wrote into docs/conformance/devices.md and devices-seen.md, between their marks.

usage: conform_pages.py DIRECTORY
"""

import pathlib
import sys

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs/conformance"
BEGIN = "<!-- devices: written by scripts/conform --renew -->"
END = "<!-- devices: end -->"


def put(page, text):
    path = DOCS / page
    head, rest = path.read_text(encoding="utf-8").split(BEGIN)
    path.write_text(f"{head}{BEGIN}\n\n{text.strip()}\n\n{END}{rest.split(END)[1]}", encoding="utf-8")


def main():
    results = pathlib.Path(sys.argv[1])
    put("devices.md", (results / "matrix.md").read_text(encoding="utf-8"))
    put("devices-seen.md", (results / "devices-seen.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
