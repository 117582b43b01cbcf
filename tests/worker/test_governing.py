"""What operators see of sources and do to them, and pauses of pipelines, queues, sources and everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onceward import (
    Breaker,
    Cause,
    ConfigError,
    Context,
    IllegalTransition,
    Payload,
    Pipeline,
    Retry,
    Source,
    SourceNotFound,
    SourceState,
    Status,
    Waiting,
)
from onceward.testing import Harness
from onceward.worker.housekeeping import Housekeeping
from tests.worker.conftest import Start


class Fetch(Payload, kind="fetch"):
    url: str

    def key(self) -> str:
        return self.url


class Note(Payload, kind="note"):
    number: int


def host(key: str) -> str:
    return key.partition("/")[0]


class Web:
    """What stages ask; it fails when told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.is_down = False

    def pipeline(self, source: Source, **options: Any) -> Pipeline[Fetch]:
        pipeline = Pipeline(Fetch, retry=Retry(retries=100, base="1s", jitter=False), **options)

        @pipeline.stage(source=source)
        def fetch(ctx: Context[Fetch]) -> None:
            self.asked.append(ctx.payload.url)
            if self.is_down:
                raise ConnectionError("refused")

        return pipeline


def notes(seen: list[int], **options: Any) -> Pipeline[Note]:
    pipeline = Pipeline(Note, **options)

    @pipeline.stage
    def write(ctx: Context[Note]) -> None:
        seen.append(ctx.payload.number)

    return pipeline


@pytest.fixture
def web() -> Web:
    return Web()


# Pauses


SCOPES: list[tuple[dict[str, str], str]] = [
    ({}, "everything"),
    ({"pipeline": "note"}, "pipeline:note"),
    ({"queue": "slow"}, "queue:slow"),
]


@pytest.mark.parametrize(("what", "scope"), SCOPES, ids=lambda one: str(one))
def test_what_is_paused_stays_in_line_until_it_is_resumed(start: Start, what: dict[str, str], scope: str) -> None:
    seen: list[int] = []
    harness = start(notes(seen, queue="slow"))
    tasks = [harness.app.enqueue(Note(number)).id for number in range(3)]
    harness.app.enqueue(Note(9), after="1h")
    assert harness.app.workers.pause(**what, author="ann") == scope
    harness.drain()
    assert seen == []
    assert [harness.task(task).status for task in tasks] == [Status.PENDING] * 3
    [pause] = harness.app.workers.pauses()
    assert (pause.scope, pause.author) == (scope, "ann")
    why = harness.app.why(tasks[0])
    assert (why.cause, why.paused_scope) == (Cause.PAUSED, scope)
    assert "paused by an operator" in why.sentence
    harness.app.workers.resume(**what)
    harness.drain()
    assert sorted(seen) == [0, 1, 2, 9]
    assert harness.app.workers.pauses() == []


def test_one_pause_does_not_hold_the_others(start: Start, web: Web) -> None:
    seen: list[int] = []
    harness = start(notes(seen), web.pipeline(Source("web", per=host)))
    harness.app.enqueue_many([Note(1), Fetch("a/1"), Fetch("b/1")])
    harness.app.workers.pause(source="web/a")
    harness.drain()
    assert (seen, web.asked) == ([1], ["b/1"])
    harness.app.workers.pause(pipeline="note")
    harness.app.workers.resume(source="web/a")
    harness.app.enqueue(Note(2))
    harness.drain()
    assert (seen, web.asked) == ([1], ["b/1", "a/1"])


def test_a_paused_source_is_a_closed_gate_with_all_its_instances(start: Start, web: Web) -> None:
    harness = start(web.pipeline(Source("web", per=host)))
    first = harness.app.enqueue(Fetch("a/1")).id
    harness.app.workers.pause(source="web")
    harness.drain()
    later = harness.app.enqueue(Fetch("new/1")).id  # an instance that was not there yet
    harness.drain()
    assert web.asked == []
    assert [one.state for one in harness.app.sources.get("web")] == [SourceState.HELD] * 2
    for task in (first, later):
        why = harness.app.why(task)
        assert (why.cause, why.paused_scope) == (Cause.PAUSED, "source:web")
    harness.app.workers.resume(source="web")
    harness.drain()
    assert sorted(web.asked) == ["a/1", "new/1"]


