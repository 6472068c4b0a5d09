"""The program `filrouge`."""

import sys

from filrouge._native import run_program


def main() -> None:
    """Runs the program with the arguments of this process."""
    sys.exit(run_program(sys.argv))
