"""Options that several benches have in common."""

import argparse
import os
import pathlib

import machine


def parser(command, description):
    """For `scripts/bench COMMAND`, with the build directory."""
    made = argparse.ArgumentParser(prog=f"scripts/bench {command}".rstrip(), description=description,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    build = pathlib.Path(os.environ.get("URNIC_BUILD", machine.SOURCE / "build"))
    made.add_argument("--build", type=pathlib.Path, default=build, help="build directory (%(default)s)")
    return made


def add_blocks(made, repetitions, quick, seconds, iterations, connected):
    """How much is measured: defaults, and words on what the numbers are of."""
    made.add_argument("--quick", action="store_true", help=quick[1])
    made.add_argument("--repetitions", type=int, help=f"{repetitions[1]} ({repetitions[0]}; {quick[0]} with --quick)")
    made.add_argument("--seconds", type=float, default=seconds[0], help=f"{seconds[1]} (%(default)s)")
    made.add_argument("--iterations", type=int, default=iterations[0], help=f"{iterations[1]} (%(default)s)")
    made.add_argument("--connected", type=int, default=connected[0], help=f"{connected[1]} (%(default)s)")
    made.set_defaults(whole_repetitions=repetitions[0], quick_repetitions=quick[0])


def add_results(made, name, page="bench/RESULTS.md", what="page that the table goes into (%(default)s)"):
    """Where the results go. `name`: of the JSON file."""
    made.add_argument("--json", type=pathlib.Path, help=f"where everything measured goes (BUILD/bench/{name}.json)")
    made.add_argument("--page", type=pathlib.Path, default=machine.SOURCE / page, help=what)
    made.set_defaults(json_name=f"{name}.json")


def add_print(made):
    made.add_argument("--print", action="store_true", help="leave the page alone")


def parse(made):
    options = made.parse_args()
    options.json = options.json or options.build / "bench" / options.json_name
    if getattr(options, "repetitions", 0) is None:
        options.repetitions = options.quick_repetitions if options.quick else options.whole_repetitions
    return options