def test_a_call_to_a_paused_source_puts_its_stage_off(start: Start) -> None:
    mail = Source("mail")
    sent: list[int] = []
    pipeline = Pipeline(Note)

    @pipeline.stage(calls=10)
    def send(ctx: Context[Note]) -> None:
        ctx.call(mail, lambda: sent.append(ctx.payload.number))

    harness = start(pipeline)
    with pytest.raises(ConfigError, match="there is no source 'mail'"):
        harness.app.workers.pause(source="mail")  # no stage has it, and no call was made
    harness.app.enqueue(Note(1))
    harness.drain()
    harness.app.workers.pause(source="mail")
    task = harness.app.enqueue(Note(2)).id
    harness.drain(wait_for_due=False)
    assert (sent, harness.task(task).status, harness.task(task).failures) == ([1], Status.PENDING, 0)
    harness.app.workers.resume(source="mail")
    harness.drain()
    assert sent == [1, 2]


def test_a_task_stops_between_two_stages_when_its_pipeline_is_paused(start: Start) -> None:
    ran: list[str] = []
    pipeline = Pipeline(Note)
    operators: list[Harness] = []

    @pipeline.stage
    def first(ctx: Context[Note]) -> None:
        ran.append("first")
        operators[0].app.workers.pause(pipeline="note")
        harness.clock.advance(1)  # by then every worker has asked again what is paused

    @pipeline.stage
    def second(ctx: Context[Note]) -> None:
        ran.append("second")

    harness = start(pipeline)
    operators.append(start(pipeline))
    task = harness.app.enqueue(Note(1)).id
    harness.drain()
    assert ran == ["first"]
    assert harness.task(task).status is Status.PENDING
    harness.app.workers.resume(pipeline="note")
    harness.drain()
    assert ran == ["first", "second"]
    assert harness.task(task).failures == 0


def test_a_pause_is_paused_once_and_has_a_name(start: Start) -> None:
    harness = start(notes([]))
    app = harness.app
    app.workers.pause(queue="default")
    with pytest.raises(IllegalTransition, match="the queue default is paused already"):
        app.workers.pause(queue="default")
    with pytest.raises(IllegalTransition, match="everything is not paused"):
        app.workers.resume()
    with pytest.raises(ConfigError, match="there is no pipeline 'nope'; this app has: note"):
        app.workers.pause(pipeline="nope")
    with pytest.raises(ConfigError, match="one of pipeline, queue at a time"):
        app.workers.pause(pipeline="note", queue="default")
    with pytest.raises(ConfigError, match="has a name"):
        app.workers.pause(queue="")
    app.workers.resume(queue="default")


# Sources


def test_sources_tell_how_they_stand(start: Start, web: Web) -> None:
    source = Source("web", per=host, rate="60/min", burst=3, concurrency=2, breaker=Breaker(failures=2, pause="5m"))
    harness = start(web.pipeline(source))
    assert harness.app.sources.list() == []
    harness.app.enqueue_many([Fetch(f"a/{number}") for number in range(4)])
    harness.drain(wait_for_due=False)
    [status] = harness.app.sources.list()
    assert (status.name, status.source, status.instance) == ("web/a", "web", "a")
    assert (status.state, status.is_healthy, status.enabled) == (SourceState.OPEN, True, True)
    assert (status.calls, status.failures, status.tokens, status.burst) == (3, 0, 0, 3)
    assert (status.inside, status.concurrency, status.waiting) == (0, 2, 1)
    assert status.waiting_since is not None
    assert status.hit_rate is None
    web.is_down = True
    harness.drain(wait_for_due=False)
    harness.clock.advance(2)
    harness.drain(wait_for_due=False)
    harness.clock.advance(2)
    harness.drain(wait_for_due=False)
    [status] = harness.app.sources.get("web/a")
    assert (status.state, status.streak, status.opened) == (SourceState.PAUSED, 2, 1)
    assert status.last_error == "ConnectionError: refused"
    assert status.why == "paused after 2 failures in a row"
    assert status.paused_until is not None
    assert status.last_success_at is not None
    assert status.last_failure_at is not None
    harness.clock.advance(300)
    [status] = harness.app.sources.get("web")
    assert (status.state, status.is_healthy) == (SourceState.HALF_OPEN, False)


