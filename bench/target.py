"""What one measurement is taken on: a side, a fresh database, a run log."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from bench.plan import Side, Store

SIDE = "ONCEWARD_BENCH_SIDE"
STORE = "ONCEWARD_BENCH_STORE"
URL = "ONCEWARD_BENCH_URL"
LOG = "ONCEWARD_BENCH_LOG"


@dataclass(frozen=True, slots=True)
class Target:
    """One side on one fresh database. Processes hand it on through their environment."""

    side: Side
    store: Store
    url: str
    log: Path

    def environment(self) -> dict[str, str]:
        """The environment of a process that is to work on this target."""
        return {
            **os.environ,
            SIDE: self.side,
            STORE: self.store,
            URL: self.url,
            LOG: str(self.log),
        }


def from_environment() -> Target:
    """The target that the process which started this one has chosen."""
    missing = [name for name in (SIDE, STORE, URL, LOG) if name not in os.environ]
    if missing:
        raise SystemExit(f"{', '.join(missing)} not set; `python -m bench` starts this process and sets them")
    return Target(
        side=cast(Side, os.environ[SIDE]),
        store=cast(Store, os.environ[STORE]),
        url=os.environ[URL],
        log=Path(os.environ[LOG]),
    )
