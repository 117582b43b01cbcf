"""What a fault test has counted, kept for the table of docs/reference/proof.md."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

KEPT_IN = "ONCEWARD_PROOF"
"""The variable that names the file for the counts; without it they are printed."""

SEED = int(os.environ.get("ONCEWARD_SEED", "1"))
"""Where the dice of a fault test start: a long run gives each round another one."""


class Tally(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The counts of one fault test: what was done to the engine, and what came of it.

    `lost`, `double` and `stale` are judged by the test before it keeps them, so they are 0 where it has passed; they
    stand here because the table says how many chances there were for each of them to be another number.
    """

    matrix: str
    """The row of the fault matrix, such as "F01"."""
    fault: str
    """What was done, as the table says it: "worker killed at random"."""
    store: str
    """"sqlite", "postgres", or "model" where there is no store."""
    faults: int
    """How often it was done."""
    accepted: int = 0
    """Tasks that were accepted."""
    commits: int = 0
    """Stages that were committed."""
    lost: int = 0
    """Tasks or effects that were acknowledged and are gone."""
    double: int = 0
    """Effects that are there twice."""
    stale: int = 0
    """Commits of a worker that no longer held the lease."""
    refused: int = 0
    """Writes of such workers that were refused, as the attempt log has them."""
    reconciled: int = 0
    """Commits whose answer was lost, and which the receipt decided."""
    recovery_s: list[float] = []
    """How long it took after a fault until the work went on."""
    seeds: int = 0
    """Simulated histories."""
    states: int = 0
    """States of a model."""
    caught: int = 0
    """Mistakes in the source that a test has found."""

    def keep(self) -> None:
        """Add it to the file of this run, or print it."""
        line = msgspec.json.encode(self)
        if name := os.environ.get(KEPT_IN):
            with Path(name).open("ab", buffering=0) as file:
                file.write(line + b"\n")  # one write: processes of pytest-xdist share the file
        else:
            print(f"\n{line.decode()}")


def kept(file: Path) -> Iterable[Tally]:
    """All counts of a run."""
    decode = msgspec.json.Decoder(Tally).decode
    return [decode(line) for line in file.read_bytes().splitlines()] if file.exists() else []
