"""What kind of world a seed makes: how large it is, for what it was written, and how bad it is."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from onceward import App
from tests.simulation import work
from tests.simulation.database import Trouble

BEFORE_COMMIT = ("connection lost", "locked", "crash")
"""What may happen to a transaction on its way."""
AT_COMMIT = ("connection lost", "crash", "reply lost", "reply lost", "reply lost, then a pause", "crash after commit")
"""What may happen to its commit."""
BETWEEN = ("kill", "pause", "stop", "clock step", "skew", "twice in line", "deaf", "copy", "restore")
"""What may happen at any other time."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One kind of world."""

    app: App
    workers: int
    hosts: int
    has_presence: bool
    """Whether processes of one host see at once that another has died."""
    is_near: bool
    """Whether event loops write themselves, as with SQLite, or have it done by a thread, as with PostgreSQL."""
    steps: int
    """For how many steps things go wrong."""
    trouble: float
    """The share of transactions to which something happens."""
    freezes: float
    """The share of transactions before which their process is frozen."""
    stages: float
    """The share of stages that fail, take long, or kill."""
    writes: float
    """The share of stages that write rows of the application's own."""
    events: float
    """The share of steps before which something happens to a process, the clock or the database."""
    kinds: tuple[str, ...]
    """What that may be: everything in some worlds, in others one thing again and again."""
    commit_ms: int = 0
    """How long the reply to a commit takes: a far standby, or a slow disk."""
    cancels: bool = False
    """Whether most of what is enqueued together is cancelled at once, while it stands in line."""

    @property
    def is_prompt(self) -> bool:
        """Whether nobody in it acts long after having looked at the time."""
        return not self.trouble and not self.freezes and "pause" not in self.kinds

    @classmethod
    def of(cls, chance: random.Random) -> Plan:
        """Any kind of world, calm ones too."""
        aside = random.Random()
        aside.setstate(chance.getstate())  # worlds without what is decided by this one keep their history
        return cls(
            app=chance.choice(work.APPS),
            workers=chance.choice((1, 2, 2, 3)),
            hosts=chance.choice((1, 1, 2)),
            has_presence=chance.random() < 0.6,
            is_near=chance.random() < 0.5,
            steps=chance.choice((40, 80, 80, 160)),
            trouble=chance.choice((0, 0.02, 0.05, 0.1, 0.25)),
            freezes=chance.choice((0, 0, 0.05, 0.15)),
            stages=chance.choice((0, 0.1, 0.3, 0.6)),
            writes=chance.choice((0, 0.3, 1)),
            events=chance.choice((0, 0.02, 0.05, 0.1)),
            kinds=tuple(chance.sample(BETWEEN, chance.randint(1, len(BETWEEN)))),
            commit_ms=_last(aside, (0, 0, 0, 100, 2_000)),
            cancels=_last(aside, (False, False, True)),
        )

    def trouble_for_transaction(self, chance: random.Random) -> Trouble | None:
        """What will happen to a transaction that begins now."""
        if chance.random() >= self.trouble:
            return None
        if chance.random() < 0.4:
            return Trouble(chance.choice(BEFORE_COMMIT), chance.randint(1, 15))
        return Trouble(chance.choice(AT_COMMIT), None)


def _last(aside: random.Random, choices: tuple[Any, ...]) -> Any:
    """One of them, by numbers that nothing else has been decided by."""
    aside.random()
    return random.Random(aside.getrandbits(64)).choice(choices)
