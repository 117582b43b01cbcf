"""A module that nothing in the engine has a reason to import. Whoever does leaves a trace."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

TRACE = "ONCEWARD_CANARY"


def sing(*_: Any, **__: Any) -> None:
    """What an attacker would have run."""
    Path(os.environ[TRACE]).write_text("sung")


if TRACE in os.environ:
    sing()
