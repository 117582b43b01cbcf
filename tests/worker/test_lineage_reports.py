"""What one can ask about lineages: the tree with its refusals, lists, where work is, and why a task is not running."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from onceward import (
    App,
    Budget,
    ConfigError,
    Context,
    Failed,
    Limits,
    Payload,
    Pipeline,
    Retryable,
    Rule,
    Status,
    TaskNotFound,
    Waiting,
)
from onceward.errors import LineageNotFound
from onceward.store import queries
from onceward.store.attempts.workers import NewWorker, register
from onceward.store.drivers.sqlite import as_parameter
from onceward.store.lines.lines import Placement, put_in_line
from onceward.store.op import Op, Query
from onceward.store.reports import waits
from onceward.testing import Harness
from onceward.views.why import Cause
from onceward.views.why import why as explained
from tests.worker.conftest import Start


class Page(Payload, kind="page"):
    url: str
    links: tuple[str, ...] = ()

    def key(self) -> str:
        return self.url


class Company(Payload, kind="company"):
    name: str


SITE = {
    "home": ("jobs", "about", "home"),
    "jobs": ("job 1", "job 2", "about", "home"),
    "job 1": ("deep",),
}


def crawler() -> tuple[Pipeline[Page], Pipeline[Company]]:
    page = Pipeline(Page)
    company = Pipeline(Company, unique="everywhere")

    @page.stage
    def scrape(ctx: Context[Page]) -> None:
        for url in SITE.get(ctx.payload.url, ctx.payload.links):
            ctx.spawn(Page(url))
        if ctx.payload.url == "home":
            ctx.spawn(Company("acme"))
        if ctx.payload.url == "job 2":
            raise Failed("gone")

    @company.stage
    def look(ctx: Context[Company]) -> None: ...

    return page, company


def crawled(start: Start) -> tuple[Harness, Any, Any]:
    """A lineage with refusals, a link to a task of another lineage, and a failure."""
    harness = start(*crawler())
    acme = harness.enqueue(Company("acme"), after="1h")
    root = harness.enqueue(Page("home"), limits=Limits(max_depth=2))
    harness.drain(wait_for_due=False)
    return harness, root, acme


def test_a_lineage_is_a_tree_with_its_refusals_links_and_limits(start: Start) -> None:
    harness, root, acme = crawled(start)

    lineage = harness.app.lineages.get(root.id)

    assert [(one.key, one.depth, one.status.word, one.attempts) for one in lineage.walk()] == [
        ("home", 0, "succeeded", 1),
        ("jobs", 1, "succeeded", 1),
        ("job 1", 2, "succeeded", 1),
        ("job 2", 2, "failed", 1),
        ("about", 1, "succeeded", 1),
    ]
    family = {one.key: one for one in lineage.walk()}
    twice, loop = sorted(family["jobs"].refusals, key=lambda one: one.key or "")
    assert (loop.rule, loop.key, loop.ancestor, loop.existing) == (Rule.CYCLE, "home", root.id, None)
    assert (twice.rule in (Rule.DUPLICATE, Rule.DONE), twice.key, twice.existing) == (True, "about", family["about"].id)
    assert [(one.rule.value, one.ancestor) for one in family["home"].refusals] == [("cycle", root.id)]
    assert [(one.rule.value, one.key) for one in family["job 1"].refusals] == [("depth", "deep")]
    assert family["job 2"].reason == "gone"
    assert [(link.task, link.status) for link in family["home"].links] == [(acme.id, Status.PENDING)]
    assert lineage.counts == {Status.SUCCEEDED: 4, Status.FAILED: 1}
    assert (lineage.tasks, lineage.tasks_counted, lineage.max_tasks) == (5, 5, 10_000)
    assert (lineage.deepest, lineage.max_depth, lineage.refusals, lineage.left_out) == (2, 2, 4, 0)
    assert not lineage.is_paused


def test_a_lineage_is_found_by_any_of_its_tasks_and_by_its_id(start: Start) -> None:
    harness, root, _ = crawled(start)
    lineage = harness.app.lineages.get(root.id)
    deep = max(one.id for one in lineage.walk())
    for name in (deep, str(deep), lineage.id, str(lineage.id)):
        assert harness.app.lineages.get(name) == lineage
    jobs = next(one for one in lineage.walk() if one.key == "jobs")
    part = harness.app.lineages.get(jobs.id, subtree=True)
    assert [one.key for one in part.walk()] == ["jobs", "job 1", "job 2"]
    assert (part.is_whole, part.root, part.tasks, part.tasks_counted) == (False, jobs, 3, 5)
    with pytest.raises(TaskNotFound):
        harness.app.lineages.get(4_711)
    with pytest.raises(LineageNotFound):
        harness.app.lineages.get(uuid.UUID(int=1))


def test_a_root_that_has_not_spawned_is_a_lineage_with_the_limits_it_will_have(start: Start) -> None:
    harness = start(*crawler())
    lineage = harness.app.lineages.get(harness.enqueue(Page("about")).id)
    assert (lineage.tasks, lineage.tasks_counted, lineage.max_depth, lineage.max_tasks) == (1, 1, 10, 10_000)
    assert harness.app.lineages.list() == []


def test_a_large_lineage_is_read_in_few_queries_and_can_be_cut(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = start(*crawler())
    few = harness.enqueue(Page("few", tuple(f"page {number}" for number in range(3))))
    many = harness.enqueue(Page("many", tuple(f"page {number}" for number in range(300))))
    harness.drain()
    asked = count_queries(harness.app, monkeypatch)
    harness.app.lineages.get(few.id)
    for_few = asked()
    lineage = harness.app.lineages.get(many.id)
    assert asked() - for_few == for_few
    assert len(list(lineage.walk())) == 301

    cut = harness.app.lineages.get(many.id, limit=10)
    assert [one.id for one in cut.walk()] == [one.id for one in lineage.walk()][:10]
    assert (cut.left_out, cut.tasks) == (291, 301)


def test_refusals_that_are_only_counted_are_told(start: Start) -> None:
    harness = start(*crawler())
    root = harness.enqueue(Page("loop", ("loop",) * 103))
    harness.drain()
    lineage = harness.app.lineages.get(root.id)
    assert (len(lineage.root.refusals), lineage.root.refusals_only_counted, lineage.refusals) == (100, 3, 103)


def test_lineages_are_listed_newest_or_largest_first(start: Start) -> None:
    harness = start(*crawler())
    large = harness.enqueue(Page("large", ("a", "b", "c")))
    harness.advance("1m")
    small = harness.enqueue(Page("small", ("d",)))
    alone = harness.enqueue(Page("alone"))
    harness.drain()
    assert [(one.root, one.tasks_counted) for one in harness.app.lineages.list()] == [(small.id, 2), (large.id, 4)]
    assert [one.root for one in harness.app.lineages.list(largest=True)] == [large.id, small.id]
    assert [one.root for one in harness.app.lineages.list(1)] == [small.id]
    [_, first] = harness.app.lineages.list()
    assert (first.kind, first.key, first.status, first.deepest) == ("page", "large", Status.SUCCEEDED, 1)
    assert first.counts == {Status.SUCCEEDED: 4}
    assert alone.id not in [one.root for one in harness.app.lineages.list()]


def test_a_narrower_scope_is_no_lineage_of_its_own(start: Start) -> None:
    page = Pipeline(Page)

    @page.stage
    def scrape(ctx: Context[Page]) -> None:
        if ctx.payload.url == "home":
            ctx.spawn(Page("narrow"), limits=Limits(max_tasks=2))

    harness = start(page)
    root = harness.enqueue(Page("home"))
    harness.drain()
    assert [one.root for one in harness.app.lineages.list()] == [root.id]


# Asking for work


def test_work_is_found_where_it_is_active_done_or_refused(start: Start) -> None:
    harness, root, acme = crawled(start)
    mine = harness.app.lineages.get(root.id).id
    about = harness.app.tasks.find(Page("about"))
    assert about
    assert about.active is None
    assert about.done is not None
    assert about.done.key == "about"
    assert [one.rule.value in ("duplicate", "done") for one in about.refusals] == [True]

    deep = harness.app.tasks.find(Page("deep"), mine)
    assert (bool(deep), deep.is_refused, [one.rule.value for one in deep.refusals]) == (False, True, ["depth"])

    company = harness.app.tasks.find(Company("acme"))
    assert company.active is not None
    assert company.active.id == acme.id
    assert harness.app.tasks.find(Company("acme"), mine).tasks == ()

    again = harness.enqueue(Page("about"))
    assert [task.id for task in harness.app.tasks.find(Page("about")).tasks] == [again.id, about.done.id]
    assert [task.id for task in harness.app.tasks.find(Page("about"), str(mine)).tasks] == [about.done.id]
    nothing = harness.app.tasks.find(Page("nowhere"))
    assert (nothing.tasks, nothing.refusals, nothing.is_refused) == ((), (), False)
    with pytest.raises(ConfigError, match="not the id of a lineage"):
        harness.app.tasks.find(Page("about"), "17")


def test_tasks_are_filtered_by_lineage_depth_and_identity(start: Start) -> None:
    harness, root, acme = crawled(start)
    mine = harness.app.lineages.get(root.id)
    newest_first = sorted((one.id for one in mine.walk()), reverse=True)

    def found(**filters: Any) -> list[int]:
        return [task.id for task in harness.app.tasks.list(**filters)]

    assert found(lineage=mine.id) == newest_first
    assert found(lineage=str(mine.id), status="failed") == [one.id for one in mine.walk() if one.key == "job 2"]
    deepest = sorted((one.id for one in mine.walk() if one.depth == 2), reverse=True)
    assert found(min_depth=2) == deepest
    assert found(lineage=mine.id, min_depth=2) == deepest
    assert found(kind="page", key="jobs") == [one.id for one in mine.walk() if one.key == "jobs"]
    assert found(kind="page", key="jobs", min_depth=2) == []
    assert found(kind="page", key="jobs", status="failed") == []
    assert found(kind="company", key='{"name":"acme"}') == [acme.id]
    assert found(lineage=mine.id, key="job *") == deepest


# Why


def why(harness: Harness, task: Any) -> tuple[Cause, str]:
    answer = harness.app.why(task.id)
    assert str(answer) == answer.sentence
    return answer.cause, answer.sentence


def test_why_tells_of_due_times_and_retries(start: Start) -> None:
    page = Pipeline(Page)

    @page.stage
    def scrape(ctx: Context[Page]) -> None:
        if ctx.payload.url == "flaky":
            raise Retryable("no answer", after="2m")
        if ctx.payload.url == "poll":
            raise Waiting(after="3m")

    harness = start(page)
    later = harness.enqueue(Page("later"), after="5m")
    flaky, poll = harness.enqueue(Page("flaky")), harness.enqueue(Page("poll"))
    harness.drain(wait_for_due=False)
    assert why(harness, later) == (Cause.DUE, "it is due in 5m")
    assert why(harness, flaky) == (Cause.DUE, "it has failed (no answer) and is tried again in 2m")
    assert why(harness, poll) == (Cause.DUE, "it runs again in 3m: asked to be polled again")
    assert harness.app.why(later.id).until == harness.task(later).due_at


def test_why_tells_of_signals_children_and_other_code(start: Start) -> None:
    page = Pipeline(Page)

    @page.stage
    def scrape(ctx: Context[Page]) -> None:
        for url in ctx.payload.links:
            ctx.spawn(Page(url), after="1h")
        if ctx.payload.url == "held":
            raise Waiting(until="approved", after="1d")
        if ctx.payload.url == "held for ever":
            raise Waiting(until="approved")

    @page.stage(join=True)
    def collect(ctx: Context[Page]) -> None: ...

    harness = start(page)
    held, for_ever = harness.enqueue(Page("held")), harness.enqueue(Page("held for ever"))
    parent = harness.enqueue(Page("home", tuple(f"page {number}" for number in range(7))))
    harness.drain(wait_for_due=False)
    assert why(harness, held) == (Cause.SIGNAL, "it waits for the signal 'approved', for 1d at most")
    assert why(harness, for_ever) == (Cause.SIGNAL, "it waits for the signal 'approved'")
    assert harness.app.why(held.id).until is not None
    assert harness.app.why(for_ever.id).until is None
    children = tuple(child.id for child in harness.app.lineages.get(parent.id).root.children)
    answer = harness.app.why(parent.id)
    assert (answer.cause, answer.open_children) == (Cause.CHILDREN, children)
    named = ", ".join(f"task {child}" for child in children[:5])
    assert answer.sentence == f"it waits for 7 children to end: {named} and 2 more"


def test_why_climbs_to_what_the_tasks_below_wait_for_and_says_what_unblocks_them(start: Start) -> None:
    page, usd = Pipeline(Page), Budget("usd", limit=1)

    @page.stage
    def scrape(ctx: Context[Page]) -> None:
        for url in ctx.payload.links:
            ctx.spawn(Page(url, ("costly", "dear") if url == "middle" else ()))
        if ctx.payload.url == "asks":
            raise Waiting(until="the price")

    @page.stage(join=True, budget=usd, estimate=0.6)
    def collect(ctx: Context[Page]) -> None:
        ctx.charge(usd, 0.6)

    harness = start(page)
    root = harness.enqueue(Page("home", ("middle", "asks")))
    harness.drain(wait_for_due=False)
    answer = harness.app.why(root.id)
    middle, asks = answer.below
    [costly] = middle.below
    assert (answer.cause, answer.command) == (Cause.CHILDREN, None)
    assert (asks.cause, asks.command) == (Cause.SIGNAL, f"onceward signal {asks.task} 'the price'")
    assert (costly.cause, costly.command) == (Cause.BUDGET, "onceward budgets usd --limit 1.2")
    harness.app.budgets.set_limit("usd", "1.2")
    harness.drain(wait_for_due=False)
    told = harness.app.why(costly.task)
    assert told.cause is Cause.ENDED
    [before] = [text.partition(" UTC ")[2] for text in told.before]
    assert before.startswith("parked: budget usd has not enough left")


def test_why_follows_a_batch_to_its_open_tasks(start: Start) -> None:
    page = Pipeline(Page)

    @page.stage
    def scrape(ctx: Context[Page]) -> None:
        if ctx.payload.url == "slow":
            raise Waiting(until="approved")
        if ctx.payload.links:
            with harness.app.batch("night", then=Page("summary")) as batch:
                batch.add(Page("slow"))

    harness = start(page)
    harness.enqueue(Page("home", ("slow",)))
    harness.drain()
    tasks = {task.key: task.id for task in harness.app.tasks.list()}
    slow, summary = tasks["slow"], tasks["summary"]
    answer = harness.app.why(summary)
    assert (answer.cause, answer.sentence) == (Cause.BATCH, f"it waits for batch 'night' to end: task {slow} open")
    assert [(one.cause, one.command) for one in answer.below] == [(Cause.SIGNAL, f"onceward approve {slow}")]


@pytest.mark.parametrize(
    ("has_started", "cause"), [(True, Cause.RUNNING), (False, Cause.CLAIMED), (None, Cause.RUNNING)]
)
def test_why_tells_a_running_stage_from_one_that_waits_for_a_thread(has_started: bool | None, cause: Cause) -> None:
    leased = waits.WaitFacts(
        7, "page", "default", 0, Status.RUNNING, "scrape", 0, None, None, None, 0, None, "ant", [], [], 0
    )
    answer = explained(leased, 1_000, has_started=has_started)
    assert answer.cause is cause
    assert ("waits there for a free thread" in answer.sentence) is (cause is Cause.CLAIMED)


@pytest.mark.parametrize(
    ("beat_at", "has_died", "sentence"),
    [
        (900_000, True, "its worker ant has died; the next worker takes it over"),
        (
            749_000,
            False,
            "its worker ant has been silent for 4m11s; after 5m of silence another worker takes it over",
        ),
        (900_000, False, "it is running: stage scrape on ant"),
    ],
)
def test_why_says_that_the_worker_of_a_task_is_lost(beat_at: int, has_died: bool, sentence: str) -> None:
    leased = waits.WaitFacts(
        7, "page", "default", 0, Status.RUNNING, "scrape", 0, None, None, None, 0, None, "ant", [], [], 0,
        beat_at=beat_at, lease_ms=300_000,
    )  # fmt: skip
    answer = explained(leased, 1_000_000, has_died=has_died)
    assert answer.sentence == sentence
    assert answer.command == (None if answer.cause is Cause.RUNNING else "onceward run APP")


def test_why_tells_of_the_end_a_pause_workers_and_the_line(start: Start) -> None:
    harness = start(*crawler())
    ended = harness.enqueue(Page("job 2"))
    harness.drain()
    assert why(harness, ended) == (Cause.ENDED, "it has ended: failed: gone")
    first, second = harness.enqueue(Page("first")), harness.enqueue(Page("second"))
    assert why(harness, second) == (Cause.NO_WORKER, "no worker is alive")
    enter(harness, "ant", "company", "default")
    assert why(harness, second)[0] is Cause.NO_WORKER
    assert "no worker takes page from the queue default; 1 alive" in why(harness, second)[1]
    enter(harness, "bee", "company,page", "mail,default")
    assert why(harness, first) == (Cause.IN_LINE, "it is ready and stands in line as the first; 1 worker would take it")
    answer = harness.app.why(second.id)
    assert (answer.cause, answer.ahead, answer.workers) == (Cause.IN_LINE, 1, ("bee",))
    harness.app.lineages.pause(first.id)
    assert why(harness, first) == (Cause.PAUSED, "it is paused")
    assert harness.app.why(second.id).ahead == 0
    harness.advance("1h")  # the bee is silent for longer than its lease
    assert why(harness, second)[0] is Cause.NO_WORKER
    with pytest.raises(TaskNotFound):
        harness.app.why(4_711)


class Trade(Payload, kind="buy, sell"): ...


def test_why_knows_who_takes_work_whose_names_have_commas(start: Start) -> None:
    trade = Pipeline(Trade, queue="sooner, later")
    trade.stage(close_the_deal)
    harness = start(trade)
    task = harness.enqueue(Trade())
    enter(harness, "ant", "buy", "sooner")
    assert why(harness, task)[0] is Cause.NO_WORKER
    enter(harness, "bee", "page,buy, sell", "sooner, later,mail")
    assert harness.app.why(task.id).workers == ("bee",)


def close_the_deal(ctx: Context[Trade]) -> None: ...


def test_why_tells_of_a_suspect_that_waits_to_run_apart(start: Start) -> None:
    harness = start(*crawler())
    task = harness.enqueue(Page("about"))
    enter(harness, "bee", "company,page", "default")
    mark_suspect(harness, task.id)
    assert why(harness, task) == (Cause.SUSPECT, "it was running when a worker died, and waits to run alone")


def enter(harness: Harness, name: str, kinds: str, queues: str) -> None:
    """A worker that lives and does nothing."""
    new = NewWorker(name, "here", 7, None, kinds, queues, 60_000)
    harness.app._transact(lambda: register(new, harness.clock.now()))


def mark_suspect(harness: Harness, task: int) -> None:
    """As if it had been running when its worker died."""

    def mark() -> Op[None]:
        yield Query("suspect", {"ids": [task], "company": 1})
        yield from put_in_line([Placement(task, "!default:page", 2, 1, harness.clock.now())], harness.clock.now())

    harness.app._transact(mark)


def count_queries(app: App, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Counts what this app asks its database from now on."""
    session = app._session()
    asked: list[str] = []
    run = session.run

    def counted(request: Any) -> Any:
        asked.append(request.name)
        return run(request)

    monkeypatch.setattr(session, "run", counted)
    return lambda: len(asked)


