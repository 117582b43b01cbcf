"""Figures from rows of the log: how long stages took, and how attempts came out."""

from __future__ import annotations

import pytest

from onceward.model.stats import (
    Facts,
    Logged,
    counted,
    durations,
    outcomes,
    percentile,
    size_class,
    stage_runs,
    waits_for,
)
from onceward.model.status import Event, Status

TASKS = {1: Facts("page", 10), 2: Facts("page", 20_000)}


def log(*rows: tuple[int, int, Event, str | None, int], status: Status = Status.SUCCEEDED) -> list[Logged]:
    """Rows as (task, fence, event, stage, at), given oldest first, returned newest first."""
    made = [
        Logged(place, task, fence, event, status, stage, 7, at)
        for place, (task, fence, event, stage, at) in enumerate(rows)
    ]
    return made[::-1]


@pytest.mark.parametrize(
    ("size", "name"),
    [
        (0, "below 1 kB"),
        (999, "below 1 kB"),
        (1_000, "1 to 10 kB"),
        (9_999, "1 to 10 kB"),
        (10_000, "10 to 100 kB"),
        (100_000, "100 kB or more"),
    ],
)
def test_a_payload_belongs_to_one_class(size: int, name: str) -> None:
    assert size_class(size) == name


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.95, 95), (1.0, 100), (0.001, 1)])
def test_a_percentile_is_one_of_the_values(share: float, value: int) -> None:
    assert percentile(range(1, 101), share) == value


def test_the_only_value_is_every_percentile() -> None:
    assert [percentile([8], share) for share in (0.01, 0.5, 0.95)] == [8, 8, 8]


def test_a_stage_begins_where_the_one_before_it_ended_and_the_first_with_the_claim() -> None:
    rows = log(
        (1, 1, Event.STAGE_COMMITTED, "fetch", 2_000),
        (1, 1, Event.PROGRESSED, "read", 3_000),
        (1, 1, Event.FINISHED, "read", 7_000),
    )
    fetch, read = durations(rows, TASKS, {(1, 1): 500}, since=0)
    assert (fetch.stage, fetch.size, fetch.count, fetch.p50_s, fetch.max_s) == ("fetch", "below 1 kB", 1, 1.5, 1.5)
    assert (read.stage, read.max_s) == ("read", 5.0), "a cursor ends no stage"


def test_sizes_are_kept_apart_and_small_ones_stand_first() -> None:
    rows = log((2, 1, Event.FINISHED, "read", 9_000), (1, 1, Event.FINISHED, "read", 1_000))
    found = durations(rows, TASKS, {(1, 1): 0, (2, 1): 0}, since=0)
    assert [(one.size, one.max_s) for one in found] == [("below 1 kB", 1.0), ("10 to 100 kB", 9.0)]


def test_only_work_that_was_done_has_a_duration() -> None:
    began = {(1, fence): 0 for fence in range(1, 5)}
    rows = log(
        (1, 1, Event.RETRY_SCHEDULED, "read", 1_000),
        (1, 2, Event.TIMED_OUT, "read", 2_000),
        (1, 3, Event.RECLAIMED, "read", 3_000),
    )
    failed = log((1, 4, Event.FINISHED, "read", 4_000), status=Status.FAILED)
    assert durations([*failed, *rows], TASKS, began, since=0) == ()


def test_what_was_done_earlier_or_began_at_an_unknown_time_is_left_out() -> None:
    rows = log((1, 1, Event.FINISHED, "read", 1_000), (2, 1, Event.FINISHED, "read", 5_000))
    assert durations(rows, TASKS, {(1, 1): 0}, since=2_000) == ()


def test_attempts_come_out_once_each() -> None:
    rows = log(
        (1, 1, Event.STAGE_COMMITTED, "fetch", 1),
        (1, 1, Event.RETRY_SCHEDULED, "read", 2),
        (1, 2, Event.RECLAIMED, "read", 3),
        (1, 3, Event.TIMED_OUT, "read", 4),
        (1, 4, Event.RELEASED, "read", 5),
        (1, 5, Event.HANDED_OVER, "read", 6),
        (1, 5, Event.PARKED, "join", 6),
        (1, 6, Event.CRASHED, "join", 7),
        (1, 7, Event.FINISHED, "join", 8),
    )
    found = counted("page", outcomes(rows, since=0))
    assert (found.attempts, found.retries, found.reclaimed) == (6, 2, 2)
    assert (found.retry_rate, found.reclaim_rate) == (2 / 6, 2 / 6)
    assert counted("page", outcomes(rows, since=8)).attempts == 1


def test_an_attempt_may_be_several_runs_of_stages() -> None:
    rows = log((1, 1, Event.STAGE_COMMITTED, "fetch", 1), (1, 1, Event.RETRY_SCHEDULED, "read", 2))
    assert sorted((row.stage, row.event) for row in stage_runs(rows, since=0)) == [
        ("fetch", Event.STAGE_COMMITTED),
        ("read", Event.RETRY_SCHEDULED),
    ]
    assert [row.stage for row in stage_runs(rows, since=2)] == ["read"]


def test_a_task_that_was_parked_before_a_claim_was_not_attempted() -> None:
    [parked] = log((1, 1, Event.PARKED, None, 1))
    assert outcomes([parked._replace(worker=None)], since=0) == []
    assert outcomes([parked._replace(fence=0)], since=0) == []


def test_of_nothing_there_is_no_rate() -> None:
    nothing = counted("", [])
    assert (nothing.attempts, nothing.retry_rate, nothing.reclaim_rate) == (0, None, None)


@pytest.mark.parametrize(
    ("waiting_for", "words"),
    [
        ("signal:approved", "the signal 'approved'"),
        ("code:1234", "other code"),
        ("budget:usd/page", "budget usd/page, which does not begin anew"),
        ("batch:night", "batch 'night', which is not open"),
        ("children", "children, of which none is open"),
    ],
)
def test_a_wait_without_end_is_told_in_a_sentence(waiting_for: str, words: str) -> None:
    assert words in waits_for(waiting_for)
