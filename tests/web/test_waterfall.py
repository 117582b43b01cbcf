"""The stages of a task over time: what the log tells of attempts, and where their bars lie."""

from __future__ import annotations

import pytest

from onceward.model.status import Event, Status
from onceward.store.reports.tasks import LogRow
from onceward.views.attempts import Attempt, Came, Wait, attempts
from onceward.web.frames import read_trace
from onceward.web.stored_values import MOST_SHOWN, shown_value
from onceward.web.waterfall import Scale

NOON = 1_795_000_000_000


def row(
    fence: int, event: Event, status: Status, stage: str, at: int, *, worker: int | None = 1, note: str = ""
) -> LogRow:
    """A row of the log, so many milliseconds after noon."""
    name = None if worker is None else f"worker/{worker}"
    return LogRow(at, 1, fence, event, status, stage, worker, name, NOON + at, note or None)


def told(found: list[Attempt]) -> list[list[tuple[str | None, Came]]]:
    return [[(run.stage, run.came) for run in one.stages] for one in found]


def test_an_attempt_after_a_failure_keeps_the_stages_that_had_finished() -> None:
    found = attempts(
        [
            row(1, Event.STAGE_COMMITTED, Status.RUNNING, "read", 100),
            row(1, Event.RETRY_SCHEDULED, Status.RETRYABLE, "ask", 900, note="TimeoutError"),
            row(2, Event.CRASHED, Status.PENDING, "ask", 5_500, note="worker/1 died"),
            row(3, Event.FINISHED, Status.SUCCEEDED, "ask", 9_000),
        ],
        {1: NOON, 2: NOON + 5_000, 3: NOON + 8_000},
    )
    assert told(found) == [
        [("read", Came.FINISHED), ("ask", Came.FAILED)],
        [("read", Came.KEPT), ("ask", Came.LOST)],
        [("read", Came.KEPT), ("ask", Came.FINISHED)],
    ]
    failed = found[0].stages[1]
    assert failed.wait is Wait.RETRY
    assert failed.waited_until == found[1].claimed_at


def test_a_wait_before_the_next_claim_stands_in_a_row_of_its_own() -> None:
    found = attempts(
        [
            row(1, Event.HANDED_OVER, Status.PENDING, "read", 100),
            row(1, Event.PARKED, Status.WAITING, "ask", 100, worker=None, note="budget usd has not enough left"),
            row(1, Event.WOKEN, Status.PENDING, "ask", 7_000, worker=None),
            row(2, Event.FINISHED, Status.FILTERED, "ask", 9_000),
        ],
        {1: NOON, 2: NOON + 8_000},
    )
    assert told(found) == [[("read", Came.FINISHED), ("ask", Came.WAITS)], [("ask", Came.ENDED)]]
    assert found[0].stages[0].wait is None
    waits = found[0].stages[1]
    assert waits.waited_until is not None
    assert waits.waited_until.timestamp() * 1_000 == NOON + 7_000


def test_a_running_attempt_is_told_before_the_log_has_a_row_of_it() -> None:
    [first, second] = attempts(
        [row(1, Event.RETRY_SCHEDULED, Status.RETRYABLE, "read", 500)],
        {1: NOON, 2: NOON + 2_000},
        running=(2, "read", "worker/2"),
    )
    assert first.outcome is not None
    assert first.outcome.came is Came.FAILED
    assert second.worker == "worker/2"
    assert told([second]) == [[("read", Came.RUNNING)]]


def test_what_a_worker_without_its_lease_has_tried_is_no_attempt() -> None:
    assert attempts([row(1, Event.LOST, Status.RUNNING, "read", 500)], {}) == []


def test_an_attempt_of_which_the_claim_is_gone_has_an_end_and_no_beginning() -> None:
    [one] = attempts([row(4, Event.FINISHED, Status.SUCCEEDED, "read", 500)], {1: NOON})
    assert one.claimed_at is None
    assert one.stages[0].began_at is None
    assert one.stages[0].ended_at is not None


def test_a_long_time_in_which_nothing_ran_is_cut_out_of_the_axis() -> None:
    day = 86_400_000
    scale = Scale([(0, 1_000), (day, day + 1_000)], 0, day + 1_000)
    assert scale.cut_ms == day - 1_000
    assert scale.at(1_000) == pytest.approx(46)
    assert scale.at(day) == pytest.approx(54)
    assert [piece.is_cut for piece in scale.pieces] == [False, True, False]


@pytest.mark.parametrize(("busy", "end"), [([], 0), ([(0, 0)], 0), ([(5, 5), (9, 9)], 9), ([(0, 10**12)], 10**12)])
def test_a_bar_lies_within_the_width_whatever_the_times(busy: list[tuple[int, int]], end: int) -> None:
    scale = Scale(busy, 0, end)
    for first, last in [*busy, (0, end), (end, end + 5)]:
        x, width = (float(value.rstrip("%")) for value in scale.bar(first, last))
        assert 0 <= x <= 100
        assert 0 < width <= 100
        assert x + width <= 100.01


def test_a_wait_is_broken_where_time_is_cut() -> None:
    scale = Scale([(0, 1_000), (100_000, 101_000)], 0, 101_000)
    line, cuts = scale.line(1_000, 100_000, is_retry=True)
    assert len(cuts) == 1
    assert len(line.parts) == 2


TRACE = """Traceback (most recent call last):
  File "/home/app/shop/job.py", line 188, in analyse
    answer = ask(prompt)
             ^^^^^^^^^^^
  … 3 frames of onceward
  File "/venv/lib/python3.11/site-packages/httpx/_client.py", line 12, in send
    raise exc
  File "/venv/lib/python3.11/site-packages/httpcore/_sync.py", line 9, in read
    raise exc
httpx.ReadTimeout: no answer
from the <model>"""


def test_frames_of_libraries_are_folded_and_the_error_stands_apart() -> None:
    trace = read_trace(TRACE)
    assert trace.error == "httpx.ReadTimeout: no answer\nfrom the <model>"
    assert [(block.is_folded, block.headline) for block in trace.blocks] == [
        (False, "1 frame of libraries"),
        (True, "3 frames of onceward"),
        (True, "2 frames of httpx and httpcore"),
    ]
    assert trace.blocks[0].frames[0].place == "app/shop/job.py:188"
    assert trace.blocks[0].frames[0].code == ["answer = ask(prompt)"]


def test_a_cause_is_told_between_the_frames() -> None:
    text = f"{TRACE}\n\nDuring handling of the above exception, another exception occurred:\n\n{TRACE}"
    said = [block.said for block in read_trace(text).blocks if not block.frames]
    assert any("another exception" in one for one in said)


def test_a_text_that_is_no_traceback_is_shown_as_it_is() -> None:
    assert read_trace("killed").error == "killed"
    assert read_trace("").error == ""


def test_a_long_value_is_cut_and_says_so() -> None:
    shown = shown_value(b'{"text": "' + b"x" * 20_000 + b'"}')
    assert shown.is_cut
    assert sum(map(len, ("".join(line) for line in shown.lines))) <= MOST_SHOWN
    assert shown.bytes > 20_000


def test_what_is_no_json_is_shown_as_text() -> None:
    assert [line.rest for line in shown_value(b"\xff<script>").lines] == ["\N{REPLACEMENT CHARACTER}<script>"]


def test_a_large_number_keeps_all_its_digits() -> None:
    assert "9007199254740993" in "".join(map("".join, shown_value(b'{"id":9007199254740993}').lines))