# However many tasks there are


MANY = {
    "postgres": "SELECT value FROM generate_series(1, {rows}) AS value",
    "sqlite": "SELECT value FROM (WITH RECURSIVE n (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE "
    "value < {rows}) SELECT value FROM n)",
}
LINEAGE = {
    "postgres": "('00000000-0000-7000-8000-' || lpad((value / 1000)::text, 12, '0'))::uuid",
    "sqlite": "unhex(printf('000000000000700080%014d', value / 1000))",
}
"""A thousand tasks a lineage."""


def fill(app: App, rows: int) -> uuid.UUID:
    """Many tasks of many lineages, a tenth of them failed; returns one of the lineages."""
    dialect = app.dialect
    identity = "decode(md5(value::text), 'hex')" if dialect == "postgres" else "randomblob(16)"
    payload = "'{}'::bytea" if dialect == "postgres" else "x'7b7d'"
    session = app._session()
    connection = session.opened()
    connection.execute(
        "INSERT INTO onceward_task (kind, version, queue, band, identity, payload, lineage, due_at, created_at, "
        "status, reason, ended_at, depth) "
        f"SELECT 'page', 1, 'default', 2, {identity}, {payload}, {LINEAGE[dialect]}, 1, 1, "
        "CASE WHEN value % 10 = 0 THEN 7 ELSE 4 END, 'made', 1, value % 7 "
        f"FROM ({MANY[dialect].format(rows=rows)}) AS n"
    )
    middle = rows // 2_000
    text = f"{middle:012d}" if dialect == "postgres" else f"{middle:014d}"
    return uuid.UUID(f"00000000-0000-7000-8000-{text}" if dialect == "postgres" else f"000000000000700080{text}")


