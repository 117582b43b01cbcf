"""Alerts: watches of the application, stored once while they last, and told to a webhook that may be anything."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from onceward import (
    App,
    Config,
    ConfigError,
    Connection,
    Context,
    Filtered,
    HttpTrigger,
    NextTick,
    Payload,
    Pipeline,
    Watch,
)
from onceward.model.times import moment
from onceward.support import http_post  # fmt: skip
from onceward.testing import FakeClock
from onceward.views.alerts import Alert
from onceward.worker.watcher import Watcher
from onceward.worker.webhook import post
from tests.nursery import nursery
from tests.store.conftest import NOON
from tests.worker.receiver import Receiver, receiving

FIVE_MINUTES = 300
opened: list[App] = []
"""Apps of the test that is run."""


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    while opened:
        opened.pop().close()


class Numbers:
    """An application whose trouble is a table of numbers."""

    def __init__(self, url: str, *watches: Watch, **config: Any) -> None:
        self.clock = FakeClock(NOON)
        self.app = self.with_watches(url, *watches, **config)
        self.app.prepare()
        with self.app._lock:
            self.app._session().opened().execute("DROP TABLE IF EXISTS trouble")
            self.app._session().opened().execute("CREATE TABLE trouble (who text, amount integer)")

    def with_watches(self, url: str, *watches: Watch, **config: Any) -> App:
        opened.append(App(url, watches=watches, config=Config(**config)).on(url, clock=self.clock))
        return opened[-1]

    def sql(self, text: str) -> None:
        with self.app._lock:
            self.app._session().opened().execute(text)

    def look(self) -> list[Alert]:
        return self.app.alerts.look()

    def sentences(self) -> list[str]:
        return sorted(alert.sentence for alert in self.look())


TOTAL = Watch("trouble", "SELECT sum(amount) FROM trouble", above=2, advice="Have less of it.")
BY_NAME = Watch("trouble", "SELECT amount, who FROM trouble", above=2, advice="Have less of it.")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A webhook that answers."""
    with receiving() as made:
        yield made


# Watches


def test_a_number_above_what_is_normal_is_an_alert_until_it_is_not(store_url: str) -> None:
    numbers = Numbers(store_url, TOTAL)
    numbers.sql("INSERT INTO trouble VALUES ('ant', 2)")
    assert numbers.look() == []
    numbers.sql("INSERT INTO trouble VALUES ('bee', 1)")

    [alert] = numbers.look()
    assert (alert.rule, alert.subject, alert.count, alert.threshold) == ("trouble", "all", 3, 2)
    assert (alert.sentence, alert.advice) == ("trouble is 3, above 2", "Have less of it.")
    assert alert.raised_at == moment(NOON)

    numbers.clock.advance(FIVE_MINUTES)
    numbers.sql("INSERT INTO trouble VALUES ('cow', 10)")
    [same] = numbers.look()
    assert (same.id, same.count, same.raised_at) == (alert.id, 13, alert.raised_at)
    assert same.seen_at == moment(numbers.clock.now())

    numbers.sql("DELETE FROM trouble")
    assert numbers.look() == []
    [over] = numbers.app.alerts.list(open_only=False)
    assert (over.id, over.is_open) == (alert.id, False)

    numbers.sql("INSERT INTO trouble VALUES ('ant', 9)")
    [again] = numbers.look()
    assert again.id != alert.id


def test_every_row_has_a_subject_of_its_own(store_url: str) -> None:
    numbers = Numbers(store_url, BY_NAME)
    numbers.sql("INSERT INTO trouble VALUES ('ant', 3), ('bee', 1), ('cow', 4), ('cow', 5)")

    assert numbers.sentences() == ["trouble for ant is 3, above 2", "trouble for cow is 5, above 2"]
    numbers.sql("DELETE FROM trouble WHERE who = 'cow'")
    assert numbers.sentences() == ["trouble for ant is 3, above 2"]


