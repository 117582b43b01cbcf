"""The figures of the last hour on both databases, gathered look by look."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from onceward import Budget, Context, Failed, Filtered, Payload, Pipeline, Retry
from onceward.model.hour import MOST_SAMPLES, Samples
from onceward.store.op import Query
from onceward.store.reports import hour as reader
from onceward.testing import Harness
from tests.worker.conftest import Start


class Page(Payload, kind="page"):
    number: int


class Note(Payload, kind="note"):
    number: int


def pipelines(harness: list[Harness]) -> tuple[Pipeline[Page], Pipeline[Note]]:
    """Pages take two seconds and cost a quarter; every fifth fails, every fifth is filtered. Notes take a minute."""
    money = Budget("money", 1_000)
    page: Pipeline[Page] = Pipeline(Page, retry=Retry(retries=0))
    note: Pipeline[Note] = Pipeline(Note)

    @page.stage(budget=money, estimate=1)
    def fetch(ctx: Context[Page]) -> None:
        harness[0].advance("2s")
        ctx.charge(money, 0.25)
        if ctx.payload.number % 5 == 0:
            raise Failed("gone")
        if ctx.payload.number % 5 == 1:
            raise Filtered("not wanted")

    @note.stage
    def keep(ctx: Context[Note]) -> None:
        harness[0].advance("1m")

    return page, note


def begun(start: Start) -> Harness:
    made: list[Harness] = []
    made.append(start(*pipelines(made)))
    return made[0]


def test_an_hour_without_work_is_empty(start: Start) -> None:
    hour = begun(start).app.stats.hour()
    assert (hour.is_whole, hour.ended, hour.claims, hour.oldest_ready, hour.waited_p50_s) == (True, 0, 0, None, None)
    assert (len(hour.minutes), hour.pipelines, hour.lineages) == (60, (), ())


def test_what_has_ended_is_counted_minute_by_minute(start: Start) -> None:
    harness = begun(start)
    app = harness.app
    app.enqueue_many([Page(number) for number in range(10)])
    harness.drain()
    first = app.stats.hour()
    assert (first.ended, first.failed, first.claims) == (10, 2, 10)
    assert sum(one.left_out for one in first.minutes) == 2
    [page] = first.pipelines
    assert (page.pipeline, page.ended, page.failed, float(page.cost)) == ("page", 10, 2, 2.5)
    assert page.p50_s == 20.0, "they run side by side, and each moves the clock"
    assert first.waited_p50_s == 0.0
    assert len(first.lineages) == 10
    assert float(first.lineages[0].cost) == 0.25

    app.enqueue(Note(1))
    app.tasks.cancel(app.enqueue(Note(2), after="1h"))
    harness.drain(wait_for_due=False)
    harness.advance("2m")
    waiting = app.enqueue(Note(3))
    second = app.stats.hour()
    assert (second.ended, second.claims) == (12, 0)
    assert sum(one.cancelled for one in second.minutes) == 1
    assert [one.pipeline for one in second.pipelines] == ["note", "page"]
    assert second.oldest_ready == app.tasks.get(waiting).created_at
    assert second.minutes[-1].at - second.minutes[0].at == timedelta(minutes=59)
    assert app.stats.hour().ended == 12, "nothing is counted twice"

    harness.advance("1h")
    assert app.stats.hour().ended == 0


def test_another_process_sees_the_same(start: Start) -> None:
    harness = begun(start)
    harness.app.enqueue_many([Page(number) for number in range(10)])
    harness.drain()
    with harness.app.on(harness.app.url, clock=harness.clock) as other:
        assert other.stats.hour() == harness.app.stats.hour()


def test_the_first_look_may_not_reach_back_and_the_next_ones_do(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "FIRST", 4)
    monkeypatch.setattr(reader, "MOST_OLDER", 4)
    monkeypatch.setattr(reader, "LATE", 2)
    harness = begun(start)
    app = harness.app
    app.enqueue_many([Page(number) for number in range(10)])
    harness.drain()
    first = app.stats.hour()
    assert not first.is_whole
    assert 0 < first.ended < 10
    assert first.since > first.at - timedelta(hours=1)
    for _ in range(10):
        last = app.stats.hour()
    assert (last.is_whole, last.ended, last.since) == (True, 10, last.at - timedelta(hours=1))


def test_after_a_long_silence_the_figures_begin_anew(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = begun(start)
    app = harness.app
    app.enqueue(Page(2))
    harness.drain()
    assert app.stats.hour().ended == 1
    monkeypatch.setattr(reader, "FIRST", 4)
    monkeypatch.setattr(reader, "MOST_NEW", 6)
    monkeypatch.setattr(reader, "MOST_OLDER", 1)
    app.enqueue_many([Page(2) for _ in range(20)])
    harness.drain()
    late = app.stats.hour()
    assert not late.is_whole
    assert 0 < late.ended <= 5


def test_a_row_that_was_committed_late_is_counted(start: Start) -> None:
    """The log is read again a little: a transaction may commit after one that began later."""
    harness = begun(start)
    app = harness.app
    app.enqueue_many([Page(2), Page(3)])
    harness.drain()
    assert app.stats.hour().ended == 2
    reading = app.stats._hour
    reading._counted.discard(max(reading._counted))
    assert app.stats.hour().ended == 3


def test_one_look_is_four_statements(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = begun(start)
    app = harness.app
    app.enqueue_many([Page(number) for number in range(10)])
    harness.drain()
    app.stats.hour()
    session = app._session()
    asked: list[str] = []
    real = type(session).run

    def noted(self: object, request: Query) -> object:
        asked.append(request.name)
        return real(self, request)  # type: ignore[arg-type]

    monkeypatch.setattr(type(session), "run", noted)
    app.stats.hour()
    assert [name for name in asked if "setting" not in name] == [
        "edges_of_log", "ended_between", "claims_after", "heads_of_lines_since"
    ]  # fmt: skip


def test_samples_stay_few_and_stand_for_all() -> None:
    samples = Samples()
    for value in range(10_000):
        samples.add(value)
    assert len(samples.kept) <= MOST_SAMPLES
    kept = sorted(samples.kept)
    assert abs(kept[len(kept) // 2] - 5_000) < 200
    assert abs(sum(weight for _, weight in samples.weighted) - 10_000) < 200


def test_it_has_an_awaited_form(start: Start) -> None:
    app = begun(start).app
    assert asyncio.run(app.stats.ahour()) == app.stats.hour()
