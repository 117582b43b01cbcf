"""The worst case of an hour, from the configuration alone."""

from __future__ import annotations

from typing import Any

import pytest

from onceward import App, Budget, Config, Context, Payload, Pipeline, Source
from onceward.model.hourly_usage import HOUR_MS, Typical, growth_an_hour
from onceward.views.worst_hour import hourly


@pytest.mark.parametrize(
    ("profile", "runs", "minutes", "tasks", "calls"),
    [
        ("conservative", 24, 240, 24_000, 96_000),
        ("balanced", 36, 360, 36_000, 252_000),
        ("aggressive", 72, 720, 72_000, 792_000),
    ],
)
def test_the_three_profiles(profile: str, runs: int, minutes: int, tasks: int, calls: int) -> None:
    found = App("sqlite:///:memory:", profile=profile).envelope(usd_per_1000_calls=2.0).hourly
    assert (found.runs, found.minutes, found.tasks, found.calls) == (runs, minutes, tasks, calls)
    assert found.usd == calls * 2.0 / 1_000
    assert found.bounded_by == "the price of its calls"


@pytest.mark.parametrize(
    ("source", "calls", "each"),
    [
        (Source("web"), 1, 7),
        (Source("web", retries=0), 1, 7),  # ctx.call may be of any other source
        (Source("web", retries=20, timeout="1s"), 1, 21),
        (Source("web", retries=1), 10, 70),
        (Source("web", timeout="1s"), 3, 21),
    ],
)
def test_calls_and_retries_that_the_code_declares_are_in_it(source: Source, calls: int, each: int) -> None:
    pipeline = Pipeline(Page)

    @pipeline.stage(source=source, calls=calls)
    def ask(ctx: Context[Page]) -> None: ...

    found = App("sqlite:///:memory:", [pipeline]).envelope(usd_per_1000_calls=1).hourly
    assert (found.calls, found.usd) == (36_000 * each, 36.0 * each)


def test_without_a_price_the_cost_is_unknown() -> None:
    found = hourly(Config(), [], [], [])
    assert found.usd is None
    assert found.exceeds(10**9), "what nothing bounds exceeds every bound"
    assert any("the cost of a call is not declared" in sentence for sentence in found.unbounded)


def test_a_budget_over_everything_bounds_the_hour() -> None:
    web, usd = Source("web", rate="600/min", burst=10), Budget("model-usd", 5, per="day")
    app = App("sqlite:///:memory:", [asking(web, usd)])
    found = app.envelope().hourly
    assert (found.usd, found.bounded_by) == (5.0, "the budget model-usd")
    assert app.envelope(usd_per_1000_calls=0.001).hourly.usd == pytest.approx(0.252)
    assert found.sources == (("web", 36_010),)
    assert found.budgets == (("model-usd", "app", "day", "5.00 USD"),)


def test_a_stage_that_is_under_no_budget_leaves_the_hour_open() -> None:
    app = App("sqlite:///:memory:", [asking(Source("web"), None)])
    assert app.envelope().hourly.usd is None


def test_what_is_done_at_expiry_under_no_budget_leaves_the_hour_open() -> None:
    web = Source("web")
    pipeline = asking(web, Budget("model-usd", 5, per="day"))

    @pipeline.at_expiry(source=web)
    def cancel(ctx: Context[Page]) -> None: ...

    assert App("sqlite:///:memory:", [pipeline]).envelope().hourly.usd is None


def test_minutes_that_have_begun_count() -> None:
    assert hourly(Config(tick_every="1h", chain=0, tick_limit="50s"), [], [], []).minutes == 1


class Page(Payload, kind="page"):
    url: str


def asking(source: Source, budget: Budget | None) -> Pipeline[Page]:
    pipeline = Pipeline(Page)

    def ask(ctx: Context[Page]) -> None: ...

    if budget is None:
        pipeline.stage(source=source)(ask)
    else:
        pipeline.stage(source=source, budget=budget, estimate=0.02)(ask)
    return pipeline


