"""Errors that come back: what has failed the same way before is not tried again, and says where it had."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from onceward import ConfigError, Context, Payload, Pipeline, Retry, Retryable, Status
from tests.worker.conftest import Start


class Fetch(Payload, kind="fetch"):
    name: str
    errors: tuple[str, ...] = ()

    def key(self) -> str:
        return self.name


class Crawl(Payload, kind="crawl"):
    names: tuple[str, ...]


def fetches(retry: Retry, calls: list[str]) -> Pipeline[Fetch]:
    """Fetches that raise their errors one after the other, the last one for ever."""
    made = Pipeline(Fetch, retry=retry)

    @made.stage
    def fetch(ctx: Context[Fetch]) -> None:
        count = calls.count(ctx.payload.name)
        calls.append(ctx.payload.name)
        if ctx.payload.errors:
            raise OSError(ctx.payload.errors[min(count, len(ctx.payload.errors) - 1)])

    return made


def test_a_task_that_was_retried_by_an_operator_and_fails_the_same_way_stops_at_once(start: Start) -> None:
    calls: list[str] = []
    harness = start(fetches(Retry(retries=2), calls))
    task = harness.enqueue(Fetch("page", ("timed out after 30 s", "timed out after 31 s")))
    harness.drain()
    assert (harness.task(task).status, len(calls)) == (Status.FAILED, 3)
    harness.app.tasks.retry(task.id)
    harness.drain()
    assert len(calls) == 4
    assert harness.task(task).reason == f"failed the same way before (task {task.id}): OSError: timed out after 31 s"


def test_a_new_error_is_tried_again(start: Start) -> None:
    calls: list[str] = []
    harness = start(fetches(Retry(retries=1), calls))
    task = harness.enqueue(Fetch("page", ("cut", "cut", "refused")))
    harness.drain()
    harness.app.tasks.retry(task.id)
    harness.drain()
    assert len(calls) == 4
    assert harness.task(task).reason == "failed after 1 retry: OSError: refused"


def test_the_same_error_several_times_in_a_row_is_enough_if_the_policy_says_so(start: Start) -> None:
    calls: list[str] = []
    harness = start(fetches(Retry(retries=9, same_errors=3), calls))
    task = harness.enqueue(Fetch("page", ("refused", "cut", "cut", "refused 1", "refused 2", "refused 3")))
    harness.drain()
    assert len(calls) == 6
    assert harness.task(task).reason == "failed the same way 3 times in a row: OSError: refused 3"


def test_an_error_that_is_known_to_pass_may_come_as_often_as_it_likes(start: Start) -> None:
    calls: list[str] = []
    harness = start(fetches(Retry(retries=5, same_errors=2, transient=(OSError,)), calls))
    harness.enqueue(Fetch("page", ("cut",)))
    harness.drain()
    assert len(calls) == 6


class Answered(Exception):
    """An HTTP error: the number in its text does not make it another one."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the server answered {status}")
        self.status_code = status


def answers(retry: Retry, raised: Iterator[BaseException | None], calls: list[int]) -> Pipeline[Fetch]:
    """Fetches that raise one error after the other until there is none."""
    made = Pipeline(Fetch, retry=retry)

    @made.stage
    def fetch(ctx: Context[Fetch]) -> None:
        calls.append(ctx.task.attempt)
        if (error := next(raised)) is not None:
            raise error

    return made


TRANSIENT = (ConnectionError("refused"), Answered(429), Answered(503), TimeoutError(), Retryable("not ready"))


@pytest.mark.parametrize("error", TRANSIENT, ids=str)
@pytest.mark.parametrize("same_errors", [2, None])
def test_an_error_whose_class_is_known_to_pass_never_counts(
    start: Start, error: BaseException, same_errors: int | None
) -> None:
    calls: list[int] = []
    retry = Retry(retries=None, same_errors=same_errors, base="1s", jitter=False)
    harness = start(answers(retry, iter([*[error] * 8, None]), calls))
    task = harness.enqueue(Fetch("page"))
    harness.drain()
    assert (harness.task(task).status, len(calls)) == (Status.SUCCEEDED, 9)


def test_errors_that_pass_are_not_counted_for_one_that_looks_the_same(start: Start) -> None:
    calls: list[int] = []
    raised = [Answered(503), Answered(502), Answered(404), Answered(503), Answered(404), Answered(404)]
    harness = start(answers(Retry(retries=9, same_errors=3), iter(raised), calls))
    task = harness.enqueue(Fetch("page"))
    harness.drain()
    assert len(calls) == 6
    assert harness.task(task).reason == "failed the same way 3 times in a row: Answered: the server answered 404"


@pytest.mark.parametrize(
    ("retry", "attempts"),
    [
        (Retry(retries=None, base="1s"), 5),
        (Retry(retries=None, base="1s", same_errors=7), 7),
        (Retry(retries=None, base="1s", same_errors="off"), 12),
        (Retry(retries=8, base="1s"), 9),
    ],
    ids=["by time alone", "by time, with a number", "by time, off", "by count"],
)
def test_where_time_alone_bounds_retries_five_of_the_same_are_enough(start: Start, retry: Retry, attempts: int) -> None:
    calls: list[int] = []
    harness = start(answers(retry, iter([*[OSError("cut")] * 11, None]), calls))
    harness.enqueue(Fetch("page"))
    harness.drain()
    assert len(calls) == attempts


def test_a_storm_of_the_same_error_in_a_lineage_is_braked(start: Start) -> None:
    calls: list[str] = []
    crawls = Pipeline(Crawl)

    @crawls.stage
    def spread(ctx: Context[Crawl]) -> None:
        for place, name in enumerate(ctx.payload.names):
            ctx.spawn(Fetch(name, (f"no route to host {place}",)), after=f"{place}h")

    harness = start(crawls, fetches(Retry(retries=3, storm_brake=2), calls))
    harness.enqueue(Crawl(tuple("abcdefgh")))
    other = harness.enqueue(Fetch("elsewhere", ("no route to host 5",)))
    harness.drain()
    failed = [task for task in harness.app.tasks.list(kind="fetch") if task.id != other.id]
    braked = [task for task in failed if "fetch tasks of this lineage have failed the same way" in (task.reason or "")]
    assert {task.status for task in failed} == {Status.FAILED}
    assert sorted(task.key or "" for task in braked) == ["c", "d", "e", "f", "g", "h"]
    assert len(calls) == 4 * 3 + 6, "two of them, and the one elsewhere, used up their retries"
    assert harness.task(other).reason == "failed after 3 retries: OSError: no route to host 5"


@pytest.mark.parametrize(
    "options", [{"same_errors": 0}, {"storm_brake": -1}, {"same_errors": True}, {"same_errors": "never"}]
)
def test_numbers_that_cannot_be_meant_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="whole number from 1"):
        Retry(**options)
