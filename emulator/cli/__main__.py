"""`python -m emulator.cli`: the same command line without an installed script."""

import sys

from emulator.cli import main

if __name__ == "__main__":
    sys.exit(main())
