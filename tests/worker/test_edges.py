"""The edge of an app: what cannot be meant is refused there, in the same words whatever the database."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import IntEnum
from typing import Any

import pytest

from onceward import (
    App,
    ConfigError,
    Context,
    Cron,
    Limits,
    OncewardError,
    Payload,
    PayloadError,
    Pipeline,
    Setting,
    Source,
    TaskNotFound,
    Watch,
)  # fmt: skip
from onceward.testing import Harness
from tests.worker.conftest import Start


class Job(Payload, kind="job"):
    name: str = "job"


class Number(IntEnum):
    ONE = 1


class Mute:
    """Something that cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("nothing to say")


NEITHER = [b"x", [], {}, object(), int, Decimal("1.5"), datetime.now(UTC), timedelta(days=1), Mute(), 1.5, True]
"""Neither a whole number nor a text."""
NO_NUMBERS = [*NEITHER, "x", "", "1", "a\x00b", "a\ud800", float("nan"), float("inf"), 1.0, uuid.UUID(int=5)]
NO_TEXTS = [*NEITHER, 0, -1, 2**63, 10**400, 10**5_000, uuid.UUID(int=5), "a\x00b", "a\ud800"]

Ask = Callable[[App, Any], object]

OF_A_TASK: dict[str, Ask] = {
    "task": lambda app, task: app.tasks.get(task),
    "why": lambda app, task: app.why(task),
    "cancel": lambda app, task: app.tasks.cancel(task),
    "retry": lambda app, task: app.tasks.retry(task),
    "retry fresh": lambda app, task: app.tasks.retry(task, fresh=True),
    "retry a stage": lambda app, task: app.tasks.retry(task, stage="go"),
    "signal": lambda app, task: app.tasks.signal(task, "go"),
    "approve": lambda app, task: app.tasks.approve(task),
}
OF_A_LINEAGE: dict[str, Ask] = {
    "lineage": lambda app, task: app.lineages.get(task),
    "cancel_lineage": lambda app, task: app.lineages.cancel(task),
    "retry_lineage": lambda app, task: app.lineages.retry(task),
    "pause_lineage": lambda app, task: app.lineages.pause(task),
    "resume_lineage": lambda app, task: app.lineages.resume(task),
    "raise_limits": lambda app, task: app.lineages.raise_limits(task, Limits(max_depth=20)),
}
LISTS: dict[str, Ask] = {
    "tasks": lambda app, limit: app.tasks.list(limit=limit),
    "tasks by identity": lambda app, limit: app.tasks.list(kind="job", key="x", limit=limit),
    "tasks of a lineage": lambda app, limit: app.tasks.list(lineage=uuid.UUID(int=5), limit=limit),
    "batches": lambda app, limit: app.batches.list(limit=limit),
    "lineage": lambda app, limit: app.lineages.get(1, limit=limit),
    "lineages": lambda app, limit: app.lineages.list(limit),
    "largest lineages": lambda app, limit: app.lineages.list(limit, largest=True),
    "budgets": lambda app, limit: app.budgets.list(limit=limit),
    "alerts": lambda app, limit: app.alerts.list(limit=limit),
}
NAMES: dict[str, Ask] = {
    "tasks by kind": lambda app, text: app.tasks.list(kind=text),
    "tasks by key": lambda app, text: app.tasks.list(key=text),
    "tasks by kind and key": lambda app, text: app.tasks.list(kind="job", key=text),
    "tasks by status": lambda app, text: app.tasks.list(status=text),
    "batches by status": lambda app, text: app.batches.list(status=text),
    "batch_status": lambda app, text: app.batches.get(text),
    "cancel": lambda app, text: app.tasks.cancel(1, text if not isinstance(text, str) else 0),  # type: ignore[arg-type]
    "cancel_lineage": lambda app, text: app.lineages.cancel(1, text if not isinstance(text, str) else 0),  # type: ignore[arg-type]
    "retry": lambda app, text: app.tasks.retry(1, stage=text),
    "signal": lambda app, text: app.tasks.signal(1, text),
    "budgets": lambda app, text: app.budgets.list(text),
    "raise_budget": lambda app, text: app.budgets.set_limit(text, 5),
    "raise_budget for a scope": lambda app, text: app.budgets.set_limit("usd", 5, scope=text),
    "raise_budget by an author": lambda app, text: app.budgets.set_limit("usd", 5, author=text),
    "source": lambda app, text: app.sources.get(text),
    "enable_source": lambda app, text: app.sources.enable(text),
    "disable_source": lambda app, text: app.sources.disable(text),
    "cache": lambda app, text: app.cache.list(text),
    "clear_cache": lambda app, text: app.cache.clear(text),
    "clear_cache of a key": lambda app, text: app.cache.clear(text, "key"),
    "pause a queue": lambda app, text: app.workers.pause(queue=text or "\n"),
    "pause a source": lambda app, text: app.workers.pause(source=text or "\n"),
    "resume a pipeline": lambda app, text: app.workers.resume(pipeline=text or "\n"),
    "pause_schedule": lambda app, text: app.schedules.pause(text),
    "resume_schedule": lambda app, text: app.schedules.resume(text),
    "run_now": lambda app, text: app.schedules.run_now(text),
    "setting": lambda app, text: app.settings.get(text),
    "set": lambda app, text: app.settings.set(text, 1),
    "set by an author": lambda app, text: app.settings.set("concurrency", 5, author=text),
    "unset": lambda app, text: app.settings.unset(text),
    "batch": lambda app, text: app.batch(text),
}
NO_LIMITS = [*NO_NUMBERS, 5]
LIMITS: dict[str, Ask] = {
    "enqueue": lambda app, limits: app.enqueue(Job(), limits=limits),
    "batch": lambda app, limits: app.batch("one", limits=limits),
    "raise_limits": lambda app, limits: app.lineages.raise_limits(1, limits),
    "envelope": lambda app, limits: app.envelope(limits),
}


