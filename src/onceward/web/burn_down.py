"""Draws how a budget went: what was not spent, what of it was set aside, the pace that would last, and its limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise

from onceward.operations.budgets import BudgetPoint, BudgetStatus

WIDTH, HEIGHT = 1_040, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 1_024, 30, 276
STEPS = (1, 2, 2.5, 5, 10)
DAY_MS, HOUR_MS = 86_400_000, 3_600_000


@dataclass(slots=True)
class Tick:
    """A line of the grid, or a time, with its word."""

    at: float
    word: str
    anchor: str = "middle"


@dataclass(slots=True)
class BurnDown:
    """The chart of a budget, as paths of an SVG."""

    left: str = ""
    """The area of what is left to set aside."""
    aside: str = ""
    """The area of what is set aside."""
    line: str = ""
    """What is not spent."""
    pace: str = ""
    limits: list[Tick] = field(default_factory=list)
    """Where the limit has changed."""
    amounts: list[Tick] = field(default_factory=list)
    times: list[Tick] = field(default_factory=list)
    now: float = 0
    now_anchor: str = "start"
    last_y: float = 0
    is_empty: bool = False


def burn_down(points: Sequence[BudgetPoint], budget: BudgetStatus, now_ms: int) -> BurnDown:
    """Draw a budget in its present window; one without a window in the last day."""
    begins = int(budget.window_at.timestamp() * 1_000) if budget.window_at else now_ms - DAY_MS
    ends = int(budget.resets_at.timestamp() * 1_000) if budget.resets_at else now_ms
    inside = [
        point for point in points if point.at.timestamp() * 1_000 >= begins and point.at.timestamp() * 1_000 <= now_ms
    ]
    now = BudgetPoint(datetime.fromtimestamp(now_ms / 1_000, UTC), budget.spent, budget.reserved, budget.limit)
    looks = [*inside, now]
    top = max([*(point.limit for point in looks), Decimal("0.000000001")])
    chart = BurnDown(is_empty=not inside)

    def across(ms: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * (ms - begins) / max(1, ends - begins), 1)

    def up(amount: Decimal) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * float(max(Decimal(0), amount) / top), 1)

    if budget.window_at and looks and looks[0].at.timestamp() * 1_000 > begins:  # it began with nothing spent
        looks.insert(0, BudgetPoint(budget.window_at, Decimal(0), Decimal(0), looks[0].limit))
    xs = [across(point.at.timestamp() * 1_000) for point in looks]
    unspent = [up(point.limit - point.spent) for point in looks]
    free = [up(point.limit - point.spent - point.reserved) for point in looks]
    chart.line = _steps(xs, unspent)
    lower = _steps(xs, free)
    chart.left = f"{lower}V{BOTTOM}H{xs[0]}Z"
    chart.aside = f"{chart.line}L{_back(xs, free)}Z"
    if budget.resets_at:
        chart.pace = f"M{xs[0]} {up(looks[0].limit)}L{across(ends)} {BOTTOM}"
    for before, after in pairwise(looks):
        if before.limit != after.limit:
            word = f"{_plain(before.limit)} → {_plain(after.limit)}"
            chart.limits.append(Tick(across(after.at.timestamp() * 1_000), word))
    chart.amounts = [Tick(up(amount), _plain(amount)) for amount in _amounts(top)]
    chart.times = _times(begins, ends, across)
    chart.now = across(now_ms)
    chart.now_anchor = "end" if chart.now > RIGHT - 60 else "start"
    chart.last_y = unspent[-1]
    return chart


def _steps(xs: Sequence[float], ys: Sequence[float]) -> str:
    steps = "".join(f"H{x}V{y}" for x, y in zip(xs[1:], ys[1:], strict=True))
    return f"M{xs[0]} {ys[0]}{steps}"


def _back(xs: Sequence[float], ys: Sequence[float]) -> str:
    """The same steps from their end to their beginning."""
    steps = "".join(f"V{ys[place]}H{xs[place]}" for place in range(len(xs) - 2, -1, -1))
    return f"{xs[-1]} {ys[-1]}{steps}"


def _amounts(top: Decimal) -> list[Decimal]:
    """Four or five round amounts up to the limit."""
    power = Decimal(10) ** ((top / 4).adjusted())
    step = next(one for one in (power * Decimal(str(size)) for size in STEPS) if one * 5 >= top)
    return [step * count for count in range(int(top / step) + 1)]


def _times(begins: int, ends: int, across: object) -> list[Tick]:
    assert callable(across)
    length = ends - begins
    step = next((one * 60_000 for one in (5, 10, 15, 30, 60, 120, 240) if length / (one * 60_000) <= 7), 14_400_000)
    first = -(-begins // step) * step
    ticks = []
    for at in range(first, ends + 1, step):
        word = f"{datetime.fromtimestamp(at / 1_000, UTC):%H:%M}"
        word = "24:00" if at == ends and word == "00:00" else word
        ticks.append(Tick(across(at), word, "start" if at == begins else "end" if at == ends else "middle"))
    return ticks


def _plain(amount: Decimal) -> str:
    text = f"{amount.normalize():f}"
    return f"{int(amount):,}" if amount == int(amount) else text
