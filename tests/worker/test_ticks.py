"""One bounded run of a worker: what it does first, when it ends, and how it starts the next one."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from onceward import (
    App,
    Config,
    ConfigError,
    Connection,
    Context,
    Cron,
    HttpTrigger,
    LambdaTrigger,
    NextTick,
    Payload,
    Pipeline,
    Status,
    SubprocessTrigger,
    Waiting,
)
from onceward.store.attempts.claims import claim
from onceward.store.attempts.workers import NewWorker, register
from onceward.store.lines.memory import LineMemory
from tests.pooler import IS_BETWEEN
from tests.worker.conftest import assert_verified

HOUR_MS = 3_600_000


class Note(Payload, kind="note"):
    number: int = 0


class Slow(Payload, kind="slow"):
    number: int = 0


def notes() -> Pipeline[Note]:
    note: Pipeline[Note] = Pipeline(Note)

    @note.stage
    async def work(ctx: Context[Note]) -> None: ...

    return note


class Ticks:
    """An app on the database of a test, and what its ticks have triggered."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.made: list[App] = []
        self.triggered: list[NextTick] = []

    def app(self, *pipelines: Pipeline[Any], **options: Any) -> App:
        self.made.append(App(self.url, pipelines, **options))
        return self.made[-1]

    def trigger(self, tick: NextTick) -> None:
        self.triggered.append(tick)


@pytest.fixture
def ticks(store_url: str) -> Iterator[Ticks]:
    made = Ticks(store_url)
    yield made
    for app in made.made:
        assert_verified(app)
        app.close()


def rows(app: App) -> list[tuple[Any, ...]]:
    found = app.read(
        lambda one: one.execute("SELECT chain, tasks, how, triggered FROM onceward_tick ORDER BY id").fetchall()
    )
    return [tuple(row) for row in found]


def test_a_tick_ends_when_nothing_is_ready(ticks: Ticks) -> None:
    app = ticks.app(notes())
    app.enqueue_many([Note(number) for number in range(30)])
    app.enqueue(Note(99), after="1h")
    report = app.tick(trigger=ticks.trigger)
    assert (report.tasks, report.outcomes, report.ended) == (30, {"succeeded": 30}, "idle")
    assert (report.work_left, report.triggered, report.why_not) == (False, False, "no work is ready")
    assert (rows(app), ticks.triggered) == ([(0, 30, "idle", 0)], [])
    assert app.stats.counts()[Status.PENDING] == 1


def test_a_tick_claims_no_more_than_it_may_and_triggers_the_next_one(ticks: Ticks) -> None:
    app = ticks.app(notes())
    app.enqueue_many([Note(number) for number in range(30)])
    first = app.tick(max_tasks=8, chain=2, trigger=ticks.trigger)
    assert (first.tasks, first.ended, first.chain, first.triggered) == (8, "max tasks", 0, True)
    [following] = ticks.triggered
    assert (following.max_tasks, following.time_limit_s, following.chain, following.chain_left) == (8, 600.0, 2, 1)
    second = app.tick(max_tasks=8, chain=2, chain_left=1, trigger=ticks.trigger)
    assert (second.chain, second.triggered, ticks.triggered[-1].chain_left) == (1, True, 0)
    third = app.tick(max_tasks=8, chain=2, chain_left=0, trigger=ticks.trigger)
    assert (third.chain, third.triggered, third.why_not) == (2, False, "its chain is at its end")
    assert third.work_left
    assert rows(app) == [(0, 8, "max tasks", 1), (1, 8, "max tasks", 1), (2, 8, "max tasks", 0)]


def test_what_is_not_given_is_as_the_settings_say(ticks: Ticks) -> None:
    app = ticks.app(notes(), config=Config(tick_tasks=3, tick_limit="2m", chain=1))
    app.enqueue_many([Note(number) for number in range(10)])
    app.tick(trigger=ticks.trigger)
    assert ticks.triggered == [NextTick(None, 3, 120.0, 1, 0)]
    app.settings.set("tick_tasks", 4)
    assert app.tick(trigger=ticks.trigger).tasks == 4


