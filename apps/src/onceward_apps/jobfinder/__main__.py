"""`python -m onceward_apps.jobfinder`: the command line."""

from __future__ import annotations

import sys

from onceward_apps.jobfinder.cli import main

if __name__ == "__main__":
    sys.exit(main())