@pytest.mark.parametrize(
    ("noted", "total", "growth"),
    [
        ([], 70, None),
        ([(0, 10)], 70, 30.0),
        ([(0, 10), (HOUR_MS, 50)], 70, 30.0),
        ([(0, 100), (HOUR_MS, 0)], 70, 35.0),
        ([(2 * HOUR_MS, 10)], 70, 60.0),
    ],
)
def test_a_total_grows_by_so_much_an_hour(noted: list[tuple[int, int]], total: int, growth: float | None) -> None:
    assert growth_an_hour(noted, 2 * HOUR_MS, total) == growth


def test_a_price_says_what_calls_have_cost_where_no_budget_does() -> None:
    typical = Typical(1.0, 1.0, 1.0, 1.0, calls=500.0)
    assert typical.priced(2.0).usd == 1.0
    assert typical.priced(None).usd is None
    assert typical._replace(usd=7.0).priced(2.0).usd == 7.0
    assert typical._replace(calls=None).priced(2.0).usd is None


def staged(*stages: dict[str, Any], at_expiry: dict[str, Any] | None = None) -> App:
    """An app with one pipeline of these stages."""
    pipeline = Pipeline(Page)
    for place, options in enumerate(stages):

        def ask(ctx: Context[Page]) -> None: ...

        ask.__name__ = f"ask_{place}"
        pipeline.stage(**options)(ask)
    if at_expiry is not None:

        @pipeline.at_expiry(**at_expiry)
        def cancel(ctx: Context[Page]) -> None: ...

    return App("sqlite:///:memory:", [pipeline])


def test_a_task_goes_through_all_its_stages() -> None:
    found = staged({"calls": 2}, {}, {"source": Source("web", retries=9, timeout="1s"), "calls": 3}).envelope().hourly
    assert found.calls == 36_000 * (2 * 7 + 3 * 10)
    assert staged({}, {}).envelope(usd_per_1000_calls=5).hourly.usd == 0


RATED = Source("web", rate="10/min", burst=5, retries=1)
TEN = Budget("ten", 10, unit="calls", per="hour")


@pytest.mark.parametrize(
    ("stages", "calls", "because"),
    [
        ([{}], 0, "that no stage declares any"),
        ([{"source": RATED}], 605 * 7, "the rate of web"),
        ([{"source": RATED, "calls": 4}, {"source": Source("model", rate="60/hour")}], 605 * 7 + 61 * 7, "the rate of"),
        ([{"source": RATED, "budget": TEN}, {"calls": 3, "budget": TEN}], 10, "the budget ten"),
        ([{"source": RATED, "calls": lambda _: 3, "budget": TEN}], 10, "the budget ten"),
        ([{"source": RATED}, {"calls": 1}], None, "a budget in calls for stage page.ask_1"),
        ([{"source": Source("web")}], None, "rate= of source 'web', which stage page.ask_0 calls"),
        (
            [{"source": RATED, "calls": lambda _: 3}],
            None,
            "a number instead of a function as calls= of stage page.ask_0",
        ),
        ([{"source": Source("web", per=str, rate="1/s")}], None, "a source without per= for stage page.ask_0"),
    ],
)
def test_what_bounds_workers_and_what_would(stages: list[dict[str, Any]], calls: int | None, because: str) -> None:
    found = staged(*stages).envelope(usd_per_1000_calls=1_000).hourly
    assert found.workers.calls.most == calls
    assert because in found.workers.calls.because
    assert found.workers.usd.most == calls, "a call costs a dollar"
    assert bool([one for one in found.unbounded if "workers" in one]) == (calls is None)


def test_what_is_called_at_expiry_needs_a_budget() -> None:
    found = staged({"source": RATED}, at_expiry={"source": RATED}).envelope().hourly
    assert found.workers.calls.most is None
    assert found.calls == 36_000 * 14


def test_a_bound_fails_for_what_it_names_and_for_nothing_else() -> None:
    web, usd = Source("web"), Budget("usd", 5, per="hour")
    hour = staged({"source": web, "budget": usd, "estimate": 1}).envelope().hourly
    assert hour.workers.calls.most is None
    assert hour.worst("calls").is_above(10**12), "nothing bounds the calls of workers"
    assert not hour.worst("calls", ticks_only=True).is_above(252_000)
    assert hour.worst("calls", ticks_only=True).is_above(251_999)
    assert not hour.exceeds(5), "but money has a budget"
    assert hour.exceeds(4.99)
