"""Usage of an average hour: from rows of ticks, and from totals that the watches store once an hour."""

from __future__ import annotations

from onceward.model.budget import WHOLE
from onceward.model.hourly_usage import CALLS, DAYS_BACK_MS, HOUR_MS, MONEY, SPENDING, Typical, growth_an_hour
from onceward.store.op import Op, Query


def typical_hour(now: int) -> Op[Typical | None]:
    """The average of the last seven days; None if no tick has run in them."""
    [(runs, tasks, busy_ms, first_at)] = yield Query("hours_of_ticks", {"after": now - DAYS_BACK_MS})
    if not runs:
        return None
    hours = max(1.0, (now - first_at) / HOUR_MS)
    calls, usd = yield from spending_an_hour(now, DAYS_BACK_MS)
    return Typical(hours, runs / hours, busy_ms / 60_000 / hours, tasks / hours, calls, usd)


def total_spending() -> Op[dict[str, int]]:
    """The tokens taken from sources so far, and the money spent, in 10^-9 USD."""
    [(calls, spent, _)] = yield Query("totals_of_spending")
    return {CALLS: calls, MONEY: spent}


def spending_an_hour(now: int, back_ms: int) -> Op[tuple[float | None, float | None]]:
    """Calls and USD an hour, over the last time of that length. Without a budget in USD no money is counted."""
    [(calls, spent, budgets)] = yield Query("totals_of_spending")
    noted: dict[str, list[tuple[int, int]]] = {name: [] for name in SPENDING}
    for name, at, value in (yield Query("samples_named", {"since": now - back_ms, "names": list(SPENDING)})):
        noted[name].append((at, value))
    money = growth_an_hour(noted[MONEY], now, spent) if budgets else None
    return growth_an_hour(noted[CALLS], now, calls), None if money is None else money / WHOLE