def test_a_source_of_the_code_is_shown_before_it_was_used(start: Start, web: Web) -> None:
    harness = start(web.pipeline(Source("web", rate="60/min", burst=3)))
    [status] = harness.app.sources.list()
    assert (status.name, status.tokens, status.calls, status.is_known) == ("web", 3, 0, True)
    with pytest.raises(SourceNotFound, match="there is no source 'mail'; this app has: web"):
        harness.app.sources.get("mail")


def test_an_operator_enables_what_was_disabled(start: Start, web: Web) -> None:
    harness = start(web.pipeline(Source("web", breaker=Breaker(failures=2, pause="1s", disable_after=3))))
    task = harness.app.enqueue(Fetch("a/1")).id
    web.is_down = True
    harness.drain()
    assert len(web.asked) == 3
    [status] = harness.app.sources.get("web")
    assert (status.state, status.why) == (SourceState.DISABLED, "disabled after 3 failures in a row")
    harness.clock.advance(60)
    harness.drain(wait_for_due=False)
    why = harness.app.why(task)
    assert (why.cause, why.gate) in ((Cause.SOURCE, "web"), (Cause.NO_WORKER, None))
    web.is_down = False
    assert harness.app.sources.enable("web") == ["web"]
    [status] = harness.app.sources.get("web")
    assert (status.state, status.streak, status.paused_until) == (SourceState.OPEN, 0, None)
    harness.drain()
    assert harness.task(task).status is Status.SUCCEEDED


def test_an_operator_disables_a_source_with_all_its_instances(start: Start, web: Web) -> None:
    harness = start(web.pipeline(Source("web", per=host)))
    with pytest.raises(SourceNotFound, match="no instance of source 'web' was used yet"):
        harness.app.sources.disable("web")
    harness.app.enqueue_many([Fetch("a/1"), Fetch("b/1")])
    harness.drain()
    assert harness.app.sources.disable("web") == ["web/a", "web/b"]
    harness.app.enqueue_many([Fetch("a/2"), Fetch("b/2")])
    harness.drain()
    assert len(web.asked) == 2
    harness.app.sources.enable("web/b")
    harness.drain()
    assert web.asked[2:] == ["b/2"]
    assert {one.name: one.state for one in harness.app.sources.list()} == {
        "web/a": SourceState.DISABLED,
        "web/b": SourceState.OPEN,
    }
    harness.app.sources.enable("web")
    harness.drain()
    assert web.asked[3:] == ["a/2"]


def test_approve_is_a_signal(start: Start) -> None:
    pipeline = Pipeline(Note)

    @pipeline.stage
    def work(ctx: Context[Note]) -> None:
        if ctx.signal("approved") is None:
            raise Waiting(until="approved")

    harness = start(pipeline)
    task = harness.app.enqueue(Note(1)).id
    harness.drain()
    assert harness.task(task).status is Status.WAITING
    harness.app.tasks.approve(task)
    harness.drain()
    assert harness.task(task).status is Status.SUCCEEDED


# Why


def working(harness: Harness) -> None:
    """Somebody is at work, so that a task waits for nothing but its gates."""
    from onceward.store.attempts.workers import NewWorker, register

    new = NewWorker("ant", "host", 1, None, "", "", 300_000)
    harness.app._transact(lambda: register(new, harness.clock.now()))


def test_why_names_the_source_and_when_its_next_token_comes(start: Start, web: Web) -> None:
    harness = start(web.pipeline(Source("web", rate="1/min", burst=1)))
    tasks = [harness.app.enqueue(Fetch(f"a/{number}")).id for number in range(3)]
    harness.drain(wait_for_due=False)
    working(harness)
    why = harness.app.why(tasks[2])
    assert (why.cause, why.gate, why.ahead) == (Cause.SOURCE, "web", 1)
    assert why.sentence == "source web has no token left; the next comes in 1m; 1 stand before it"
    assert why.until is not None
    assert (why.until.timestamp() * 1_000) - harness.clock.now() == 60_000