def test_a_function_may_look_and_name_tasks(store_url: str) -> None:
    def query(connection: Connection) -> list[tuple[int, str, Any]]:
        assert connection.execute("SELECT count(*) FROM trouble WHERE who LIKE 'a%%'").fetchall()
        return [(7, connection.dialect, [4, 5]), (8, "as json", "[6, 7]"), (9, "none", None)]

    numbers = Numbers(store_url, Watch("mine", query, above=0, advice="Look."))

    found = {alert.subject: alert.tasks for alert in numbers.look()}
    assert found == {numbers.app.dialect: (4, 5), "as json": (6, 7), "none": ()}


@pytest.mark.parametrize("answer", [None, 0, [], [(0,)], [(None,)]], ids=repr)
def test_nothing_is_normal(store_url: str, answer: Any) -> None:
    assert Numbers(store_url, Watch("mine", lambda _: answer, above=0, advice="Look.")).look() == []


def test_a_percent_sign_in_sql_is_one(store_url: str) -> None:
    watch = Watch("a", "SELECT count(*) FROM trouble WHERE who LIKE 'a%'", above=0, advice="Look.")
    numbers = Numbers(store_url, watch)
    numbers.sql("INSERT INTO trouble VALUES ('ant', 3), ('bee', 1)")

    assert numbers.sentences() == ["a is 1, above 0"]


def raising(error: BaseException) -> Any:
    def query(_: Connection) -> Any:
        raise error

    return query


BROKEN = {
    "sql": "SELECT nothing FROM nowhere",
    "writes": "INSERT INTO trouble VALUES ('ant', 1) RETURNING amount",
    "raises": raising(RuntimeError("no")),
    "verdict": raising(Filtered("no")),
    "exits": raising(SystemExit(3)),
    "text": lambda _: [("many",)],
    "too wide": lambda _: [(1, "a", [], 4)],
    "nan": lambda _: float("nan"),
    "infinite": lambda _: float("inf"),
    "no id": lambda _: [(1, "a", [2**63])],
    "no tasks": lambda _: [(1, "a", ["x"])],
}


@pytest.mark.parametrize("query", BROKEN.values(), ids=BROKEN)
def test_a_watch_that_fails_is_an_alert_of_its_own_and_stops_no_other(store_url: str, query: Any) -> None:
    numbers = Numbers(store_url, Watch("broken", query, above=0, advice="Look."), TOTAL)
    numbers.sql("INSERT INTO trouble VALUES ('ant', 3)")

    found = {alert.rule: alert for alert in numbers.look()}

    assert set(found) == {"watch failed", "trouble"}
    assert found["watch failed"].subject == "broken"
    assert found["watch failed"].sentence.startswith("the watch 'broken' failed: ")
    assert numbers.app.read(lambda connection: connection.execute("SELECT count(*) FROM trouble").fetchall()) == [(1,)]


def test_a_watch_that_takes_too_long_is_stopped(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    endless = {
        "sqlite": "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
        "postgres": "SELECT 1 FROM pg_sleep(60)",
    }
    monkeypatch.setattr("onceward.views.alerts.LONGEST_QUERY_S", 0.2)
    watch = Watch("endless", lambda one: one.execute(endless[one.dialect]).fetchall(), above=0, advice="Look.")
    began = time.monotonic()

    [alert] = Numbers(store_url, watch).look()

    assert (alert.rule, alert.subject) == ("watch failed", "endless")
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("subject", ["\x00", "\ud800", "x" * 10_000, "'; DROP TABLE trouble"], ids=ascii)
def test_a_subject_may_be_any_text(store_url: str, subject: str) -> None:
    numbers = Numbers(store_url, Watch("mine", lambda _: [(1, subject)], above=0, advice="Look."))

    [first], [second] = numbers.look(), numbers.look()

    assert first.id == second.id
    assert len(first.subject) <= 200


def test_a_watch_that_works_again_is_no_alert_and_keeps_what_it_had_found(store_url: str) -> None:
    numbers = Numbers(store_url, TOTAL)
    numbers.sql("INSERT INTO trouble VALUES ('ant', 3)")
    [alert] = numbers.look()

    numbers.sql("ALTER TABLE trouble RENAME TO away")
    assert {one.rule for one in numbers.look()} == {"trouble", "watch failed"}

    numbers.sql("ALTER TABLE away RENAME TO trouble")
    assert [one.id for one in numbers.look()] == [alert.id]


def test_an_app_does_not_resolve_what_another_watches(store_url: str) -> None:
    numbers = Numbers(store_url, TOTAL)
    numbers.sql("INSERT INTO trouble VALUES ('ant', 3)")
    [alert] = numbers.look()
    other = numbers.with_watches(store_url)

    numbers.clock.advance(FIVE_MINUTES)
    assert [one.id for one in other.alerts.look()] == [alert.id]
    numbers.clock.advance("25h")
    assert other.alerts.look() == [], "nobody has looked for a day: its watch is gone"


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""}, {"name": "a\x00"}, {"advice": "\ud800"}, {"above": float("inf")},
        {"name": "depth"}, {"name": "watch failed"}, {"query": " "}, {"query": 7}, {"above": "3"},
        {"above": float("nan")}, {"above": True}, {"advice": ""},
    ],
    ids=repr,
)  # fmt: skip
def test_a_watch_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Watch(**{"name": "mine", "query": "SELECT 1", "above": 0, "advice": "Look.", **wrong})


