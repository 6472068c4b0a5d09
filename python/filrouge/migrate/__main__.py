"""The program `python -m filrouge.migrate`."""

import sys

from filrouge.migrate._program import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