def test_its_lease_is_its_own(ticks: Ticks) -> None:
    app = ticks.app(notes(), config=Config(heartbeat="50s"))
    app.enqueue(Note())
    app.tick(trigger=ticks.trigger)
    leases = app.read(lambda one: one.execute("SELECT lease_ms FROM onceward_worker").fetchall())
    assert [row[0] for row in leases] == [120_000]
    assert app.config.lease == "300s", "afterwards everything is as it was"


@pytest.mark.untroubled("its seconds are real ones, and trouble takes some of them")
def test_at_its_time_limit_a_tick_gives_back_what_is_unfinished(ticks: Ticks) -> None:
    slow: Pipeline[Slow] = Pipeline(Slow)

    @slow.stage
    def quick(ctx: Context[Slow]) -> int:
        return 1

    @slow.stage
    async def work(ctx: Context[Slow]) -> None:
        import asyncio

        await asyncio.sleep(30)

    app = ticks.app(slow)
    tasks = [app.enqueue(Slow(number)) for number in range(3)]
    began = time.monotonic()
    report = app.tick(time_limit="500ms", trigger=ticks.trigger)
    assert time.monotonic() - began < 10
    assert (report.ended, report.released, report.tasks, report.triggered) == ("time limit", 3, 0, True)
    assert [app.tasks.get(task.id).status for task in tasks] == [Status.PENDING] * 3
    assert [app.tasks.get(task.id).failures for task in tasks] == [0] * 3
    assert all(app.tasks.get(task.id).results == {"quick": 1} for task in tasks)


@pytest.mark.untroubled("its seconds are real ones, and trouble takes some of them")
def test_a_stage_begins_only_if_its_timeout_fits(ticks: Ticks) -> None:
    began: list[str] = []
    slow: Pipeline[Slow] = Pipeline(Slow)

    @slow.stage(timeout="2s")
    def first(ctx: Context[Slow]) -> None:
        began.append("first")
        time.sleep(0.6)

    @slow.stage(timeout="2s")
    def second(ctx: Context[Slow]) -> None:
        began.append("second")

    app = ticks.app(slow)
    task = app.enqueue(Slow())
    report = app.tick(time_limit="2500ms", trigger=ticks.trigger)
    assert (began, report.released, app.tasks.get(task.id).stage) == (["first"], 1, "second")
    assert report.seconds < 2.4, "it does not wait for its end in vain"
    assert (report.ended, report.triggered) == ("time limit", True)
    app.tick(time_limit="2500ms", trigger=ticks.trigger)
    assert began == ["first", "second"]


def test_a_tick_does_not_listen(ticks: Ticks) -> None:
    if ticks.url.startswith("sqlite") or IS_BETWEEN:
        pytest.skip("SQLite has no notifications, and behind a pooler nobody listens")
    note: Pipeline[Note] = Pipeline(Note)
    listening: list[Any] = []

    def listeners(connection: Connection) -> list[Any]:
        return connection.execute("SELECT query FROM pg_stat_activity WHERE query LIKE 'LISTEN%%'").fetchall()

    @note.stage
    def look(ctx: Context[Note]) -> None:
        listening.append(ctx.read(listeners))

    app = ticks.app(note)
    app.enqueue(Note())
    assert app.tick(trigger=ticks.trigger).tasks == 1
    app.enqueue(Note())
    app.run(until_idle=True)
    assert [len(found) for found in listening] == [0, 1]