def test_two_watches_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="two watches are named 'trouble'"):
        App("sqlite:///:memory:", watches=[TOTAL, BY_NAME])


# Once, by whoever comes first


def test_no_process_looks_again_within_five_minutes(store_url: str) -> None:
    numbers = Numbers(store_url, TOTAL)
    numbers.app.alerts.look(if_due=True)
    numbers.sql("INSERT INTO trouble VALUES ('ant', 3)")

    assert numbers.app.alerts.look(if_due=True) == []
    numbers.clock.advance(FIVE_MINUTES - 1)
    assert numbers.app.alerts.look(if_due=True) == []
    numbers.clock.advance(1)
    assert len(numbers.app.alerts.look(if_due=True)) == 1


@pytest.mark.parametrize("step", [-3_600_000, 3_600_000])
def test_a_clock_that_is_set_does_not_end_the_looking(store_url: str, step: int) -> None:
    numbers = Numbers(store_url, TOTAL)
    numbers.app.alerts.look(if_due=True)
    numbers.sql("INSERT INTO trouble VALUES ('ant', 3)")
    numbers.clock.step(step)
    numbers.app._store.clock.measured(None)

    assert len(numbers.app.alerts.look(if_due=True)) == 1


RACER = """
import sys
from onceward import App, Watch
app = App(sys.argv[1], watches=[Watch("trouble", "SELECT amount, who FROM trouble", 2, "Have less.")])
app.prepare()
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[2])):
    app.alerts.look(if_due=sys.argv[3] == "due")
"""