def test_why_names_a_source_that_is_left_alone(start: Start, web: Web) -> None:
    harness = start(web.pipeline(Source("web", breaker=Breaker(failures=1, pause="5m"), concurrency=1)))
    tasks = [harness.app.enqueue(Fetch(f"a/{number}")).id for number in range(2)]
    web.is_down = True
    harness.drain(wait_for_due=False)
    working(harness)
    why = harness.app.why(tasks[1])
    assert (why.cause, why.gate) == (Cause.SOURCE, "web")
    assert why.sentence == ("source web is left alone for 5m: paused after a failure (ConnectionError: refused)")
    harness.app.sources.disable("web")
    assert harness.app.why(tasks[1]).sentence == (
        "source web is disabled until an operator enables it: disabled by an operator"
    )


def test_why_names_the_limit_of_a_pipeline(start: Start) -> None:
    said: list[str] = []
    pipeline = Pipeline(Note, concurrency=1)
    harnesses: list[Harness] = []

    @pipeline.stage
    def work(ctx: Context[Note]) -> None:
        if ctx.payload.number == 0:
            why = harnesses[0].app.why(tasks[1])
            said.extend([why.cause.value, why.sentence, str(why.gate)])

    harness = start(pipeline)
    harnesses.append(start(pipeline))
    tasks = [harness.app.enqueue(Note(number)).id for number in range(2)]
    working(harness)
    harness.drain()
    assert said == ["limit", "pipeline note runs only so many at once: its only place is taken", "=note"]


# Tidying up


def test_gates_that_no_task_needs_are_pruned(start: Start, web: Web) -> None:
    source = Source("web", per=host, rate="60/min")
    harness = start(web.pipeline(source, key_concurrency=1), notes([], concurrency=2))
    harness.app.enqueue_many([Fetch("a/1"), Fetch("b/1"), Note(1)])
    harness.drain()
    assert len(gates(harness)) == 5
    harness.app.sources.disable("web/b")
    harness.app.enqueue(Fetch("b/2"))
    harness.drain()
    assert harness.app.tasks.prune("1d").gates == 3, "those of keys: they are made anew when they are needed"
    harness.clock.advance(3 * 86_400)
    assert harness.app.tasks.prune("1d").gates == 1, "that of an instance nobody has asked since"
    assert set(gates(harness)) == {"=note", "web/b"}
    harness.app.sources.enable("web")
    harness.drain()
    assert web.asked[-1] == "b/2"


def gates(harness: Harness) -> list[str]:
    return [name for (name,) in sql(harness, "SELECT name FROM onceward_gate")]


def sql(harness: Harness, text: str) -> list[Any]:
    return harness.app.read(lambda connection: connection.execute(text).fetchall())


def test_places_of_what_was_cancelled_are_swept(start: Start) -> None:
    pipeline = Pipeline(Note, concurrency=2)
    harnesses: list[Harness] = []
    inside: list[int] = []

    @pipeline.stage
    def work(ctx: Context[Note]) -> None:
        inside.append(len(sql(harness, "SELECT task FROM onceward_slot")))
        harnesses[0].app.tasks.cancel(ctx.task.id)

    harness = start(pipeline)
    harnesses.append(start(pipeline))
    harness.app.enqueue(Note(1))
    harness.drain()
    assert inside == [1]
    session = harness.app._store.session()
    nobody: Callable[..., Any] = lambda *_: ()  # noqa: E731
    keeping = Housekeeping(
        session, harness.app.config, mine=nobody, declared_dead=nobody, suspects_found=nobody, check_presence=False
    )
    keeping.step()
    session.close()
    assert sql(harness, "SELECT task FROM onceward_slot") == []


def test_a_gate_that_counts_what_cannot_be_is_found(start: Start, web: Web, subtests: pytest.Subtests) -> None:
    harness = start(web.pipeline(Source("web")))
    harness.app.enqueue(Fetch("a/1"))
    harness.drain()
    for wound, says in (
        ("streak = 3", "gate web says 3 failures in a row, and 0 in all"),
        ("calls = -1", "gate web counts what cannot be"),
        ("enabled = 0", "gate web is disabled and does not say why"),
    ):
        with subtests.test(wound):
            write(harness, f"UPDATE onceward_gate SET {wound}")
            sentences = [breach.sentence for breach in harness.app.verify().check("gates").breaches]
            assert any(says in sentence for sentence in sentences), sentences
            write(harness, "UPDATE onceward_gate SET streak = 0, calls = 1, enabled = 1")


def write(harness: Harness, text: str) -> None:
    session = harness.app._store.session()
    session.opened().execute(text)
    session.close()
