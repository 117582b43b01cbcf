"""Pauses of everything, of queues, pipelines and sources, as operators set them.

The table is tiny. While it is empty a worker reads it a few times a second; while it is not, with every claim. Claims
leave out paused lines, and the tasks in them keep their places. A paused source is a closed gate: a claim that finds
it leaves a turn at the line that never comes (`NEVER`).

The claim locks the row of the pause while it leaves such a turn, and a resume deletes that row first. So the resume
sees every such turn, and sets it to now.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from onceward.errors import IllegalTransition
from onceward.model.pause import NO_PAUSES, Pauses, scope_text
from onceward.store.op import Op, Query


class PauseRow(NamedTuple):
    """One pause: its scope, its time and its author."""

    scope: str
    at: int
    author: str


def read_pauses() -> Op[Pauses]:
    """Read which scopes are paused."""
    rows = yield Query("read_pauses")
    return Pauses(frozenset(row[0] for row in rows)) if rows else NO_PAUSES


def list_pauses() -> Op[list[PauseRow]]:
    """List the pauses, each with its time and author."""
    return [PauseRow(*row) for row in (yield Query("read_pauses"))]


def held_gates(pauses: Pauses, gates: Sequence[str]) -> Op[frozenset[str]]:
    """Which of these gates are paused; their pauses stay until this transaction ends."""
    scopes = sorted({scope for gate in gates if (scope := pauses.of_gate(gate)) is not None})
    if not scopes:
        return frozenset()
    still = Pauses(frozenset(row[0] for row in (yield Query("hold_pauses", {"scopes": scopes}))))
    return frozenset(gate for gate in gates if still.of_gate(gate) is not None)


def pause(scope: str, author: str, now: int) -> Op[None]:
    """Pause a scope: none of its tasks is claimed any more."""
    if not (yield Query("insert_pause", {"scope": scope, "now": now, "author": author})):
        raise IllegalTransition(f"{scope_text(scope)} is paused already")


def resume(scope: str, now: int) -> Op[None]:
    """Resume a scope and notify workers; the turns behind a resumed source come now."""
    if not (yield Query("delete_pause", {"scope": scope})):
        raise IllegalTransition(f"{scope_text(scope)} is not paused")
    what, _, gate = scope.partition(":")
    if what == "source":
        yield from wake_source(gate, now)
    yield Query("notify")


def wake_source(gate: str, now: int) -> Op[None]:
    """Set the turns behind a gate to now; for a source, those behind all its instances."""
    yield Query("wake_source", {"gate": gate, "now": now})
