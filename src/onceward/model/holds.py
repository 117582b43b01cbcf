"""Holds: amounts of budgets that a task keeps set aside beyond its stage, under a name, and how they are settled.

A hold is a reservation that belongs to a run of a task instead of an attempt. It stays through retries, waits and
deaths until a stage settles or releases it. A hold whose task has ended is lost: it counts as spent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

HELD, ASKED, LOST = 0, 1, 2
"""States of a row: set aside; refused, so that its task waits; counted as spent because its task has ended."""

_PART = "$"
"""What the stage of a part that tells of a hold begins with, so that no stage can be called that."""


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """What a stage says of a hold: so much of it is spent, and the rest is free or stays held."""

    budget: str
    name: str
    amount: int
    unit: str
    keeps_rest: bool = False


class NotEnough(Exception):
    """A budget has not enough left for a hold: its stage waits for it, or fails."""

    def __init__(self, reason: str, waiting_for: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.waiting_for = waiting_for
        """What the task waits for; None if it fails."""


class HeldRow(NamedTuple):
    """One row of a hold: an amount of one budget, for one scope, in one window."""

    budget: str
    scope: str
    window_at: int
    amount: int
    state: int


class Rest(NamedTuple):
    """What settling makes of a row: how its budget changes, and what stays in the row."""

    row: HeldRow
    reserved: int
    spent: int
    above: int
    stays: int


def settle_rows(rows: Iterable[HeldRow], amount: int, *, keeps_rest: bool) -> list[Rest]:
    """Spread what was spent over the rows of a hold: oldest window first, the last takes the rest."""
    found: list[Rest] = []
    by_account: dict[tuple[str, str], list[HeldRow]] = {}
    for row in sorted(rows):
        by_account.setdefault((row.budget, row.scope), []).append(row)
    for mine in by_account.values():
        left = amount
        for row in mine:
            taken = left if row is mine[-1] else min(left, row.amount)
            left -= taken
            stays = max(0, row.amount - taken) if keeps_rest else 0
            gone = row.amount - stays
            was_spent = gone if row.state == LOST else 0
            found.append(Rest(row, was_spent - gone, taken - was_spent, max(0, taken - row.amount), stays))
    return found


def missing(rows: Sequence[HeldRow], budget: str, amount: int) -> int:
    """How much more has to be set aside so that a hold has an amount; a hold is never made smaller."""
    return max(0, amount - sum(row.amount for row in rows if row.budget == budget))


def hold_part(budget: str, name: str) -> tuple[str, str]:
    """Where a context finds what is held of a budget under a name, among the stored parts of its task."""
    return _PART + budget, name


def holds_in(parts: Iterable[tuple[str, str]], name: str) -> list[str]:
    """The budgets of which something is held under a name."""
    return [stage.removeprefix(_PART) for stage, part in parts if part == name and stage.startswith(_PART)]