def race(url: str, times: int, how: str, racers: int = 4) -> list[str]:
    """Many processes look at once; returns what they have logged."""
    processes = [
        nursery().start(
            ["python", "-c", RACER, url, str(times), how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(racers)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    lines: list[str] = []
    for process in processes:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
        lines += said.splitlines()
    return lines


def test_racing_processes_store_and_log_an_alert_once(store_url: str) -> None:
    numbers = Numbers(store_url, BY_NAME)
    numbers.sql("INSERT INTO trouble VALUES ('ant', 3), ('bee', 4)")
    numbers.app.close()

    said = race(store_url, 10, "at once")

    assert len([line for line in said if line.startswith("alert ")]) == 2
    assert sorted(alert.subject for alert in numbers.app.alerts.list(open_only=False)) == ["ant", "bee"]


def test_of_racing_processes_one_looks(store_url: str) -> None:
    numbers = Numbers(store_url, BY_NAME)
    numbers.app.close()

    race(store_url, 3, "due")

    looks = "SELECT count(DISTINCT at) FROM onceward_sample"
    assert numbers.app.read(lambda connection: connection.execute(looks).fetchall()) == [(1,)]


# Telling a webhook


def told(url: str, receiver_url: str, **config: Any) -> Numbers:
    """Trouble, and somebody to be told."""
    numbers = Numbers(url, TOTAL, alert_webhook=receiver_url, **config)
    numbers.sql("INSERT INTO trouble VALUES ('ant', 3)")
    return numbers


def test_an_alert_and_its_end_are_told_once_each(store_url: str, receiver: Receiver) -> None:
    numbers = told(store_url, receiver.url)

    [alert] = numbers.look()
    numbers.look()
    assert receiver.bodies == [
        {
            "id": alert.id,
            "status": "open",
            "rule": "trouble",
            "subject": "all",
            "lineage": None,
            "key": None,
            "count": 3.0,
            "threshold": 2.0,
            "tasks": [],
            "sentence": "trouble is 3, above 2",
            "advice": "Have less of it.",
            "raised_at": "2023-11-14T22:13:20.000+00:00",
            "seen_at": "2023-11-14T22:13:20.000+00:00",
            "resolved_at": None,
        }
    ]
    assert alert.told_at == moment(NOON)

    numbers.sql("DELETE FROM trouble")
    numbers.look()
    numbers.look()
    assert [(body["id"], body["status"]) for body in receiver.bodies] == [(alert.id, "open"), (alert.id, "resolved")]


def test_slack_gets_a_text_that_mentions_no_user(store_url: str, receiver: Receiver) -> None:
    lineage = uuid.UUID(int=7)
    numbers = Numbers(store_url, alert_webhook=receiver.url, alert_format="slack")
    alert = Alert(
        1, "repeats", str(lineage), lineage, "<!channel>", 4, 3, (5, 6), "page '<!channel>' & more", "Look at it.",
        moment(NOON), moment(NOON), None, None,
    )  # fmt: skip

    assert post(receiver.url, numbers.app.config.alert_format, alert).is_delivered

    [body] = receiver.bodies
    assert body == {
        "text": "*Alert: repeats* page '&lt;!channel&gt;' &amp; more\nLook at it.\nTasks 5, 6\n"
        "Lineage 00000000-0000-0000-0000-000000000007"
    }


def test_a_webhook_that_answers_with_an_error_is_told_again_later_and_later(store_url: str, receiver: Receiver) -> None:
    numbers = told(store_url, receiver.url)
    receiver.answers = [500, 503, 429]

    for wait_s in (29, 59, 119):
        numbers.look()
        seen = len(receiver.bodies)
        numbers.clock.advance(wait_s)
        numbers.look()
        assert len(receiver.bodies) == seen, "that was too soon"
        numbers.clock.advance(1)
    [alert] = numbers.look()

    assert [body["status"] for body in receiver.bodies] == ["open"] * 4
    assert alert.told_at == moment(numbers.clock.now())


def test_a_webhook_that_was_down_is_told_when_it_is_back(store_url: str) -> None:
    with receiving() as gone:
        port = gone.port
    numbers = told(store_url, f"http://127.0.0.1:{port}/alerts")
    assert [alert.told_at for alert in numbers.look()] == [None]
    numbers.sql("DELETE FROM trouble")
    numbers.look()
    numbers.clock.advance("10m")

    with receiving(port) as back:
        numbers.look()

        assert [body["status"] for body in back.bodies] == ["resolved"], "once, as it is by now"


def test_one_alert_that_is_refused_keeps_no_other_from_being_told(store_url: str, receiver: Receiver) -> None:
    numbers = Numbers(store_url, BY_NAME, alert_webhook=receiver.url)
    numbers.sql("INSERT INTO trouble VALUES ('ant', 3), ('bee', 4)")
    receiver.answers = [400]

    assert sum(alert.told_at is not None for alert in numbers.look()) == 1
    assert len(receiver.bodies) == 2


def test_no_redirect_is_followed(store_url: str, receiver: Receiver) -> None:
    with receiving() as elsewhere:
        numbers = told(store_url, receiver.url)
        receiver.answers, receiver.moved_to = [302], elsewhere.url

        [alert] = numbers.look()

        assert alert.told_at is None
        assert elsewhere.bodies == []


def test_who_resolves_while_it_is_told_is_told_of_the_end_too(store_url: str, receiver: Receiver) -> None:
    numbers = told(store_url, "")
    [alert] = numbers.look()
    numbers.sql("UPDATE onceward_alert SET tell_at = 0")
    quiet = numbers.app
    telling = numbers.with_watches(store_url, TOTAL, alert_webhook=receiver.url)
    watcher = Watcher(telling._store.client_session(), lambda: telling.config, (), None)
    telling.prepare()
    original, receiver.answers = receiver.bodies, []

    class Interrupting(list[Any]):
        def append(self, body: Any) -> None:
            super().append(body)
            if len(self) == 1:
                numbers.sql("DELETE FROM trouble")
                quiet.alerts.look()

    receiver.bodies = Interrupting(original)
    watcher.step()
    watcher.step()
    watcher._session.close()

    assert [(body["id"], body["status"]) for body in receiver.bodies] == [(alert.id, "open"), (alert.id, "resolved")]


def test_a_webhook_that_hangs_has_a_time_limit(receiver: Receiver) -> None:
    receiver.hangs = True
    alert = Alert(1, "r", "s", None, None, 1, 0, (), "It is.", "Do.", moment(NOON), moment(NOON), None, None)
    began = time.monotonic()

    answer = post(receiver.url, "json", alert, time_limit_s=0.2)

    assert (answer.is_delivered, answer.is_away) == (False, True)
    assert time.monotonic() - began < 5


class Dripping:
    """A server that answers a header line at a time, and never comes to an end."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/"
        self.is_left = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        connection, _ = self._listening.accept()
        self._listening.close()
        with connection, suppress(OSError):
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while not self.is_left.wait(0.02):
                connection.sendall(b"x: y\r\n")
        self.is_left.set()


@pytest.mark.parametrize(
    "send",
    [
        lambda url: http_post.post(url, {}, {}, time_limit_s=0.3),
        lambda url: HttpTrigger(url, timeout="300ms")(NextTick(None, 1, 1.0, 1, 0)),
    ],
    ids=["post", "trigger"],
)
def test_the_time_limit_of_a_post_holds_for_an_answer_that_drips(send: Callable[[str], None]) -> None:
    server = Dripping()
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"no answer within 0\.3 s"):
        send(server.url)
    assert time.monotonic() - began < 2
    assert server.is_left.wait(5), "its connection was closed, and the thread that read there has ended"


def test_the_time_limit_of_a_post_holds_for_the_look_up_of_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.wait(60) and [])
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        http_post.post("http://blackhole.example/", {}, {}, time_limit_s=0.2)
    assert time.monotonic() - began < 2
    answered.set()


class Order(Payload, kind="order"):
    number: int


def test_a_webhook_that_hangs_holds_up_neither_work_nor_its_end(store_url: str, receiver: Receiver) -> None:
    receiver.hangs = True
    order = Pipeline(Order)

    @order.stage
    def wait(ctx: Context[Order]) -> None:
        assert receiver.asked.wait(30), "the watcher of this worker has never asked"

    @order.stage
    def ship(ctx: Context[Order]) -> None: ...

    watch = Watch("always", "SELECT 1", above=0, advice="Look.")
    app = App(store_url, [order], watches=[watch], config=Config(alert_webhook=receiver.url))
    tasks = app.enqueue_many([Order(number) for number in range(20)])
    began = time.monotonic()

    app.run(until_idle=True)

    assert time.monotonic() - began < 9, "the webhook has a time limit of ten seconds"
    assert {app.tasks.get(task.id).status.word for task in tasks} == {"succeeded"}
    assert [alert.told_at for alert in app.alerts.list()] == [None]
    app.close()


def test_a_tick_looks_before_it_ends(store_url: str) -> None:
    order = Pipeline(Order)

    @order.stage
    def ship(ctx: Context[Order]) -> None: ...

    app = App(store_url, [order], watches=[Watch("always", "SELECT 1", above=0, advice="Look.")])
    opened.append(app)

    app.tick()

    assert [alert.rule for alert in app.alerts.list()] == ["always"]


@pytest.mark.parametrize(
    "address",
    ["ftp://host/x", "file:///etc/passwd", "https://", "hooks.example.com", "http://a b/", "http://h:0/", "http://h:x/",
     "https://me:secret@host/"],
)  # fmt: skip
def test_what_is_no_address_of_a_webhook_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="alert_webhook") as refused:
        Config(alert_webhook=address)

    assert "secret" not in str(refused.value)


def test_the_address_of_a_webhook_is_not_shown() -> None:
    assert "T000" not in repr(Config(alert_webhook="https://hooks.example.com/T000"))
