"""``python -m pagedsim``: the command line."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    try:
        from pagedsim.cli import main

        main()
    except KeyboardInterrupt:  # while modules are still being imported
        sys.exit(130)
