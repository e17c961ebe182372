#!/usr/bin/python3
"""scripts/abi.py [--renew] [--types] BUILD: compares what other programs load or link to with tests/golden/abi.

Symbols: what the provider, the discovery shim and the libraries of BUILD export, and what the provider takes from libibverbs, with
versions. --types: the functions and types of the installed headers too, by abidiff (package abigail-tools). --renew writes what is there
to tests/golden/abi. Exit status 1 when something differs.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = TOP / "tests/golden/abi"
LIBRARIES = {
    "liburnic-rdmav34": "verbs_provider/liburnic-rdmav34.so",
    "liburnic-discovery": "verbs_provider/liburnic-discovery.so",
    "liburnic-rpcrdma": "ulp/rpcrdma/liburnic-rpcrdma.so.0",
    "liburnic-rpcrdma-onc": "ulp/rpcrdma/liburnic-rpcrdma-onc.so.0",
}
INCLUDE = TOP / "ulp/rpcrdma/include"
# A library's header, and the flags that it is included with.
HEADERS = {
    "liburnic-rpcrdma": ("urnic/rpcrdma.h", []),
    "liburnic-rpcrdma-onc": ("urnic/rpcrdma_onc.h", ["-I/usr/include/tirpc"]),
}


def symbols(library):
    """Lines "exports NAME" and "imports NAME@VERSION"; of imports those of libibverbs, as others depend on how it was compiled."""
    listed = subprocess.run(["nm", "--dynamic", library], check=True, stdout=subprocess.PIPE, text=True).stdout
    found = set()
    for line in listed.splitlines():
        kind, name = line.split()[-2:]
        if kind == "U" and "@IBVERBS_" in name:
            found.add(f"imports {name}")
        elif kind not in "Uwv":
            found.add(f"exports {name}")
    return sorted(found)


def check_symbols(name, library, renew):
    golden = GOLDEN / f"{name}.symbols"
    now = symbols(library)
    if renew:
        golden.write_text("".join(line + "\n" for line in now), encoding="utf-8")
    before = golden.read_text(encoding="utf-8").split("\n")[:-1]
    for line in sorted(set(before) - set(now)):
        print(f"{library} no longer {line}: programs that use it break; put it back, or raise the library's soversion and run scripts/abi.py --renew")
    for line in sorted(set(now) - set(before)):
        print(f"{library} {line}, which {golden.relative_to(TOP)} does not have: hide it, or accept it by scripts/abi.py --renew")
    return before == now


def types(name, scratch):
    """A library of variables, each a pointer to a function of the header: its debug information has their types and no others."""
    header, flags = HEADERS[name]
    exported = re.findall(r"(?m)^exports (\w+)@@", (GOLDEN / f"{name}.symbols").read_text(encoding="utf-8"))
    pointers = "".join(f"__typeof__({function}) *pointer_to_{function};\n" for function in exported)
    source, library = scratch / f"{name}.c", scratch / f"{name}.so"
    source.write_text(f"#include <{header}>\n{pointers}", encoding="utf-8")
    subprocess.run(["cc", "-g", "-shared", "-fPIC", "-fno-eliminate-unused-debug-types", f"-I{INCLUDE}", *flags, source, "-o", library], check=True)
    return library


def check_types(name, scratch, renew):
    golden = GOLDEN / f"{name}.abi"
    library = types(name, scratch)
    if renew:
        subprocess.run(["abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--type-id-style", "hash", library, "--out-file", golden], check=True)
    compared = subprocess.run(["abidiff", golden, library], check=False)
    if compared.returncode != 0:
        print(f"{HEADERS[name][0]} is another ABI than {golden.relative_to(TOP)}: see above; put it back, "
              "or raise the library's soversion where programs break, and run scripts/abi.py --renew --types")
    return compared.returncode == 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--renew", action="store_true")
    parser.add_argument("--types", action="store_true")
    parser.add_argument("build", type=pathlib.Path)
    options = parser.parse_args()
    GOLDEN.mkdir(exist_ok=True)
    same = [check_symbols(name, options.build / path, options.renew) for name, path in LIBRARIES.items()]
    if options.types:
        with tempfile.TemporaryDirectory() as scratch:
            same += [check_types(name, pathlib.Path(scratch), options.renew) for name in HEADERS]
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
