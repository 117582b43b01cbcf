"""The worst case of an hour is one: random applications run for simulated hours, and never do more than it says."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as some

from onceward import App, Budget, Config, Context, Payload, Pipeline, Retry, Retryable, Source, Waiting
from onceward.testing import Harness

HOUR_MS = 3_600_000
TICKS = {"tick_every": "30m", "chain": 1, "tick_tasks": 3}
ELSEWHERE = Source("elsewhere", retries=9, breaker=None)
"""A source that no stage declares."""


class Left(Payload, kind="left"):
    number: int


class Right(Payload, kind="right"):
    number: int


class Busy(Exception):
    """It may be tried again at once."""

    retry_after = 0


@dataclass(frozen=True)
class Plan:
    """One stage: what it declares, and what it does."""

    source: int | None
    calls: int
    wants: int
    """How many calls it tries to make, be it more than it may."""


@dataclass(frozen=True)
class Plans:
    """An application, and the luck of those who run it."""

    rates: tuple[tuple[str, int, int | None], ...]
    stages: tuple[tuple[Plan, ...], ...]
    most_calls: int | None
    call_retries: int
    seed: int


plan = some.builds(Plan, some.sampled_from([0, 1]), some.integers(1, 3), some.integers(0, 5))
odd = some.builds(Plan, some.none(), some.integers(0, 3), some.integers(0, 5))
rates = some.sampled_from(["4/hour", "20/hour", "2/min"])
plans = some.builds(
    Plans,
    rates=some.lists(
        some.tuples(rates, some.integers(1, 4), some.sampled_from([0, 2, None])), min_size=2, max_size=2,
    ).map(tuple),
    stages=some.lists(
        some.lists(some.one_of(plan, plan, plan, odd), min_size=1, max_size=3).map(tuple), min_size=1, max_size=2
    ).map(tuple),
    most_calls=some.sampled_from([None, None, 12]),
    call_retries=some.integers(0, 2),
    seed=some.integers(0, 1_000),
)  # fmt: skip


class World:
    """An application by a plan, and the requests that it has made."""

    def __init__(self, plans: Plans, *, are_rated: bool = True) -> None:
        self.dice = random.Random(plans.seed)
        self.sources = [
            Source(f"s{place}", **({"rate": rate, "burst": burst} if are_rated else {}), retries=retries, breaker=None)
            for place, (rate, burst, retries) in enumerate(plans.rates)
        ]
        self.budget = None if plans.most_calls is None else Budget("c", plans.most_calls, unit="calls", per="hour")
        self.now: Callable[[], int] = lambda: 0
        self.requests: list[int] = []
        self.pipelines = [
            self.pipeline(sort, stages) for sort, stages in zip((Left, Right), plans.stages, strict=False)
        ]

    def pipeline(self, sort: type[Payload], stages: tuple[Plan, ...]) -> Pipeline[Any]:
        made: Pipeline[Any] = Pipeline(sort, retry=Retry(retries=2, base="1s"))
        for place, one in enumerate(stages):
            options: dict[str, Any] = {"calls": one.calls}
            if one.source is not None:
                options["source"] = self.sources[one.source]
            if self.budget is not None and one.calls:
                options["budget"] = self.budget
            made.stage(**options)(self.stage(place, one))
        return made

    def stage(self, place: int, plan: Plan) -> Callable[[Context[Any]], None]:
        def work(ctx: Context[Any]) -> None:
            for _ in range(plan.wants):
                ctx.call(self.dice.choice([*self.sources, ELSEWHERE]), self.request)
            match self.dice.randrange(12):
                case 0:
                    raise Retryable("again")
                case 1 if ctx.task.deferrals < 3:
                    raise Waiting(after="1s")
                case 2:
                    raise ValueError("a mistake")

        work.__name__ = f"stage_{place}"
        return work

    def request(self) -> None:
        self.requests.append(self.now())
        if self.dice.random() < 0.3:
            raise Busy

    def app(self, url: str, plans: Plans, **config: Any) -> App:
        return App(url, self.pipelines, config=Config(call_retries=plans.call_retries, **config))

    def work(self, each: int) -> list[Payload]:
        return [sort(number) for sort in (Left, Right)[: len(self.pipelines)] for number in range(each)]


@settings(max_examples=20, deadline=None, derandomize=True)
@given(plans)
def test_workers_never_do_more_in_an_hour_than_the_envelope_says(plans: Plans) -> None:
    world = World(plans)
    harness = Harness(world.app("sqlite:///:memory:", plans))
    world.now = harness.clock.now
    hour = harness.app.envelope(usd_per_1000_calls=1_000).hourly.workers
    harness.app.enqueue_many(world.work(each=8))
    harness.drain()
    busiest = max(Counter(at // HOUR_MS for at in world.requests).values(), default=0)
    assert hour.calls.most is None or busiest <= hour.calls.most, hour.calls.because
    assert hour.usd.most is None or busiest <= hour.usd.most, "a request costs a dollar"


def test_the_plans_above_are_about_something() -> None:
    """A rate bounds what every stage with a source does; a stage without one needs a budget."""
    bounded = Plans((("4/hour", 2, 1), ("20/hour", 3, None)), ((Plan(0, 2, 5), Plan(1, 1, 5)),), None, 2, 7)
    world = World(bounded)
    harness = Harness(world.app("sqlite:///:memory:", bounded))
    world.now = harness.clock.now
    hour = harness.app.envelope().hourly.workers
    assert (hour.calls.most, hour.calls.because) == ((4 + 2) * 3 + (20 + 3) * 3, "the rate of s0 and s1")
    harness.app.enqueue_many(world.work(each=30))
    harness.drain()
    busiest = max(Counter(at // HOUR_MS for at in world.requests).values())
    assert 4 <= busiest <= hour.calls.most


@settings(max_examples=6, deadline=None, derandomize=True)
@given(plans)
def test_ticks_never_do_more_in_an_hour_than_the_envelope_says(plans: Plans) -> None:
    world = World(plans, are_rated=False)
    with TemporaryDirectory() as folder, world.app(f"sqlite:///{folder}/ticks.db", plans, **TICKS) as app:
        app.migrate()
        hour = app.envelope(usd_per_1000_calls=1_000).hourly
        assert (hour.runs, hour.tasks) == (4, 12)
        app.enqueue_many(world.work(each=20))
        for _ in range(hour.runs):  # one after the other, as fast as they can
            app.tick(trigger=lambda _next: None)
        assert hour.calls is None or len(world.requests) <= hour.calls, hour.calls_bounded_by
        assert hour.usd is None or len(world.requests) <= hour.usd, "a request costs a dollar"