@pytest.fixture
def harness(start: Start) -> Harness:
    """An app with one task, which waits in line."""
    job = Pipeline(Job)

    @job.stage(source=Source("web"))
    def go(ctx: Context[Job]) -> None: ...

    harness = start(
        job, settings=[Setting("share", 0.5, float, "A share.")], schedules=[Cron("0 0 * * *", Job(), name="nightly")]
    )
    harness.app.enqueue(Job())
    return harness


def refused(ask: Ask, app: App, values: list[Any], kinds: type[OncewardError] = ConfigError) -> None:
    """None of these values is taken, and the error is ours."""
    for value in values:
        with pytest.raises(kinds):
            ask(app, value)


@pytest.mark.parametrize("name", OF_A_TASK)
def test_what_is_no_number_is_that_of_no_task(harness: Harness, name: str) -> None:
    refused(OF_A_TASK[name], harness.app, [*NO_NUMBERS, None, 10**5_000])
    refused(OF_A_TASK[name], harness.app, [-1, -(2**63) - 1, 2**63, 10**30], TaskNotFound)


@pytest.mark.parametrize("name", OF_A_LINEAGE)
def test_a_lineage_is_asked_for_by_the_number_of_a_task_or_by_its_id(harness: Harness, name: str) -> None:
    no_ids = [value for value in NO_NUMBERS if not isinstance(value, uuid.UUID) and value != "1"]
    refused(OF_A_LINEAGE[name], harness.app, [*no_ids, None, 10**5_000])
    refused(OF_A_LINEAGE[name], harness.app, [-1, 2**63, 10**30], TaskNotFound)


@pytest.mark.parametrize("name", LISTS)
def test_a_list_holds_one_at_least_and_as_many_as_there_are_at_most(harness: Harness, name: str) -> None:
    refused(LISTS[name], harness.app, [*NO_NUMBERS, None, 0, -1, -(2**63) - 1])
    for many in (1, 2**31, 2**63, 10**400):
        LISTS[name](harness.app, many)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_text_that_a_database_holds_is_no_name(harness: Harness, name: str) -> None:
    refused(NAMES[name], harness.app, NO_TEXTS)


@pytest.mark.parametrize("name", LIMITS)
def test_what_are_no_limits_is_refused_as_such(harness: Harness, name: str) -> None:
    refused(LIMITS[name], harness.app, NO_LIMITS)


def test_a_depth_to_look_from_is_a_whole_number(harness: Harness) -> None:
    refused(lambda app, depth: app.tasks.list(min_depth=depth), harness.app, [*NO_NUMBERS, -1])
    assert len(harness.app.tasks.list(min_depth=0)) == 1
    assert harness.app.tasks.list(min_depth=10**400) == []


