"""`python -m onceward_apps.documents`: the command line."""

from __future__ import annotations

import sys

from onceward_apps.documents.cli import main

if __name__ == "__main__":
    sys.exit(main())
