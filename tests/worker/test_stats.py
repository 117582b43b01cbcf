"""The numbers people ask for, on both databases, with a clock moved by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from onceward import (
    App,
    Budget,
    ConfigError,
    Context,
    Event,
    Payload,
    Pipeline,
    Retry,
    Source,
    Stats,
    Status,
    Waiting,
)
from onceward.model.task import HandOver
from onceward.store.reports import stats as store_stats
from onceward.testing import Harness
from tests.store.conftest import Hands
from tests.worker.conftest import Clockwork, Start

HOUR_MS = 3_600_000


class Page(Payload, kind="page"):
    url: str
    text: str = ""


class Mail(Payload, kind="mail"):
    to: str


def slow_pages(harness: list[Harness], *, source: Source | None = None, retries: int = 3) -> Pipeline[Page]:
    """Pages that take two seconds to fetch and five to read; one whose address is bad fails first."""
    pipeline: Pipeline[Page] = Pipeline(Page, retry=Retry(retries=retries, base="1s", jitter=False))

    @pipeline.stage(source=source)
    def fetch(ctx: Context[Page]) -> int:
        harness[0].advance("2s")
        if ctx.payload.url == "bad" and ctx.task.attempt == 1:
            raise ConnectionError("no answer")
        return 1

    @pipeline.stage
    def read(ctx: Context[Page]) -> None:
        harness[0].advance("5s")

    return pipeline


def mails() -> Pipeline[Mail]:
    pipeline: Pipeline[Mail] = Pipeline(Mail)

    @pipeline.stage
    def send(ctx: Context[Mail]) -> None: ...

    return pipeline


def started(start: Start, **options: Any) -> Harness:
    made: list[Harness] = []
    made.append(start(slow_pages(made, **options), mails()))
    return made[0]


def test_an_empty_database_has_figures_of_nothing(start: Start) -> None:
    found = start(mails()).app.stats.get()
    assert (found.stuck, found.durations, found.pipelines, found.sources, found.cache) == ((), (), (), (), ())
    assert (found.attempts.attempts, found.retry_rate, found.reclaim_rate) == (0, None, None)
    assert (found.cache_total.hit_rate, found.cache_total.retry_hit_rate, found.is_whole) == (None, None, True)
    assert (found.at - found.since).total_seconds() == 24 * 3_600


def test_stages_are_timed_by_pipeline_stage_and_size(start: Start) -> None:
    harness = started(start)
    for payload in (Page("a"), Page("b"), Page("c", "x" * 5_000), Page("d", "x" * 200_000)):
        harness.enqueue(payload)
        harness.drain()
    found = [
        (one.pipeline, one.stage, one.size, one.count, one.p50_s, one.p95_s, one.max_s)
        for one in harness.app.stats.get().durations
    ]
    assert found == [
        ("page", stage, size, count, seconds, seconds, seconds)
        for stage, seconds in (("fetch", 2.0), ("read", 5.0))
        for size, count in (("below 1 kB", 2), ("1 to 10 kB", 1), ("100 kB or more", 1))
    ]  # fmt: skip


def test_stages_are_timed_by_the_size_that_they_measure(start: Start) -> None:
    book: Pipeline[Page] = Pipeline(Page)

    @book.stage
    def extract(ctx: Context[Page]) -> bool:
        words = len(ctx.payload.text)
        harness.advance(f"{words}s")
        ctx.measure(words=words)
        return ctx.is_fresh

    @book.stage
    def save(ctx: Context[Page]) -> None: ...

    harness = start(book)
    for text in ("x" * 3, "x" * 20, "x" * 70):
        harness.enqueue(Page(text, text))
        harness.drain()
    timed = [(one.stage, one.size, one.count, one.max_s) for one in harness.app.stats.get().durations]
    assert timed == [
        ("extract", "0 to 9 words", 1, 3.0),
        ("extract", "10 to 99 words", 2, 70.0),
        ("save", "below 1 kB", 3, 0.0),
    ]


def test_a_measured_stage_that_is_retried_is_still_fresh(start: Start) -> None:
    book: Pipeline[Page] = Pipeline(Page, retry=Retry(retries=1, base="1s"))
    fresh: list[bool] = []

    @book.stage
    def extract(ctx: Context[Page]) -> None:
        fresh.append(ctx.is_fresh)
        ctx.measure(words=7)
        if len(fresh) == 1:
            raise ConnectionError("no answer")

    harness = start(book)
    harness.enqueue(Page("one"))
    harness.drain()
    assert fresh == [True, True]


def test_the_pace_and_the_time_in_line_are_told(start: Start) -> None:
    page: Pipeline[Page] = Pipeline(Page, retry=Retry(retries=0))

    @page.stage
    def fetch(ctx: Context[Page]) -> None:
        if ctx.payload.url == "bad":
            raise ConnectionError("no answer")

    harness = start(page)
    harness.enqueue(Page("old"))
    harness.drain()
    harness.advance("1h")
    for url in ("good", "bad"):
        harness.enqueue(Page(url))
    later = harness.enqueue(Page("later"), after="8s")
    harness.advance("5s")
    harness.drain()
    assert harness.task(later).status is Status.SUCCEEDED
    found = harness.app.stats.get()
    assert (found.pace.minutes, found.pace.ended, found.pace.failed) == (10.0, 3, 1)
    assert (found.pace.ended_a_minute, found.pace.failed_a_minute) == (0.3, 0.1)
    [waited] = found.waited
    assert (waited.pipeline, waited.count, waited.p50_s, waited.max_s) == ("page", 3, 0.0, 5.0)


def test_spending_is_told_as_an_hours_worth(start: Start) -> None:
    usd = Budget("usd", limit=100)
    page: Pipeline[Page] = Pipeline(Page)

    @page.stage(budget=usd, estimate=3)
    def fetch(ctx: Context[Page]) -> None:
        ctx.charge(usd, 3)

    harness = start(page)
    assert harness.app.stats.get().usd_an_hour is None
    harness.app.alerts.look()
    harness.enqueue(Page("one"))
    harness.drain()
    harness.advance("30m")
    assert harness.app.stats.get().usd_an_hour == 3.0


def test_a_batch_tells_how_long_it_will_take(start: Start) -> None:
    page: Pipeline[Page] = Pipeline(Page)

    @page.stage
    def fetch(ctx: Context[Page]) -> None:
        if ctx.payload.url == "held" and not ctx.signal("approved"):
            raise Waiting(until="approved")

    harness = start(page)
    with harness.app.batch("night") as batch:
        for url in ("held", "one", "two", "three"):
            batch.add(Page(url))
    opened = harness.app.batches.get("night")
    half_a_minute_later = opened.created_at + timedelta(seconds=30)
    assert opened.time_left(half_a_minute_later) is None
    harness.drain()
    assert harness.app.batches.get("night").time_left(half_a_minute_later) == timedelta(seconds=10)
    [waiting] = harness.app.tasks.list(status="waiting")
    harness.app.tasks.signal(waiting.id, "approved")
    harness.drain()
    assert harness.app.batches.get("night").time_left(half_a_minute_later) is None


def test_retries_are_counted_by_pipeline_and_by_source(start: Start) -> None:
    harness = started(start, source=Source("web"))
    harness.app.enqueue_many([Page("a"), Page("bad"), Mail("ada")])
    harness.drain()
    found = harness.app.stats.get()
    mail, page = found.pipelines
    assert (mail.name, mail.attempts, mail.retries, mail.retry_rate) == ("mail", 1, 0, 0.0)
    assert (page.name, page.attempts, page.retries) == ("page", 3, 1)
    [web] = found.sources
    assert (web.name, web.attempts, web.retries) == ("web", 3, 1), "also those that went on with the next stage"
    assert (found.attempts.attempts, found.retry_rate) == (4, 0.25)


def test_without_the_code_it_is_unknown_which_stage_has_which_source(start: Start, store_url: str) -> None:
    harness = started(start, source=Source("web"))
    harness.enqueue(Page("bad"))
    harness.drain()
    with App(store_url).on(store_url, clock=harness.clock) as other:
        found = other.stats.get()
    assert ([one.name for one in found.pipelines], found.sources) == (["page"], ())


def test_what_dead_workers_held_is_counted(start: Start) -> None:
    harness = started(start)
    harness.enqueue(Page("a"))
    harness.crash("before read")
    harness.drain()
    found = harness.app.stats.get()
    assert (found.attempts.attempts, found.attempts.reclaimed, found.reclaim_rate) == (2, 1, 0.5)
    assert found.retry_rate == 0.0, "a death is no retry"
    assert {(one.stage, one.count) for one in found.durations} == {("fetch", 1), ("read", 1)}


def test_what_lies_before_the_window_does_not_count(start: Start) -> None:
    harness = started(start)
    harness.enqueue(Page("a"))
    harness.drain()
    harness.advance("2h")
    harness.enqueue(Mail("ada"))
    harness.drain()
    assert [one.name for one in harness.app.stats.get("1h").pipelines] == ["mail"]
    assert [one.name for one in harness.app.stats.get("3h").pipelines] == ["mail", "page"]
    with pytest.raises(ConfigError, match="not a duration"):
        harness.app.stats.get("yesterday")


def test_pages_of_the_log_are_read_to_the_end_or_until_there_are_too_many(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_stats, "PAGE", 3)
    harness = started(start)
    for number in range(4):
        harness.enqueue(Page(str(number)))
        harness.drain()
        harness.advance("1m")
    whole = harness.app.stats.get()
    assert (whole.is_whole, [one.count for one in whole.durations]) == (True, [4, 4])
    monkeypatch.setattr(store_stats, "MOST_ROWS", 3)
    cut = harness.app.stats.get()
    assert cut.is_whole is False
    assert cut.since > whole.since
    # Of the third attempt only the last row is read: when its stage began is known all the same.
    assert [(one.stage, one.count, one.max_s) for one in cut.durations] == [("fetch", 1, 2.0), ("read", 2, 5.0)]


def test_the_cache_is_there_with_what_it_saved_on_retries(start: Start) -> None:
    web = Source("web")
    pipeline: Pipeline[Page] = Pipeline(Page, retry=Retry(retries=3, base="1s"))

    @pipeline.stage(calls=10)
    def fetch(ctx: Context[Page]) -> None:
        ctx.cached(web, "same", lambda: "answer")
        if ctx.task.attempt == 1:
            raise ConnectionError("afterwards")

    harness = start(pipeline)
    harness.enqueue(Page("a"))
    harness.drain()
    total = harness.app.stats.get().cache_total
    assert (total.hits, total.misses, total.hit_rate, total.retry_hit_rate) == (1, 1, 0.5, 1.0)


# Stuck tasks


def why_stuck(found: Stats) -> dict[int, str]:
    return {one.id: one.sentence for one in found.stuck}


def test_a_task_of_a_silent_worker_is_stuck(clockwork: Clockwork, hands: Hands) -> None:
    [task] = hands.enqueue()
    hands.claim(hands.worker(lease_ms=60_000))
    clockwork.clock.advance(59)
    assert clockwork.app.stats.get().stuck == ()
    clockwork.clock.advance(2)
    [found] = clockwork.app.stats.get().stuck
    assert (found.id, found.pipeline, found.status, found.stage) == (task, "note", Status.RUNNING, None)
    assert "its worker ant has been silent for longer than its lease" in found.sentence
    assert found.since.timestamp() * 1_000 == hands.now


def test_a_stage_that_gives_no_sign_is_stuck_though_its_worker_lives(clockwork: Clockwork, hands: Hands) -> None:
    [task] = hands.enqueue()
    worker = hands.worker(lease_ms=24 * HOUR_MS)
    hands.claim(worker)
    clockwork.clock.advance("59m")
    assert clockwork.app.stats.get().stuck == ()
    clockwork.clock.advance("2m")
    assert "its first stage has run on ant for 1h1m without" in why_stuck(clockwork.app.stats.get())[task]
    assert clockwork.app.stats.get(stuck_after="2h").stuck == ()
    clockwork.app.tasks.cancel(task)


def test_progress_is_a_sign_of_life(clockwork: Clockwork, hands: Hands) -> None:
    [task] = hands.enqueue()
    hands.claim(hands.worker(lease_ms=24 * HOUR_MS))
    clockwork.clock.advance("90m")
    told = clockwork.clock.now() - 60_000
    hands.sql("INSERT INTO onceward_progress (task, stage, done, at) VALUES (?, 'read', 1, ?)", task, told)
    assert clockwork.app.stats.get().stuck == ()
    clockwork.clock.advance("60m")
    assert list(why_stuck(clockwork.app.stats.get())) == [task]
    clockwork.app.tasks.cancel(task)


def waiting(until: str | None, after: str | None = None) -> Pipeline[Page]:
    pipeline: Pipeline[Page] = Pipeline(Page)

    @pipeline.stage
    def ask(ctx: Context[Page]) -> None:
        raise Waiting(until=until, after=after)

    return pipeline


def test_who_waits_for_a_signal_without_a_time_is_stuck_after_a_while(start: Start) -> None:
    harness = start(waiting("approved"))
    task = harness.enqueue(Page("a"))
    harness.drain(wait_for_due=False)
    harness.advance("30m")
    assert harness.app.stats.get().stuck == ()
    harness.advance("31m")
    [found] = harness.app.stats.get().stuck
    assert (found.id, found.status, found.stage) == (task.id, Status.WAITING, "ask")
    assert "the signal 'approved'" in found.sentence
    assert (harness.app.stats.get().at - found.since).total_seconds() == 61 * 60


def test_who_is_woken_by_time_or_held_by_an_operator_is_not_stuck(start: Start) -> None:
    harness = start(waiting("approved", "3h"))
    timed = harness.enqueue(Page("a"))
    harness.drain(wait_for_due=False)
    harness.advance("2h")
    assert harness.app.why(timed.id).until is not None
    assert harness.app.stats.get().stuck == ()


def test_a_paused_task_is_not_stuck(start: Start) -> None:
    harness = start(waiting("approved"))
    task = harness.enqueue(Page("a"))
    harness.drain(wait_for_due=False)
    harness.app.lineages.pause(task.id)
    harness.advance("2h")
    assert harness.app.stats.get().stuck == ()


@pytest.mark.parametrize("per", ["total", "hour"])
def test_who_waits_for_a_budget_that_does_not_begin_anew_is_stuck(start: Start, per: Any) -> None:
    usd = Budget("usd", 1, per=per)
    pipeline: Pipeline[Page] = Pipeline(Page)

    @pipeline.stage(budget=usd, estimate=1)
    def buy(ctx: Context[Page]) -> None:
        ctx.charge(usd, 1)

    harness = start(pipeline)
    tasks = [harness.enqueue(Page(url)) for url in "ab"]
    harness.drain(wait_for_due=False)
    [late] = [task.id for task in tasks if harness.task(task).status is Status.WAITING]
    harness.advance("2h")
    expected = {late: "it waits for budget usd, which does not begin anew: only a higher limit will wake it"}
    assert why_stuck(harness.app.stats.get()) == (expected if per == "total" else {})


@contextmanager
def parked(hands: Hands, waiting_for: str) -> Iterator[int]:
    """A task that waits for something, past the engine; in the end as the engine would have it."""
    [task] = hands.enqueue()
    [lease] = hands.claim(hands.worker())
    hands.commit(lease, HandOver("first", b"1", "second", "default"))
    change = "UPDATE onceward_task SET status = ?, waiting_for = ?, due_at = ? WHERE id = ?"
    hands.sql(change, 3, waiting_for, 1 << 62, task)
    yield task
    hands.sql(change, 0, None, hands.now, task)


@pytest.mark.parametrize(
    ("waiting_for", "words"),
    [
        ("children", "children, of which none is open"),
        ("batch:night", "batch 'night', which is not open"),
        ("code:old", "other code"),
    ],
)
def test_a_task_that_waits_in_vain_is_stuck(clockwork: Clockwork, hands: Hands, waiting_for: str, words: str) -> None:
    with parked(hands, waiting_for) as task:
        clockwork.clock.advance("59m")
        assert task not in why_stuck(clockwork.app.stats.get())
        clockwork.clock.advance("2m")
        assert words in why_stuck(clockwork.app.stats.get())[task]


def test_who_follows_an_open_batch_is_not_stuck(clockwork: Clockwork, hands: Hands) -> None:
    with parked(hands, "batch:night") as task:
        clockwork.clock.advance("2h")
        hands.sql("INSERT INTO onceward_batch (name, created_at) VALUES ('night', ?)", hands.now)
        assert task not in why_stuck(clockwork.app.stats.get())
        hands.sql("UPDATE onceward_batch SET status = 1, ended_at = ? WHERE name = 'night'", hands.now)
        assert task in why_stuck(clockwork.app.stats.get())
        hands.sql("DELETE FROM onceward_batch")


def test_the_first_of_a_line_is_stuck_with_the_reason_that_why_gives(clockwork: Clockwork, hands: Hands) -> None:
    first, *_ = hands.enqueue(3)
    [other] = hands.enqueue(kind="letter")
    clockwork.clock.advance("50m")
    hands.now = clockwork.clock.now()
    hands.enqueue(kind="fresh")
    assert clockwork.app.stats.get().stuck == ()
    clockwork.clock.advance("20m")
    found = clockwork.app.stats.get().stuck
    assert [(one.id, one.status) for one in found] == [(first, Status.PENDING), (other, Status.PENDING)]
    assert {one.sentence for one in found} == {"no worker is alive"}
    hands.now = clockwork.clock.now()
    hands.worker()
    found = clockwork.app.stats.get().stuck
    assert (
        "it is ready and stands in line as the first; 1 worker would take it"
        in why_stuck(clockwork.app.stats.get())[first]
    )
    assert [one.id for one in found] == [first, other]


def test_a_line_that_an_operator_has_paused_is_not_stuck(clockwork: Clockwork, hands: Hands) -> None:
    [task] = hands.enqueue()
    clockwork.clock.advance("2h")
    assert [one.id for one in clockwork.app.stats.get().stuck] == [task]
    clockwork.app.workers.pause(pipeline="note")
    assert clockwork.app.stats.get().stuck == ()


def test_a_cancelled_task_does_not_hide_who_stands_behind_it(clockwork: Clockwork, hands: Hands) -> None:
    first, second = hands.enqueue(2)
    clockwork.app.tasks.cancel(first)
    clockwork.clock.advance("2h")
    assert [one.id for one in clockwork.app.stats.get().stuck] == [second]
    assert Event.CANCELLED in [one.event for one in clockwork.app.tasks.get(first).history]
