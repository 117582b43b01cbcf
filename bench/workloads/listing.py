"""Lists of tasks: how soon a filtered page, a count and the figures of the last hour are there beside many tasks."""

import logging
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import apsw
import psycopg

from bench.clone import multiply_finished
from bench.plan import PAD, Plan
from bench.runlog import Tally
from bench.samples import Outcome, percentile
from bench.target import Target
from onceward import App, Context, Failed, Filtered, Payload, Pipeline, Retry, Waiting

SEEDS = 5_000
"""Tasks that are run; what else has ended are copies of them."""
NEWEST = 1_000
"""Tasks that are made after the copies, of each sort."""
RARE = 20
PAGE = 50


class Page(Payload, kind="page"):
    """Something to read."""

    url: str
    number: int
    pad: str = PAD

    def key(self) -> str:
        return self.url


class Question(Payload, kind="question"):
    """Something to approve."""

    about: int


def bench_app(url: str) -> App:
    """An app whose tasks end in every way."""
    page: Pipeline[Page] = Pipeline(Page, retry=Retry(retries=0))
    question: Pipeline[Question] = Pipeline(Question)

    @page.stage
    def read(ctx: Context[Page]) -> None:
        match ctx.payload.number % 100:
            case 0:
                raise Failed(f"no answer from https://host{ctx.payload.number}.example within 30s")
            case 1 | 2:
                raise Filtered("robots: not allowed")

    @question.stage
    def ask(ctx: Context[Question]) -> None:
        if not ctx.signal("approved"):
            raise Waiting(until="approved")

    return App(url, [page, question])


def lists(target: Target, plan: Plan) -> Outcome:
    """Fill a database, then ask for pages by every sort of filter, again and again."""
    with closing(bench_app(target.url)) as app:
        sought = _fill(app, target, plan.listed)
        app.tasks.search()  # the first call reads the settings, too
        values: dict[str, float] = {}
        for name, filters in _questions(sought).items():
            took = [
                _took_ms(lambda text=text: app.tasks.search(text, limit=PAGE))  # type: ignore[misc]
                for text in filters
                for _ in range(plan.asked)
            ]
            values[f"lists-{name}"] = percentile(took, 0.95)
        counts = [_took_ms(lambda: app.tasks.count("status:failed")) for _ in range(plan.asked)]
        groups = [_took_ms(lambda: app.tasks.groups("created<24h")) for _ in range(plan.asked)]
        hours = [_took_ms(app.stats.hour) for _ in range(plan.asked)]
    values["lists-count"] = percentile(counts, 0.95)
    values["lists-groups"] = percentile(groups, 0.95)
    values["lists-hour-first"] = hours[0]
    values["lists-hour"] = statistics.median(hours)
    return Outcome(values, Tally(0, once=0, twice=0, never=0, unknown=0))


def _fill(app: App, target: Target, wanted: int) -> dict[str, Any]:
    """Make very many ended tasks, then a few of every other sort."""
    logging.getLogger("onceward").setLevel(logging.CRITICAL)  # thousands of tasks fail as they should
    app.enqueue_many([Page(f"https://seed.example/{number}", number) for number in range(SEEDS)])
    app.run(until_idle=True)
    app.close()
    multiply_finished(target, wanted)
    _rename(target)
    with app.batch("nightly") as batch:
        for number in range(NEWEST):
            batch.add(Page(f"https://batch.example/{number}", number))
    app.enqueue_many([Question(number) for number in range(NEWEST)])
    app.run(until_idle=True)
    pages = [Page(f"https://new.example/{number}", number) for number in range(NEWEST)]
    ids = [one.id for one in app.enqueue_many(pages)]
    return {"lineage": str(app.tasks.get(ids[5]).lineage), "id": ids[-1], "old": SEEDS // 2}


def _rename(target: Target) -> None:
    """Some of the oldest tasks become of a kind that nothing else has."""
    change = f"UPDATE onceward_task SET kind = 'rare' WHERE id <= {RARE}"
    if target.store == "sqlite":
        with closing(apsw.Connection(target.url.removeprefix("sqlite:///"))) as file:
            file.execute(change)
    else:
        with psycopg.connect(target.url, autocommit=True) as server:
            server.execute(change)


def _questions(sought: dict[str, Any]) -> dict[str, list[str]]:
    return {
        "all": [""],
        "id": [f"id:{sought['id']}", f"id:{sought['old']}", "id:999999999999"],
        "key": ["key:https://seed.example/17", "key:https://batch.example/5 status:succeeded", "key:nothing"],
        "lineage": [f"lineage:{sought['lineage']}", f"lineage:{sought['old']}"],
        "batch": ["batch:nightly", "batch:nightly status:failed"],
        "failed": ["status:failed", "status:failed kind:page", "status:failed,cancelled"],
        "status": ["status:filtered", "status:succeeded", "status:cancelled", "-status:succeeded"],
        "open": ["status:pending", "status:waiting", "status:running", "status:retryable", "status:open"],
        "kind": ["kind:page", "kind:question", "kind:rare", "kind:nothing", "-kind:page"],
        "other": ["payload.number>4990", "payload.url~nothing", "error:timeout", "reason~robots", "key:https://seed*",
                  "attempts>3", "cost>0.1", "created>1h", "-status:succeeded -status:filtered depth>2"],
    }  # fmt: skip


def _took_ms(ask: Callable[[], object]) -> float:
    began = time.perf_counter()
    ask()
    return (time.perf_counter() - began) * 1_000