def best_ms(ask: Callable[[], Any], times: int = 5) -> float:
    """How long something takes when nothing disturbs it."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        ask()
        taken.append((time.perf_counter() - began) * 1_000)
    return min(taken)


def plan(app: App, name: str, params: dict[str, Any]) -> str:
    connection = app._session().opened()
    if app.dialect == "sqlite":
        statement = queries.Statements("sqlite", queries.colon)[name]
        given = {place: as_parameter(params[place]) for place in statement.places}
        rows = connection.execute(f"EXPLAIN QUERY PLAN {statement.text}", given)
        return "\n".join(str(row[3]) for row in rows)
    statement = queries.Statements("postgres", queries.percent)[name]
    return "\n".join(row[0] for row in connection.execute(f"EXPLAIN {statement.text}", params).fetchall())


@pytest.fixture(params=["sqlite", "postgres"])
def vast(request: pytest.FixtureRequest) -> Iterator[App]:
    """An app on a database that is thrown away, not emptied."""
    with App(request.getfixturevalue(f"migrated_{request.param}_url")) as app:
        app.prepare()
        yield app


def test_the_failed_tasks_of_a_lineage_are_found_by_index(vast: App) -> None:
    lineage = fill(vast, 200_000)
    assert len(vast.tasks.list(lineage=lineage, status="failed", limit=1_000)) == 100
    given = {
        "lineage": lineage, "before": 1 << 62, "status": 7, "kind": None, "min_depth": None, "key": None,
        "prefix": None, "limit": 20, "identity": b"i" * 16,
    }  # fmt: skip
    part = {"lineage": lineage, "task": 1, "whole": 1, "offset": 1, "mark": b"m" * 8}
    some = {**part, "least": 0, "most": 3, "paused": None}
    for name, params, index in (
        ("find_in_lineage", given, "onceward_task_lineage"),
        ("find_by_identity", given, "onceward_task_identity"),
        ("report_subtree", {**part, "limit": 10}, "onceward_task_lineage"),
        ("count_subtree", part, "onceward_task_lineage"),
        ("in_subtree", some, "onceward_task_lineage"),
    ):
        told = plan(vast, name, params)
        assert index in told, name
        assert "Seq Scan" not in told, name
        assert "SCAN" not in told, name


@pytest.mark.torture
def test_the_failed_tasks_of_a_lineage_are_found_in_50_ms_among_five_million(vast: App) -> None:
    lineage = fill(vast, 5_000_000)
    assert len(vast.tasks.list(lineage=lineage, status="failed", limit=1_000)) == 100
    assert best_ms(lambda: vast.tasks.list(lineage=lineage, status="failed")) < 50
    assert best_ms(lambda: vast.lineages.get(lineage)) < 500
