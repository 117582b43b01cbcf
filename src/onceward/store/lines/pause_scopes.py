"""Pauses of everything, queues, pipelines and sources, as operators ask for them.

The table is tiny. While it is empty a worker reads it a few times a second, and while it is not, with every look for
work. The lines of what is paused are left out of the claim, and what stands there keeps its place. A paused source is a
closed gate: whoever looks at a line behind it leaves a turn that never comes.

Who leaves such a turn holds the row of the pause meanwhile, and who resumes deletes that row first. So the one that
resumes sees every such turn, and has it come now.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from onceward.errors import IllegalTransition
from onceward.model.pause import NO_PAUSES, Pauses, scope_text
from onceward.store.op import Op, Query


class PauseRow(NamedTuple):
    """A pause as it stands."""

    scope: str
    at: int
    author: str


def read_pauses() -> Op[Pauses]:
    """What is paused now."""
    rows = yield Query("read_pauses")
    return Pauses(frozenset(row[0] for row in rows)) if rows else NO_PAUSES


def list_pauses() -> Op[list[PauseRow]]:
    """What is paused, since when and by whom."""
    return [PauseRow(*row) for row in (yield Query("read_pauses"))]


def held_gates(pauses: Pauses, gates: Sequence[str]) -> Op[frozenset[str]]:
    """Those of some gates that are paused; their pauses stay until this transaction is over."""
    scopes = sorted({scope for gate in gates if (scope := pauses.of_gate(gate)) is not None})
    if not scopes:
        return frozenset()
    still = Pauses(frozenset(row[0] for row in (yield Query("hold_pauses", {"scopes": scopes}))))
    return frozenset(gate for gate in gates if still.of_gate(gate) is not None)


def pause(scope: str, author: str, now: int) -> Op[None]:
    """Let nothing of a scope begin any more."""
    if not (yield Query("insert_pause", {"scope": scope, "now": now, "author": author})):
        raise IllegalTransition(f"{scope_text(scope)} is paused already")


def resume(scope: str, now: int) -> Op[None]:
    """Let a scope go on."""
    if not (yield Query("delete_pause", {"scope": scope})):
        raise IllegalTransition(f"{scope_text(scope)} is not paused")
    what, _, gate = scope.partition(":")
    if what == "source":
        yield from wake_source(gate, now)
    yield Query("notify")


def wake_source(gate: str, now: int) -> Op[None]:
    """Have the lines behind a gate looked at now; of a whole source, those behind all its instances."""
    yield Query("wake_source", {"gate": gate, "now": now})