def test_a_stage_that_could_never_begin_is_refused_at_the_start(ticks: Ticks) -> None:
    slow: Pipeline[Slow] = Pipeline(Slow)

    @slow.stage(timeout="11m")
    def work(ctx: Context[Slow]) -> None: ...

    app = ticks.app(slow)
    with pytest.raises(ConfigError, match=r"stage slow\.work may take 11m, longer than a tick of 10m"):
        app.tick()
    assert app.tick(time_limit="12m").ended == "idle"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_tasks": 0}, "max_tasks=0: it is a whole number from 1"),
        ({"chain": -1}, "chain=-1: it is a whole number from 0"),
        ({"chain": 1, "chain_left": 2}, "chain_left=2 is more than chain=1"),
        ({"time_limit": 0}, "a tick without time does nothing"),
        ({"queues": ["nowhere"]}, "no stage uses the queue nowhere"),
    ],
)
def test_bounds_that_make_no_sense_are_refused(ticks: Ticks, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        ticks.app(notes()).tick(**options)


def test_a_tick_that_is_refused_leaves_nothing_behind(ticks: Ticks) -> None:
    app = ticks.app(notes())
    with pytest.raises(ConfigError, match="concurrency=0: it is a whole number from 1"):
        app.tick(concurrency=0)
    assert rows(app) == []
    app.settings.set("poll", "2s")
    assert app.config.poll_ms == 2_000
    with pytest.raises(ConfigError, match=r"a lease of 0\.01s cannot be kept"):
        app.settings.set("tick_lease", "10ms")
    assert app.tick().ended == "idle"


def test_a_tick_sweeps_before_it_claims(ticks: Ticks) -> None:
    """Dead workers, batches and tasks whose time is over, schedules that are due."""
    slow: Pipeline[Slow] = Pipeline(Slow, deadline="1s")

    @slow.stage
    def poll(ctx: Context[Slow]) -> None:
        raise Waiting(after="1h")

    app = ticks.app(notes(), slow, schedules=[Cron("* * * * *", Note(7))])
    with app.batch("night", deadline="1s") as batch:
        batch.add(Note(1), after="1h")
    polled = app.enqueue(Slow())
    assert app.tick(trigger=ticks.trigger).outcomes == {"deferred": 1}
    abandoned = app.enqueue(Note(2))
    abandon(app)
    passed(app, HOUR_MS)
    report = app.tick(trigger=ticks.trigger)
    assert app.tasks.get(polled.id).reason == "exceeded 1s"
    assert app.batches.get("night").reason == "batch exceeded 1s"
    assert app.tasks.get(abandoned.id).status is Status.SUCCEEDED
    assert (report.reclaimed, report.expired) == (1, 2)
    assert app.schedules.list()[0].fired >= 1


def abandon(app: App) -> None:
    """Claim what there is as a worker of another machine that is never heard of again."""
    session = app._store.session()
    now = app._store.clock.now()
    new = NewWorker("elsewhere-1", "elsewhere", 1, None, "note", "default", 500)
    worker = session.transact(lambda: register(new, now))
    memory = LineMemory(("default:note",), None, app.dialect == "postgres")
    assert session.transact(lambda: claim(memory, worker, 10, now)).leases
    session.close()


def passed(app: App, ms: int) -> None:
    """Let everything that is stored be so much older."""
    statements = [
        f"UPDATE onceward_batch SET deadline_at = deadline_at - {ms}, created_at = created_at - {ms}",
        f"UPDATE onceward_task SET started_at = started_at - {ms}, created_at = created_at - {ms}",
        f"UPDATE onceward_time_limit SET at = at - {ms}",
        f"UPDATE onceward_worker SET beat_at = beat_at - {ms}",
        f"UPDATE onceward_schedule SET next_at = next_at - {ms}",
    ]
    session = app._store.session()
    connection = session.opened()
    for statement in statements:
        connection.execute(statement)
    if app.dialect == "postgres":
        connection.commit()
    session.close()


def test_a_tick_that_cannot_work_says_so_in_its_row(ticks: Ticks, monkeypatch: pytest.MonkeyPatch) -> None:
    app = ticks.app(notes())
    monkeypatch.setattr(app, "_work", lambda orders: (_ for _ in ()).throw(RuntimeError("out of paper")))
    with pytest.raises(RuntimeError, match="out of paper"):
        app.tick()
    assert rows(app) == [(0, 0, "error: RuntimeError: out of paper", 0)]


# Triggers


def test_a_trigger_that_fails_is_reported_and_nothing_is_lost(ticks: Ticks) -> None:
    def trigger(tick: NextTick) -> None:
        raise OSError("no route")

    app = ticks.app(notes())
    app.enqueue_many([Note(number) for number in range(4)])
    report = app.tick(max_tasks=1, trigger=trigger)
    assert (report.triggered, report.why_not) == (False, "the trigger failed: OSError: no route")
    assert rows(app) == [(0, 1, "max tasks", 0)]
    assert app.tick().tasks == 3


def test_without_a_module_no_other_process_can_go_on(ticks: Ticks) -> None:
    app = ticks.app(notes())
    app.enqueue_many([Note(number) for number in range(4)])
    report = app.tick(max_tasks=1)
    assert "another process must be able to import the app" in (report.why_not or "")


def test_the_command_of_the_next_tick() -> None:
    tick = NextTick("shop.tasks:app", 1_000, 600.0, 2, 1)
    assert SubprocessTrigger("python", ("--log-json",)).command(tick) == [
        "python", "-m", "onceward", "tick", "shop.tasks:app", "--max-tasks", "1000", "--time-limit", "600",
        "--chain", "2", "--chain-left", "1", "--log-json",
    ]  # fmt: skip


def test_the_next_tick_does_the_same_work(ticks: Ticks) -> None:
    slow: Pipeline[Slow] = Pipeline(Slow, queue="night")

    @slow.stage
    async def work(ctx: Context[Slow]) -> None: ...

    app = ticks.app(notes(), slow)
    app.enqueue_many([*(Note(number) for number in range(3)), *(Slow(number) for number in range(3))])
    assert app.tick(max_tasks=1, queues=["night"], concurrency=7, trigger=ticks.trigger).triggered
    [following] = ticks.triggered
    assert (following.queues, following.concurrency) == (("night",), 7)
    assert following.document["queues"] == ("night",)
    command = SubprocessTrigger().command(NextTick("shop:app", 1, 60.0, 2, 1, following.queues, following.concurrency))
    assert command[-3:] == ["--concurrency", "7", "--queues=night"]


def test_a_queue_that_no_command_line_can_name_is_not_taken_for_two(ticks: Ticks) -> None:
    with pytest.raises(ConfigError, match="the queue 'day, night' cannot be named on a command line"):
        SubprocessTrigger().command(NextTick("shop:app", 1, 60.0, 2, 1, ("day, night",)))


@pytest.fixture
def server() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that notes what is posted to it; /no refuses, /elsewhere sends away."""
    posted: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = {"/no": 503, "/elsewhere": 302}.get(self.path, 202)
            if status == 202:
                posted.append({"headers": dict(self.headers), **json.loads(body)})
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/tick")
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    made = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{made.server_port}", posted
    made.shutdown()
    made.server_close()


def test_the_next_tick_is_posted(ticks: Ticks, server: tuple[str, list[dict[str, Any]]]) -> None:
    url, posted = server
    app = ticks.app(notes())
    app.enqueue_many([Note(number) for number in range(9)])
    headers = {"Authorization": "Bearer secret"}
    assert app.tick(max_tasks=1, trigger=HttpTrigger(f"{url}/tick", headers=headers)).triggered
    [told] = posted
    assert told["headers"]["Authorization"] == "Bearer secret"
    assert (told["max_tasks"], told["chain"], told["chain_left"]) == (1, 2, 1)
    for path, says in (("/no", "503"), ("/elsewhere", "302")):
        report = app.tick(max_tasks=1, trigger=HttpTrigger(url + path))
        assert (report.triggered, says in (report.why_not or "")) == (False, True)
    assert len(posted) == 1


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="is no address for a trigger"):
        HttpTrigger("file:///etc/passwd")


def test_a_lambda_function_invokes_itself(ticks: Ticks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "shop-tick")
    client = boto3.client("lambda", region_name="eu-central-1", aws_access_key_id="x", aws_secret_access_key="x")
    payload = json.dumps({"app": None, "max_tasks": 1, "time_limit_s": 60.0, "chain": 2, "chain_left": 1}).encode()
    expected = {"FunctionName": "shop-tick", "InvocationType": "Event", "Payload": payload}
    app = ticks.app(notes())
    app.enqueue_many([Note(number) for number in range(3)])
    with Stubber(client) as stubber:
        stubber.add_response("invoke", {"StatusCode": 202}, expected)
        report = app.tick(max_tasks=1, time_limit="1m", trigger=LambdaTrigger(client=client))
        assert report.triggered, report.why_not
        stubber.assert_no_pending_responses()
        stubber.add_client_error("invoke", "TooManyRequestsException")
        report = app.tick(max_tasks=1, trigger=LambdaTrigger(client=client))
        assert "TooManyRequestsException" in (report.why_not or "")


def test_outside_of_lambda_the_function_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_LAMBDA_FUNCTION_NAME", raising=False)
    with pytest.raises(ConfigError, match="AWS_LAMBDA_FUNCTION_NAME is not set here"):
        LambdaTrigger()(NextTick(None, 1, 1.0, 1, 0))