def test_only_payloads_are_looked_for(harness: Harness) -> None:
    refused(lambda app, payload: app.tasks.find(payload), harness.app, [*NO_NUMBERS, None], PayloadError)


def test_a_time_to_begin_at_is_a_datetime(harness: Harness) -> None:
    values = [value for value in [*NO_NUMBERS, 5] if not isinstance(value, datetime)]
    refused(lambda app, at: app.enqueue(Job(), at=at), harness.app, values)


def test_a_price_is_a_number(harness: Harness) -> None:
    values = [value for value in [*NO_NUMBERS, -1, 10**400] if value not in (1.0, 1.5) or value is True]
    refused(lambda app, usd: app.envelope(usd_per_1000_calls=usd), harness.app, values)
    assert harness.app.envelope(usd_per_1000_calls=0.4).hourly is not None


def test_a_number_that_is_one_of_an_enumeration_is_that_number(harness: Harness) -> None:
    app = harness.app
    assert app.tasks.get(Number.ONE).id == app.why(Number.ONE).task == 1
    assert len(app.tasks.list(limit=Number.ONE)) == 1
    app.enqueue(Job(), limits=Limits(max_depth=Number.ONE, max_tasks=Number.ONE, max_children=Number.ONE))


@pytest.mark.parametrize("name", ["share", "watch_chain", "watch_budget"])
def test_a_setting_that_is_a_number_is_one_that_can_be_stored(harness: Harness, name: str) -> None:
    values = [10**400, -(10**400), 10**5_000, float("inf"), "x", None, Mute()]
    refused(lambda app, value: app.settings.set(name, value), harness.app, values)


def test_progress_is_told_in_numbers(start: Start) -> None:
    job = Pipeline(Job)
    values: list[Any] = ["x", "7", b"7", float("inf"), float("nan"), [], {}, True, Mute()]

    @job.stage
    def go(ctx: Context[Job]) -> None:
        for value in values:
            with pytest.raises(ConfigError, match="done="):
                ctx.progress(value)
            with pytest.raises(ConfigError, match="total="):
                ctx.progress(1, value)
        for note in (0, 5, b"x", Mute()):
            with pytest.raises(ConfigError, match="note="):
                ctx.progress(1, 2, note)  # type: ignore[arg-type]
        for large in (2**63, -(10**30), 10**5_000):  # as much as can be shown
            ctx.progress(large, large)
        ctx.progress(7.5, 7.9, "seven and a half")  # type: ignore[arg-type]

    harness = start(job)
    harness.app.enqueue(Job())
    harness.drain()
    progress = harness.app.tasks.get(1).progress
    assert progress is not None
    assert (progress.done, progress.total, progress.note) == (7, 7, "seven and a half")


@pytest.mark.parametrize(
    "name",
    ["watch_samples", "watch_repeats", "watch_key_repeats", "watch_timeouts", "watch_expired", "watch_reclaims",
     "watch_depth", "watch_log"],
)  # fmt: skip
def test_the_largest_threshold_of_an_alert_can_be_looked_at(harness: Harness, name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}=.* to ([0-9,]+)$") as refusal:
        harness.app.settings.set(name, 10**400)
    harness.app.settings.set("check", "36500d")
    harness.app.settings.set(name, int(str(refusal.value).rpartition(" ")[2].replace(",", "")))
    assert harness.app.alerts.look() == []


def test_a_look_returns_all_alerts_that_last(start: Start) -> None:
    rules = [Watch(f"rule {number}", "SELECT 1", above=0, advice="Do something.") for number in range(101)]
    assert len(start(watches=rules).app.alerts.look()) == 101


def test_a_line_that_is_none_keeps_no_other_from_being_imported(harness: Harness) -> None:
    odd: list[Any] = [
        None,
        5,
        object(),
        {"id": object()},
        {"id": 1, "created_at": "\ud800"},
        {"id": 2, "created_at": Mute()},
    ]
    imported = harness.app.tasks.import_items([*odd, {"id": 3, "name": "x"}], kind="job")
    assert ([problem.line for problem in imported.problems], imported.total) == ([1, 2, 3, 4, 5, 6], 1)
    refused(lambda app, name: app.tasks.import_items([], kind="job", name=name), harness.app, NO_TEXTS)
