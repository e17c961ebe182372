#!/usr/bin/python3
"""Makes a C++ header of an HTML page with its style and its scripts in it: kPage, or, if @DATA@ is there, what is before it and behind it.

usage: page_parts.py NAMESPACE PAGE.html PART.html... PAGE.css SCRIPT.js... HEADER.h

A line @PART.html@ of the page is that part.
No other script and no other style can run in it: its Content-Security-Policy names the hashes of these.
"""

import base64
import hashlib
import pathlib
import sys


def digest(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def literal(name, text):
    """The text as a constant array of characters."""
    data = text.encode()
    lines = [", ".join(str(byte - 256 if byte > 127 else byte) for byte in data[at:at + 64]) for at in range(0, len(data), 64)]
    return f"inline constexpr char {name}Text[] = {{\n" + ",\n".join(lines) + f"}};\n" \
           f"inline constexpr std::string_view {name}({name}Text, sizeof {name}Text);\n"


def main():
    namespace, *sources, header = sys.argv[1:]
    sources = [pathlib.Path(source) for source in sources]
    page, *parts = [source for source in sources if source.suffix == ".html"]
    (style,) = [source.read_text(encoding="utf-8") for source in sources if source.suffix == ".css"]
    scripts = [source.read_text(encoding="utf-8") for source in sources if source.suffix == ".js"]
    for script in scripts:
        assert "</script" not in script.lower()
    text = page.read_text(encoding="utf-8")
    for part in parts:
        assert f"@{part.name}@\n" in text
        text = text.replace(f"@{part.name}@\n", part.read_text(encoding="utf-8"))
    text = text.replace("@STYLE_HASH@", digest(style)).replace("@SCRIPT_HASHES@", " ".join(map(digest, scripts)))
    parts = [part.replace("@STYLE@", style) if "@STYLE@" in part else part for part in text.split("@DATA@")]
    parts[-1] = parts[-1].replace("@SCRIPTS@", "\n".join(f"<script>{script}</script>" for script in scripts))
    names = ["kPage"] if len(parts) == 1 else ["kPageBegin", "kPageEnd"]
    pathlib.Path(header).write_text(
        f"// Made by page_parts.py.\n#pragma once\n#include <string_view>\nnamespace {namespace} {{\n"
        + "".join(map(literal, names, parts)) + f"}}  // namespace {namespace}\n",
        encoding="utf-8")


if __name__ == "__main__":
    main()
