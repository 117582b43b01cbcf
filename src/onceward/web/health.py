"""One sentence on whether work is being done: by claims while tasks are ready, never by heartbeats. Pure."""

from __future__ import annotations

from typing import NamedTuple

from onceward.web.facts import Facts
from onceward.web.words import span

JUST_CAME_MS = 30_000
"""As long as the first ready task has not stood for so long, no claim says nothing yet."""


class Health(NamedTuple):
    """Whether work is being done, and what that is seen by."""

    is_good: bool
    headline: str
    text: str
    mark: str


def health(facts: Facts) -> Health:
    """Say whether work is being done."""
    alive = [one for one in facts.standing.workers if not one.is_dead]
    now = round(facts.now.timestamp() * 1_000)
    silent = sum(one.is_silent(now) for one in alive)
    workers = (
        f"{len(alive)} worker{'' if len(alive) == 1 else 's'}, {silent or 'none'} silent."
        if alive
        else "No worker is alive."
    )
    claims, ready, age = facts.hour.claims, facts.ready, facts.oldest_ready_ms
    stood = f"{ready:,} task{' stands' if ready == 1 else 's stand'} ready"
    oldest = "" if age is None else f", the first for {span(age)}"
    paused = any(one.scope == "everything" for one in facts.pauses)
    if paused:
        return Health(
            False, "Everything is paused", f"{stood}{oldest}; nothing begins before it is resumed. {workers}", "paused"
        )
    if not alive and ready:
        return Health(False, "No worker is alive", f"{stood}{oldest}; {_claims(claims)}.", "failed")
    if claims and ready:
        return Health(True, "Work is being done", f"{_claims(claims)}, while {stood}. {workers}", "succeeded")
    if claims and alive:
        return Health(
            True, "Work is being done", f"{_claims(claims)}, and no task stands ready now. {workers}", "succeeded"
        )
    if not ready:
        held = f" {facts.held_back:,} stand in line behind what is closed." if facts.held_back else ""
        done = f" {_claims(claims)}." if claims else ""
        return Health(True, "There is nothing to do", f"No task is ready.{held}{done} {workers}", "succeeded")
    if age is not None and age < JUST_CAME_MS:
        return Health(True, "Work has just come", f"{stood}{oldest}; none is claimed yet. {workers}", "pending")
    return Health(
        False, "Nothing is claimed", f"{stood}{oldest}, and nothing was claimed in the last minute. {workers}", "failed"
    )


def _claims(count: int) -> str:
    return f"{count:,} claim{'' if count == 1 else 's'} in the last minute"
