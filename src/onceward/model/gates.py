"""The gates that a governed stage has to pass, as they are written with a task, and what they are told afterwards.

`web/example.com*5 =listing` are two: five tokens of the source `web` for one host, and a place in the pipeline
`listing`, which only so many may be in at once. `#listing/…` is a place for one key of it, `$usd` a budget, and
`~tokens:model*800` eight hundred of the tokens that the source `model` allows beside its calls.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote

import msgspec

from onceward.model.source import BreakerRule

PIPELINE, KEY, BUDGET, WEIGHT = "=", "#", "$", "~"
MOST_CALLS = 1_000


class Gate(NamedTuple):
    """One gate, and how many tokens a task takes from it."""

    name: str
    tokens: int = 1

    @property
    def is_source(self) -> bool:
        """Whether it is that of an outside service."""
        return self.name[0] not in (PIPELINE, KEY, BUDGET, WEIGHT)


def source_of(gate: str) -> str:
    """The source to which an instance belongs."""
    return gate.partition("/")[0]


def weight_gate(weight: str, instance: str) -> str:
    """The gate that counts a weight of an instance of a source."""
    return f"{WEIGHT}{weight}:{instance}"


def weighed(gate: str) -> tuple[str, str]:
    """The weight that a gate counts, and the instance of the source to which it belongs."""
    weight, _, instance = gate.removeprefix(WEIGHT).partition(":")
    return weight, instance


def rounded_up(weight: int) -> int:
    """A weight as one of a few sizes: each size makes a line of its own, so there are four for each doubling."""
    step = 1 << max(0, weight.bit_length() - 3)
    return -(-weight // step) * step


def written_kind(kind: str) -> str:
    """A kind as it stands in the name of a gate."""
    return quote(kind, safe="-_.")


def kind_of(gate: str) -> str:
    """The kind to which a gate of a pipeline belongs."""
    return unquote(gate[1:].partition("/")[0])


def written_gates(gates: list[Gate]) -> str | None:
    """Gates as they are stored with a task; None if there are none."""
    return " ".join(gate.name if gate.tokens == 1 else f"{gate.name}*{gate.tokens}" for gate in gates) or None


@lru_cache(maxsize=4_096)
def _read(text: str) -> tuple[Gate, ...]:
    gates = []
    for word in text.split(" "):
        name, _, tokens = word.partition("*")
        gates.append(Gate(name, int(tokens) if tokens else 1))
    return tuple(gates)


def read_gates(text: str) -> list[Gate]:
    """The gates that are stored with a task."""
    return list(_read(text))


class SourceReport(msgspec.Struct, frozen=True, gc=False):
    """What a stage says of a source it has used, when it ends."""

    gate: str
    outcomes: tuple[bool, ...]
    """Whether each of its calls has succeeded; those of `ctx.call`, or the stage as a whole."""
    breaker: BreakerRule | None = None
    pause_ms: int | None = None
    """How long the source has asked to be left alone."""
    error: str | None = None
    unused_us: int = 0
    """What it gives back to the bucket of calls that were not made."""
    hits: int = 0
    """How many answers the cache had for it."""
    misses: int = 0
    used: tuple[tuple[str, bytes], ...] = ()
    """Those of them, by source and hash, of whose use nothing was noted for a while."""

    @property
    def says_something(self) -> bool:
        """Whether there is anything in it for the source itself."""
        return bool(self.outcomes or self.unused_us) or self.pause_ms is not None

    @property
    def looked_up(self) -> bool:
        """Whether the cache was asked for an answer of it."""
        return bool(self.hits or self.misses or self.used)

    @property
    def is_plain_success(self) -> bool:
        """Whether there is nothing to say but that all is well."""
        return self.pause_ms is None and not self.unused_us and all(self.outcomes)
