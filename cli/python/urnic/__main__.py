"""The command `urnic` of the wheel."""

import os
import sys

import urnic


def main():
    """Becomes the program."""
    program = urnic.executable()
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
