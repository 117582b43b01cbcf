"""Changed code meets stored data: what no longer fits is parked with the reason, and woken when the code changes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from onceward import ConfigError, Context, Payload, Pipeline, Status, TaskNotFound, UnknownKind
from onceward.authoring.registry import Registry
from onceward.model.task import NEVER, Park
from onceward.store.operations import task_actions
from onceward.testing import Harness
from onceward.worker.parked_by_code import ParkedByCode
from tests.store.conftest import Hands
from tests.worker.conftest import Clockwork, Start, words


class Doc(Payload, kind="doc"):
    url: str


class DocWithPages(Payload, kind="doc"):
    url: str
    pages: int


class DocWithDefault(Payload, kind="doc"):
    url: str
    pages: int = 1


class Loose(Payload, kind="loose"):
    value: object


class Text(msgspec.Struct):
    body: str


class TextWithLanguage(msgspec.Struct):
    body: str
    language: str


def pipeline(*stages: tuple[str, Any], payload: Any = Doc, stop_at: str | None = None, **options: Any) -> Pipeline[Any]:
    """A pipeline of named stages with their result types; `stop_at` is one that fails."""
    made: Pipeline[Any] = Pipeline(payload, **options)

    def add(name: str, returns: Any) -> None:
        def stage(ctx: Context[Any]) -> Any:
            if name == stop_at:
                raise ConnectionError("try later")
            return {Text: Text("body"), TextWithLanguage: TextWithLanguage("body", "en")}.get(returns, name)

        stage.__name__ = name
        stage.__annotations__["return"] = returns
        made.stage(stage)

    for name, returns in stages:
        add(name, returns)
    return made


USUAL = (("extract", Text), ("save", str))


def stopped_at_save(start: Start) -> tuple[Harness, Any]:
    """A task whose first stage has finished, under the code as it was."""
    harness = start(pipeline(*USUAL, stop_at="save"))
    task = harness.enqueue(Doc("u"))
    harness.drain(wait_for_due=False)
    assert words(harness, task) == ["stage committed", "retry scheduled"]
    return harness, task


MISFITS = {
    "a result of another type": pipeline(("extract", TextWithLanguage), ("save", str)),
    "a stage renamed that was next": pipeline(("extract", Text), ("store", str)),
    "a stage renamed that had finished": pipeline(("read", Text), ("save", str)),
    "a stage put in before the next": pipeline(("extract", Text), ("clean", str), ("save", str)),
    "a payload with another field": pipeline(*USUAL, payload=DocWithPages),
}
REASONS = {
    "a result of another type": "the stored result of stage 'extract' no longer fits: Object missing required field",
    "a stage renamed that was next": "the task stands at stage 'save', which pipeline 'doc' does not have: extract",
    "a stage renamed that had finished": "stage 'extract' has finished, but pipeline 'doc' does not have it: read",
    "a stage put in before the next": "stage 'clean' stands before 'save' now, but has no stored result",
    "a payload with another field": "the stored payload no longer fits DocWithPages: Object missing required field",
}


@pytest.mark.parametrize("what", MISFITS)
def test_a_misfit_is_parked_with_the_reason_until_the_code_fits(start: Start, what: str) -> None:
    before, task = stopped_at_save(start)
    changed = start(MISFITS[what], after=before)
    changed.drain()
    parked = changed.task(task)
    assert parked.status is Status.WAITING
    assert str(parked.reason).startswith(REASONS[what])
    assert parked.waiting_for == f"code:{MISFITS[what]._fingerprint}"
    claims = parked.history[-1].fence

    again = start(MISFITS[what], after=changed)
    again.advance("1d")
    again.drain()
    assert again.task(task).history[-1].fence == claims, "the same code is not tried in a loop"

    mended = start(pipeline(*USUAL), after=again)
    mended.drain()
    done = mended.task(task)
    assert done.status is Status.SUCCEEDED
    assert done.results == {"extract": {"body": "body"}, "save": "save"}
    assert words(mended, task)[-2:] == ["woken", "finished"]


def test_a_new_required_field_is_answered_with_what_helps_and_what_does_not(start: Start) -> None:
    before, task = stopped_at_save(start)
    changed = start(MISFITS["a payload with another field"], after=before)
    changed.drain()

    why = changed.app.why(task.id)

    assert why.sentence.endswith("Object missing required field `pages`; give `pages` a default")
    assert why.command == "onceward run APP"
    with pytest.raises(ConfigError, match=r"cannot begin again: this code does not read its payload; .* a default"):
        changed.app.tasks.retry(task.id, fresh=True)

    mended = start(pipeline(*USUAL, payload=DocWithDefault), after=changed)
    mended.drain()
    assert mended.task(task).status is Status.SUCCEEDED


def test_a_change_that_still_fits_parks_nothing(start: Start) -> None:
    before, task = stopped_at_save(start)
    changed = start(pipeline(*USUAL, ("index", str), payload=DocWithDefault), after=before)
    changed.drain()
    assert changed.task(task).status is Status.SUCCEEDED
    assert changed.task(task).results == {"extract": {"body": "body"}, "save": "save", "index": "index"}
    assert changed.task(task).payload == DocWithDefault("u", 1)


def test_a_new_first_stage_is_not_jumped_over(start: Start) -> None:
    before = start(pipeline(*USUAL, stop_at="extract"))
    tried, untouched = before.enqueue(Doc("tried")), before.enqueue(Doc("untouched"), after="1h")
    before.drain(wait_for_due=False)
    changed = start(pipeline(("fetch", str), *USUAL), after=before)
    changed.drain()
    assert changed.task(untouched).results == {"fetch": "fetch", "extract": {"body": "body"}, "save": "save"}
    assert changed.task(tried).status is Status.WAITING
    assert changed.task(tried).reason == "stage 'fetch' stands before 'extract' now, but has no stored result"
    changed.app.tasks.retry(tried.id, stage="fetch")
    changed.drain()
    assert changed.task(tried).status is Status.SUCCEEDED


def test_work_of_newer_code_waits_for_newer_code(start: Start) -> None:
    newer = start(pipeline(*USUAL, version=2))
    task = newer.enqueue(Doc("u"))
    older = start(pipeline(*USUAL, version=1), after=newer)
    older.drain()
    assert older.task(task).status is Status.WAITING
    assert older.task(task).reason == "the task was made for version 2 of 'doc', this code is version 1"
    newest = start(pipeline(*USUAL, version=3), after=older)
    newest.drain()
    assert newest.task(task).status is Status.SUCCEEDED


def test_a_cursor_that_no_longer_fits_parks_its_task(start: Start) -> None:
    def reading(cursor_type: Any, version: int) -> Pipeline[Doc]:
        made = Pipeline(Doc, version=version)

        @made.stage
        def read(ctx: Context[Doc]) -> str:
            place = ctx.cursor_as(cursor_type)
            if place is None:
                ctx.checkpoint(7)
                raise ConnectionError("try later")
            return f"from {place}"

        return made

    before = start(reading(int, 1))
    task = before.enqueue(Doc("u"))
    before.drain(wait_for_due=False)
    changed = start(reading(str, 1), after=before)
    changed.drain()
    assert changed.task(task).status is Status.WAITING
    assert str(changed.task(task).reason).startswith(
        "the cursor of stage 'read' is stored in a form that no longer fits"
    )
    mended = start(reading(int, 2), after=changed)
    mended.drain()
    assert mended.task(task).result("read") == "from 7"


class Picky(Payload, kind="doc"):
    url: str

    def __post_init__(self) -> None:
        {"known": 1}[self.url]


def test_a_type_that_raises_what_it_likes_when_it_is_read_is_an_error_like_any_other(start: Start) -> None:
    before = start(pipeline(*USUAL))
    tasks = [before.enqueue(Doc(url)) for url in ("unknown", "known")]
    changed = start(pipeline(*USUAL, payload=Picky), after=before)
    changed.drain()
    assert [changed.app.tasks.list(status=status)[0].id for status in ("failed", "succeeded")] == [
        one.id for one in tasks
    ]
    history = words(before, tasks[0])
    assert history == ["retry scheduled"] * 3 + ["finished"]


def test_what_older_code_parks_after_the_newer_has_begun_is_looked_at_in_pauses_that_grow(clockwork: Clockwork) -> None:
    newer = pipeline(*USUAL, version=2)
    hands = clockwork.hands()
    looks = ParkedByCode(Registry([newer]), hands.session.clock)
    [task] = hands.enqueue(kind="doc")
    older = hands.worker()
    woken_at = []
    for second in range(0, 900, 15):
        for lease in hands.claim(older):
            hands.commit(lease, Park("extract", "code:older", NEVER, "it is of version 2"))
        if looks.step(hands.session):
            woken_at.append(second)
        clockwork.clock.advance("15s")
        hands.now = clockwork.clock.now()
    assert woken_at == [60, 180, 420]
    assert clockwork.app.tasks.get(task).status is Status.WAITING


def test_every_parked_task_is_woken_however_many_there_are(clockwork: Clockwork, hands: Hands) -> None:
    tasks = hands.enqueue(1_001)
    ant = hands.worker()
    hands.commit_all([(lease, Park("first", "code:old", NEVER, "does not fit")) for lease in hands.claim(ant, 2_000)])
    assert hands.do(lambda: task_actions.wake_for_code("other", "new", hands.now)) == 0
    assert hands.do(lambda: task_actions.wake_for_code("note", "old", hands.now)) == 0
    assert hands.do(lambda: task_actions.wake_for_code("note", "new", hands.now)) == len(tasks)
    assert clockwork.app.stats.counts()[Status.PENDING] == len(tasks)


def test_waits_are_compared_byte_by_byte_whatever_the_language_of_the_database(hands: Hands) -> None:
    """In most languages a semicolon sorts before a colon, and the range from "code:" to "code;" would be empty."""
    if hands.session.dialect == "postgres":
        sql = "SELECT collation_name FROM information_schema.columns WHERE table_name = ? AND column_name = ?"
        assert hands.sql(sql, "onceward_task", "waiting_for") == [("C",)]
        assert hands.sql(sql, "onceward_ready", "lane") == [("C",)]


def test_an_app_leaves_kinds_alone_that_it_does_not_know(start: Start) -> None:
    class Other(Payload, kind="other"):
        n: int

    other: Pipeline[Other] = Pipeline(Other)

    @other.stage
    def work(ctx: Context[Other]) -> int:
        return ctx.payload.n

    first = start(pipeline(*USUAL))
    task = first.enqueue(Doc("u"))
    second = start(other, after=first)
    number = second.enqueue(Other(7))
    second.drain()
    assert second.task(number).status is Status.SUCCEEDED
    seen = second.task(task)
    assert (seen.status, seen.kind, seen.payload, seen.key) == (Status.PENDING, "doc", None, '{"url":"u"}')
    with pytest.raises(UnknownKind, match="no pipeline handles kind 'doc'; this app knows: other"):
        second.enqueue(Doc("v"))
    with pytest.raises(UnknownKind):
        second.app.tasks.retry(task.id, stage="extract")
    with pytest.raises(TaskNotFound, match="there is no task"):
        first.task(number.id + 1_000)
    first.drain()
    assert first.task(task).status is Status.SUCCEEDED


def test_a_payload_with_a_field_that_may_be_anything_runs(start: Start) -> None:
    loose = Pipeline(Loose)

    @loose.stage
    def look(ctx: Context[Loose]) -> object:
        return ctx.payload.value

    harness = start(loose)
    task = harness.enqueue(Loose({"pages": [1, None, "two"]}))
    harness.drain()
    assert harness.task(task).result(look) == {"pages": [1, None, "two"]}


def test_parked_tasks_have_a_line_of_the_log_and_a_count_of_their_own(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    before = start(pipeline(*USUAL, stop_at="save"))
    tasks = [before.enqueue(Doc(str(number))) for number in range(8)]
    before.drain(wait_for_due=False)
    changed = start(MISFITS["a payload with another field"], after=before)
    changed.drain()
    assert changed.app.stats.backlog().parked == len(tasks)
    lines = [one.getMessage() for one in caplog.records if one.getMessage().startswith("task parked")]
    assert len(lines) == 5, "no more a minute"
    assert "no longer fits DocWithPages" in lines[0]
    mended = start(pipeline(*USUAL), after=changed)
    mended.drain()
    assert mended.app.stats.backlog().parked == 0
