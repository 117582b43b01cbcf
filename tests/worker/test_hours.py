"""What an hour has come to, beside what it can come to at worst: on both databases, with a clock moved by hand."""

from __future__ import annotations

from typing import Any

import pytest

from onceward import Budget, Context, Payload, Pipeline, Source
from onceward.testing import Harness
from onceward.views.worst_hour import Hourly
from tests.worker.conftest import Start

web = Source("web")
usd = Budget("usd", 100)


class Page(Payload, kind="page"):
    number: int


def pages(*, budget: Budget | None = None) -> Pipeline[Page]:
    """Pages that each take one call, and half a dollar if there is a budget."""
    pipeline: Pipeline[Page] = Pipeline(Page, concurrency=1_000)
    costs: dict[str, Any] = {} if budget is None else {"budget": budget, "estimate": 1}

    @pipeline.stage(source=web, **costs)
    def fetch(ctx: Context[Page]) -> None:
        if budget is not None:
            ctx.charge(budget, 0.5)

    return pipeline


def ticked(harness: Harness, minutes: int = 6, tasks: int = 10) -> None:
    """A tick that has run just now, past the engine: a real one runs on a clock of its own."""
    now = harness.clock.now()
    values = f"(0, {now}, {now + minutes * 60_000}, {tasks})"
    session = harness.app._store.client_session()
    try:
        session.opened().execute(f"INSERT INTO onceward_tick (chain, started_at, ended_at, tasks) VALUES {values}")
    finally:
        session.close()


def an_hour(harness: Harness, count: int, first: int = 0) -> None:
    """One look, one tick and so many pages; then an hour goes by."""
    harness.app.alerts.look()
    ticked(harness)
    harness.app.enqueue_many([Page(first + number) for number in range(count)])
    harness.drain()
    harness.advance("1h")


def measured(harness: Harness, **options: Any) -> Hourly:
    return harness.app.envelope(measured=True, **options).hourly


def test_calls_and_money_are_those_of_an_hour_on_average(start: Start) -> None:
    harness = start(pages(budget=usd))
    an_hour(harness, 10)
    an_hour(harness, 2, first=100)
    typical = measured(harness).typical
    assert typical is not None
    assert (typical.hours, typical.runs, typical.minutes, typical.tasks) == (2.0, 1.0, 6.0, 10.0)
    assert (typical.calls, typical.usd) == (6.0, 3.0)
    assert [row[2] for row in measured(harness).rows] == ["typically", "1.0", "6.0", "10", "6", "3.00"]


def test_what_was_before_the_first_look_does_not_count(start: Start) -> None:
    harness = start(pages())
    harness.app.enqueue_many([Page(number) for number in range(50)])
    harness.drain()
    an_hour(harness, 4, first=100)
    typical = measured(harness).typical
    assert typical is not None
    assert typical.calls == 4.0


def test_less_than_an_hour_is_an_hour(start: Start) -> None:
    harness = start(pages())
    harness.app.alerts.look()
    ticked(harness)
    harness.app.enqueue_many([Page(number) for number in range(3)])
    harness.drain()
    harness.advance("1m")
    typical = measured(harness).typical
    assert typical is not None
    assert (typical.hours, typical.calls) == (1.0, 3.0)


def test_without_a_budget_the_price_of_the_calls_is_the_money(start: Start) -> None:
    harness = start(pages())
    an_hour(harness, 10)
    unknown = measured(harness)
    assert unknown.typical is not None
    assert (unknown.typical.calls, unknown.typical.usd, unknown.rows[-1][2]) == (10.0, None, "–")
    priced = measured(harness, usd_per_1000_calls=400).typical
    assert priced is not None
    assert priced.usd == pytest.approx(4.0)


def test_a_budget_knows_better_than_a_price(start: Start) -> None:
    harness = start(pages(budget=usd))
    an_hour(harness, 10)
    typical = measured(harness, usd_per_1000_calls=400).typical
    assert typical is not None
    assert typical.usd == 5.0


def test_before_the_first_look_calls_are_unknown(start: Start) -> None:
    harness = start(pages())
    ticked(harness)
    found = measured(harness)
    assert found.typical is not None
    assert (found.typical.calls, found.typical.usd, found.rows[-2][2]) == (None, None, "–")


def test_without_ticks_nothing_is_typical(start: Start) -> None:
    harness = start(pages())
    harness.app.alerts.look()
    assert measured(harness).typical is None


def test_totals_are_noted_once_an_hour_and_kept_for_a_week(start: Start) -> None:
    harness = start(pages())

    def noted() -> list[int]:
        asked = "SELECT at FROM onceward_sample WHERE name = 'calls of sources' ORDER BY at"
        return [row[0] for row in harness.app.read(lambda connection: connection.execute(asked).fetchall())]

    first = harness.clock.now()
    for _ in range(26):
        harness.app.alerts.look()
        harness.advance("5m")
    assert noted() == [first, first + 65 * 60_000]
    harness.advance("6d")
    harness.app.alerts.look()
    assert noted()[0] == first
    harness.advance("1d")
    harness.app.alerts.look()
    assert first not in noted()
