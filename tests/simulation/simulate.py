"""Running seeds one after the other, and what has come of them."""

from __future__ import annotations

import gc
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from tests.simulation import database, ledger, stand_ins, threads
from tests.simulation.ledger import Violated
from tests.simulation.plan import Plan
from tests.simulation.world import World

Line = tuple[int, str, str]
"""When, who, what."""
TIDY_EVERY = 20
"""After so many seeds it is looked for garbage. When that happens otherwise is not for a seed to decide."""


@dataclass(slots=True)
class Result:
    """What has come of one seed."""

    seed: int
    must_finish: bool
    violation: str | None
    kind: str | None
    """Which promise it breaks, in a word."""
    counts: Counter[str]
    faults: Counter[str]
    history: list[Line] = field(repr=False)


class Simulator:
    """A process in which seeds are run, one at a time: a context manager."""

    def __enter__(self) -> Simulator:
        self._stack = ExitStack()
        self._since_tidied = 0
        self._stack.enter_context(_silence())
        self._database = database.Database()
        for context in (
            stand_ins.installed(), database.simulated_stores(), threads.simulated_threads(), ledger.listening(),
            _rare_collections(),
        ):  # fmt: skip
            self._stack.enter_context(context)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _tidy(self) -> None:
        """Let go of the worlds before, once there are some."""
        self._since_tidied += 1
        if self._since_tidied == TIDY_EVERY:
            self._since_tidied = 0
            gc.collect()

    def world(self, seed: int, plan: Plan | None = None) -> World:
        """A world to be led by hand; close it in the end."""
        return World(seed, self._database, plan)

    def run(self, seed: int) -> Result:
        """Run one seed. In every other one things go wrong until the end; in the others they stop going wrong, and
        everything must come to its end."""
        self._tidy()
        must_finish = seed % 2 == 1
        world = self.world(seed)
        violation = None
        try:
            world.run(must_finish=must_finish)
        except Violated as broken:
            violation = broken
        finally:
            world.close()
        for session in world.sessions:
            world.counts["commits in doubt"] += session.doubts.unknown
            world.counts["commits in doubt that had happened"] += session.doubts.committed
            world.counts["commits in doubt that had not happened"] += session.doubts.not_committed
        world.counts["worlds that had to finish"] += must_finish
        world.counts["seconds simulated"] += world.ms // 1_000 - 1_000
        return Result(
            seed,
            must_finish,
            None if violation is None else str(violation),
            None if violation is None else violation.kind,
            world.counts,
            world.faults,
            world.history,
        )


def told(result: Result) -> Iterator[str]:
    """What has happened in the world of a seed, and how to see it again."""
    for ms, who, what in result.history:
        yield f"{(ms - 1_000_000) / 1_000:>11.3f} s  {who:<9} {what}"
    yield f"seed {result.seed}: {result.violation or 'no promise is broken'}"
    yield f"again: make simulate SEED={result.seed}"


@contextmanager
def _silence() -> Iterator[None]:
    """The engine warns of all that is done to it here; nobody needs to read that."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Look for no garbage in the middle of a world."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
