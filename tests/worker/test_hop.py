"""A lineage across a real HTTP hop: what a server enqueues for a stage is a child of that stage's task."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from onceward import App, ConfigError, Context, Enqueued, Limits, NoLineage, Payload, Pipeline, SpawnRefused, StopList
from onceward.authoring.current_stage import is_worker
from onceward.baggage import incoming, outgoing_headers
from onceward.testing import Harness
from tests.worker.conftest import Start, words


class Crawl(Payload, kind="crawl"):
    url: str
    then: str = ""

    def key(self) -> str:
        return self.url


class Page(Payload, kind="page"):
    url: str

    def key(self) -> str:
        return self.url


class Plain(Payload, kind="plain"):
    text: str


class Service:
    """A server of another team, on the same database: it enqueues what it is asked for."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.answers: list[Enqueued | Exception] = []
        self.headers: list[Any] = []
        self.make: Callable[[str], Payload] = Page
        self.options: dict[str, Any] = {}
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                url = self.rfile.read(int(self.headers["Content-Length"])).decode()
                service.headers.append(self.headers)
                try:
                    with incoming(self.headers):
                        answer: Enqueued | Exception = service.app.enqueue(service.make(url), **service.options)
                except Exception as error:
                    answer = error
                service.answers.append(answer)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(isinstance(answer, Enqueued) and bool(answer)).encode())

            def log_message(self, *_: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def ask(self, url: str, headers: dict[str, str]) -> bool:
        """A request as any client sends it."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._server.server_port}/", url.encode(), headers, method="POST"
        )
        with urllib.request.urlopen(request, timeout=10) as response:
            return bool(json.load(response))

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self.app.close()


@contextmanager
def serving(harness: Harness) -> Iterator[Service]:
    service = Service(harness.app.on(harness.app.url, clock=harness.clock))
    try:
        yield service
    finally:
        service.close()


def pipelines(send: Callable[[Context[Crawl]], Any] | None = None) -> tuple[Pipeline[Crawl], Pipeline[Page]]:
    crawl, page = Pipeline(Crawl), Pipeline(Page)

    @crawl.stage
    def fetch(ctx: Context[Crawl]) -> str:
        return str(send(ctx)) if send is not None else ""

    @page.stage
    def read(ctx: Context[Page]) -> None:
        pass

    return crawl, page


def headers_of(task: Any) -> dict[str, str]:
    """What the stage of a task would send."""
    return {"baggage": f"onceward.lineage={task.lineage},onceward.task={task.id},onceward.depth={task.depth}"}


def test_what_a_server_enqueues_for_a_stage_is_a_child_of_its_task(start: Start) -> None:
    asked: list[bool] = []
    harness = start(*pipelines(lambda ctx: asked.append(service.ask("http://a/1", outgoing_headers({"X-Own": "yes"})))))
    with serving(harness) as service:
        root = harness.enqueue(Crawl("http://a/"))
        harness.drain()

        [answer] = service.answers
        assert isinstance(answer, Enqueued)
        assert (answer.created, asked, service.headers[0]["X-Own"]) == (True, [True], "yes")
    child, parent = harness.task(answer.id), harness.task(root)
    assert (child.parent, child.depth, child.lineage) == (parent.id, 1, parent.lineage)
    assert child.status.word == "succeeded"
    assert "spawned" in words(harness, parent.id)


def test_a_stage_that_is_tried_again_asks_for_the_same_child(start: Start) -> None:
    tries = iter([ConnectionError("lost"), None])

    def send(ctx: Context[Crawl]) -> None:
        service.ask("http://a/1", outgoing_headers())
        if (error := next(tries)) is not None:
            raise error

    harness = start(*pipelines(send))
    with serving(harness) as service:
        harness.enqueue(Crawl("http://a/"))
        harness.drain()
        first, second = service.answers

    assert isinstance(first, Enqueued)
    assert isinstance(second, Enqueued)
    assert (first.created, second.created, second.existing) == (True, False, first.id)
    assert len(harness.app.tasks.list()) == 2


def test_a_stage_that_is_tried_again_knows_what_arrived_before(start: Start) -> None:
    known: list[list[str]] = []

    def send(ctx: Context[Crawl]) -> None:
        known.append([child.kind for child in ctx.children])
        service.ask("http://a/1", outgoing_headers())
        if len(known) == 1:
            raise ConnectionError("lost")

    harness = start(*pipelines(send))
    with serving(harness) as service:
        harness.enqueue(Crawl("http://a/"))
        harness.drain()

    assert known == [[], ["page"]]


def test_the_rules_of_the_lineage_hold_for_what_arrives(start: Start) -> None:
    harness = start(*pipelines())
    root = harness.task(harness.enqueue(Crawl("http://a/"), limits=Limits(max_tasks=3, max_depth=1)))
    with incoming(headers_of(root)):
        one, again = harness.enqueue(Page("http://a/1")), harness.enqueue(Page("http://a/1"))
        itself = harness.enqueue(Crawl("http://a/"))
    with incoming(headers_of(harness.task(one))):
        too_deep = harness.enqueue(Page("http://a/2"))
    with incoming(headers_of(root)):
        two, full = harness.app.enqueue_many([Page("http://a/3"), Page("http://a/4")])

    assert (one.created, again.created, again.existing) == (True, False, one.id)
    assert not itself
    assert "the spawning task itself is the same work" in str(itself.reason)
    assert not too_deep
    assert "max_depth is 1" in str(too_deep.reason)
    assert two.created
    assert not full
    assert "max_tasks is 3" in str(full.reason)
    assert words(harness, root.id).count("refused") == 2
    assert words(harness, one.id).count("refused") == 1


def test_a_duplicate_in_the_lineage_is_refused_and_names_the_task(start: Start) -> None:
    harness = start(*pipelines())
    root = harness.task(harness.enqueue(Crawl("http://a/")))
    with incoming(headers_of(root)):
        first = harness.enqueue(Page("http://a/1"))
        sibling = harness.task(harness.enqueue(Page("http://a/2")))
    with incoming(headers_of(sibling)):
        second = harness.enqueue(Page("http://a/1"))

    assert (second.created, second.existing) == (False, first.id)
    assert "is under way in this lineage" in str(second.reason)


def test_depth_and_ancestors_come_from_the_database_not_from_the_header(start: Start) -> None:
    harness = start(*pipelines())
    root = harness.task(harness.enqueue(Crawl("http://a/")))
    with incoming(headers_of(root)):
        child = harness.task(harness.enqueue(Page("http://a/1")))
    forged = {"baggage": f"onceward.lineage={child.lineage},onceward.task={child.id},onceward.depth=0"}
    with incoming(forged):
        grandchild = harness.enqueue(Page("http://a/2"))
        loop = harness.enqueue(Crawl("http://a/"))

    assert harness.task(grandchild).depth == 2
    assert not loop
    assert f"its ancestor, task {root.id}" in str(loop.reason)


@pytest.mark.parametrize("ending", ["succeeded", "cancelled"])
def test_the_sender_may_have_ended_meanwhile_but_not_been_cancelled(start: Start, ending: str) -> None:
    harness = start(*pipelines())
    root = harness.enqueue(Crawl("http://a/"))
    if ending == "succeeded":
        harness.drain()
    else:
        harness.app.tasks.cancel(root.id)
    assert harness.task(root).status.word == ending

    with incoming(headers_of(harness.task(root))):
        late = harness.enqueue(Page("http://a/1"))
    harness.drain()

    if ending == "succeeded":
        assert (harness.task(late).parent, harness.task(late).status.word) == (root.id, "succeeded")
    else:
        assert not late
        assert "was cancelled" in str(late.reason)


def test_a_task_that_waits_for_its_children_waits_for_one_that_arrives_too(start: Start) -> None:
    crawl, page = Pipeline(Crawl), Pipeline(Page)
    seen: list[list[str]] = []

    @crawl.stage
    def fetch(ctx: Context[Crawl]) -> None:
        ctx.spawn(Page("http://a/1"), after="1h")

    @crawl.stage(join=True)
    def gather(ctx: Context[Crawl]) -> None:
        seen.append(sorted(str(child.key) for child in ctx.children))

    @page.stage
    def read(ctx: Context[Page]) -> None:
        pass

    harness = start(crawl, page)
    root = harness.enqueue(Crawl("http://a/"))
    harness.drain(wait_for_due=False)
    assert harness.task(root).status.word == "waiting"
    with incoming(headers_of(harness.task(root))):
        harness.enqueue(Page("http://a/2"), after="2h")
    harness.advance("90m")
    harness.drain(wait_for_due=False)
    assert (harness.task(root).status.word, seen) == ("waiting", [])
    harness.drain()

    assert seen == [["http://a/1", "http://a/2"]]


def test_a_later_stage_knows_what_arrived_for_its_task(start: Start) -> None:
    crawl, page = Pipeline(Crawl), Pipeline(Page)

    @crawl.stage
    def fetch(ctx: Context[Crawl]) -> None:
        with serving(harness) as service:
            service.ask("http://a/1", outgoing_headers())

    @crawl.stage(join=True)
    def gather(ctx: Context[Crawl]) -> str:
        return ctx.outcome(Page("http://a/1")).status

    @page.stage
    def read(ctx: Context[Page]) -> None:
        pass

    harness = start(crawl, page)
    root = harness.enqueue(Crawl("http://a/"))
    harness.drain()

    assert harness.task(root).results["gather"] == "succeeded"


@pytest.mark.parametrize("unknown", ["task", "lineage"])
def test_a_task_that_the_database_does_not_know_is_no_lineage(start: Start, unknown: str) -> None:
    harness = start(*pipelines())
    root = harness.task(harness.enqueue(Crawl("http://a/")))
    lineage = uuid.uuid4() if unknown == "lineage" else root.lineage
    number = 4_711 if unknown == "task" else root.id
    headers = {"baggage": f"onceward.lineage={lineage},onceward.task={number},onceward.depth=0"}

    with incoming(headers), pytest.raises(NoLineage, match=f"knows no task {number} of lineage {lineage}"):
        harness.enqueue(Page("http://a/1"))
    with incoming(headers, otherwise="root"):
        made = harness.enqueue(Page("http://a/1"))

    assert (harness.task(made).parent, harness.task(made).depth) == (None, 0)


def test_a_child_may_narrow_the_limits_it_arrives_under_and_not_widen_them(start: Start) -> None:
    harness = start(*pipelines())
    root = harness.task(harness.enqueue(Crawl("http://a/"), limits=Limits(max_depth=4)))
    with incoming(headers_of(root)):
        narrow = harness.enqueue(Page("http://a/1"), limits=Limits(max_depth=1))
        with pytest.raises(ConfigError, match="max_depth=5 is more than 4"):
            harness.enqueue(Page("http://a/2"), limits=Limits(max_depth=5))
    with incoming(headers_of(harness.task(narrow))):
        refused = harness.enqueue(Page("http://a/3"))

    assert not refused
    assert "max_depth is 1" in str(refused.reason)


def test_policies_and_stop_lists_hold_for_what_arrives(start: Start) -> None:
    crawl, _ = pipelines()
    page = Pipeline(Page, refused={"cycle": "raise"})
    page.stage(_nothing)
    harness = start(crawl, page, stop_list=StopList(domains=["bad.example"]))
    root = harness.task(harness.enqueue(Crawl("http://a/")))
    with incoming(headers_of(root)):
        child = harness.task(harness.enqueue(Page("http://a/1")))
        stopped = harness.enqueue(Page("http://bad.example/"))
    with incoming(headers_of(child)), pytest.raises(SpawnRefused):
        harness.enqueue(Page("http://a/1"))

    assert not stopped


def _nothing(ctx: Context[Page]) -> None:
    pass


def test_a_parent_without_a_key_of_its_own_is_known_by_all_its_fields(start: Start) -> None:
    plain = Pipeline(Plain, cycle="key")

    @plain.stage
    def read(ctx: Context[Plain]) -> None:
        pass

    harness = start(plain)
    large = Plain("x" * 10_000)
    root = harness.task(harness.enqueue(large))
    with incoming(headers_of(root)):
        again, other = harness.app.enqueue_many([large, Plain("y")])

    assert not again
    assert other


def test_in_a_worker_process_a_request_brings_its_lineage(start: Start) -> None:
    harness = start(*pipelines())
    root = harness.task(harness.enqueue(Crawl("http://a/")))
    with is_worker():
        with incoming(headers_of(root)):
            child = harness.enqueue(Page("http://a/1"))
            own = harness.enqueue(Page("http://a/2"), root=True)
        with pytest.raises(NoLineage):
            harness.enqueue(Page("http://a/3"))

    assert (harness.task(child).parent, harness.task(own).parent) == (root.id, None)


def test_awaited_is_the_same(start: Start) -> None:
    harness = start(*pipelines())
    root = harness.task(harness.enqueue(Crawl("http://a/")))
    with incoming([(b"Baggage", headers_of(root)["baggage"].encode())]):
        child = asyncio.run(harness.app.aenqueue(Page("http://a/1")))

    assert harness.task(child).parent == root.id


def test_a_batch_waits_for_what_arrived_for_its_tasks(start: Start) -> None:
    harness = start(*pipelines())
    with harness.app.batch("night") as batch:
        batch.add(Crawl("http://a/"))
    [root] = batch.tasks
    with incoming(headers_of(harness.task(root))):
        harness.enqueue(Page("http://a/1"), after="1h")

    harness.drain(wait_for_due=False)
    assert harness.task(root).status.word == "succeeded"
    assert not harness.app.batches.list()[0].has_ended
    harness.drain()

    assert harness.app.batches.list()[0].has_ended
    assert harness.app.batches.list()[0].total == 2


def test_many_servers_at_once_keep_the_limits_of_one_lineage_exactly(start: Start, store_url: str) -> None:
    harness = start(*pipelines())
    root = harness.task(harness.enqueue(Crawl("http://a/"), limits=Limits(max_tasks=30, max_children=20)))
    answers: list[Enqueued] = []

    def serve(number: int) -> None:
        with (
            App(store_url, harness.app._registry).on(store_url, clock=harness.clock) as app,
            incoming(headers_of(root)),
        ):
            for page in range(6):  # the first two are the same for all
                key = f"http://a/{page}" if page < 2 else f"http://a/{number}/{page}"
                answers.append(app.enqueue(Page(key)))

    threads = [threading.Thread(target=serve, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(answers) == 36
    assert sum(answer.created for answer in answers) == 20
    assert sum(answer.existing is not None for answer in answers) == 2 * 5
    assert sum(not answer for answer in answers) == 36 - 20 - 10
    assert len(harness.app.tasks.list(kind="page", limit=100)) == 20


def test_it_can_be_part_of_a_transaction_of_the_servers_own(start: Start) -> None:
    harness = start(*pipelines())
    root = harness.task(harness.enqueue(Crawl("http://a/")))
    session = harness.app._store.session()
    connection = session.opened()
    with incoming(headers_of(root)):
        connection.execute("BEGIN")
        dropped = harness.enqueue(Page("http://a/1"), conn=connection)
        connection.execute("ROLLBACK")
        connection.execute("BEGIN")
        kept = harness.enqueue(Page("http://a/2"), conn=connection)
        connection.execute("COMMIT")
    session.close()

    assert dropped.created
    assert [task.key for task in harness.app.tasks.list(kind="page")] == ["http://a/2"]
    assert harness.task(kept).parent == root.id
    assert words(harness, root.id) == ["spawned"], "once"
