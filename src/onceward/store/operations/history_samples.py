"""What every look notes of budgets and sources, so that pages can draw the last day of both."""

from __future__ import annotations

from typing import NamedTuple

from onceward.store.op import Op, Query

DAY_MS = 86_400_000
MOST_BUDGETS = 50
MOST_GATES = 60
MOST_POINTS = 4_000
HISTORY = "history "
"""How the names of these samples begin: they are kept for a day."""
BUDGET, SOURCE = f"{HISTORY}budget ", f"{HISTORY}source "
OPEN, HALF_OPEN, SHUT, OFF = range(4)
"""How a source stood."""


class BudgetSample(NamedTuple):
    """A budget of the whole app as a look has found it, in 10^-9 of its unit."""

    at: int
    spent: int
    reserved: int
    ceiling: int


class SourceSample(NamedTuple):
    """A gate as a look has found it: how it stood, and what it had counted so far."""

    at: int
    stood: int
    calls: int
    failures: int


def take_samples(now: int) -> Op[dict[str, int]]:
    """Note the budgets of the whole app, and the gates that were used last."""
    noted: dict[str, int] = {}
    for name, spent, reserved, ceiling in (yield Query("budgets_to_sample", {"now": now, "limit": MOST_BUDGETS})):
        noted |= {
            f"{BUDGET}{name} {what}": value for what, value in zip("sra", (spent, reserved, ceiling), strict=True)
        }
    rows = yield Query("gates_to_sample", {"now": now, "limit": MOST_GATES})
    for name, calls, failures, _, enabled, paused_until, is_half_open in rows:
        stood = OFF if not enabled else SHUT if paused_until > now else HALF_OPEN if is_half_open else OPEN
        noted |= {f"{SOURCE}{name} {what}": value for what, value in zip("ocf", (stood, calls, failures), strict=True)}
    return noted


def budget_samples(name: str, since: int) -> Op[list[BudgetSample]]:
    """Read what was noted of a budget since a time, oldest first."""
    found = yield from _samples(f"{BUDGET}{name} ", since)
    return [BudgetSample(at, *(values[what] for what in "sra")) for at, values in found if set("sra") <= values.keys()]


def source_samples(since: int) -> Op[dict[str, list[SourceSample]]]:
    """Read what was noted of all sources since a time, by gate, oldest first."""
    asked = {"prefix": SOURCE, "since": since, "limit": MOST_GATES * 3 * 300}
    noted: dict[str, dict[int, dict[str, int]]] = {}
    for at, name, value in (yield Query("history_samples", asked)):
        gate, _, what = name.removeprefix(SOURCE).rpartition(" ")
        noted.setdefault(gate, {}).setdefault(at, {})[what] = value
    return {
        gate: [
            SourceSample(at, *(values[what] for what in "ocf"))
            for at, values in points.items()
            if set("ocf") <= values.keys()
        ]
        for gate, points in noted.items()
    }


def _samples(prefix: str, since: int) -> Op[list[tuple[int, dict[str, int]]]]:
    found: dict[int, dict[str, int]] = {}
    rows = yield Query("history_samples", {"prefix": prefix, "since": since, "limit": MOST_POINTS})
    for at, name, value in rows:
        found.setdefault(at, {})[name.removeprefix(prefix)] = value
    return list(found.items())
