"""A job finder in small, whose lineages show what a page has to draw: refusals of every rule, approvals, money, time.

`made(url)` fills a database on a clock of its own, which ends now, and leaves work under way. For tests of the pages,
and to look at them: `python -m tests.web.world sqlite:////tmp/world.db`, then `onceward web tests/web/world.py:app`.
"""

from __future__ import annotations

import os
import random
import sys
import time
from datetime import timedelta
from urllib.parse import urlsplit

from onceward import (
    App,
    Breaker,
    Budget,
    Context,
    Cron,
    Failed,
    Filtered,
    Limits,
    Payload,
    Pipeline,
    Retry,
    Setting,
    Skipped,
    Source,
    Waiting,
)
from onceward.testing import Harness
from onceward.testing.clock import FakeClock

HOSTILE = "<script>alert(1)</script>\u202egnp.exe"
TITLES = ("platform-engineer", "python-developer", "data-engineer", "recruiter", "designer", "frontend-engineer")
TEAMS = ("alerts", "mail", "maps", "forms", "search", "billing", "calendars", "labels", "imports", "archives")

SLOWER = float(os.environ.get("WORLD_SLOWER", "0.02"))
"""How long stages take where time passes by itself, compared with what they take on a clock of their own."""
clock: FakeClock | None = None
"""The clock of a database that is being made; None where time passes by itself."""


def takes(seconds: float) -> None:
    """Let a stage take its time."""
    if clock is not None:
        clock.advance(timedelta(milliseconds=int(seconds * 1_000)))
    else:
        time.sleep(seconds * SLOWER)


def dice_of(text: str) -> random.Random:
    """Return dice that fall the same way for the same text."""
    return random.Random(text)


def host_of(key: str) -> str:
    """Return the host of an address: each has its own limits."""
    return urlsplit(key).hostname or "nowhere"


class Scrape(Payload, kind="scrape"):
    """A run over all boards."""

    at: str

    def key(self) -> str:
        """When it was asked for."""
        return self.at


class Board(Payload, kind="scrape_source"):
    """A board with postings."""

    name: str
    jobs: int = 8

    def key(self) -> str:
        """The name of the board."""
        return self.name


class Job(Payload, kind="job"):
    """A posting."""

    url: str

    def key(self) -> str:
        """Its address."""
        return self.url


class Question(Payload, kind="model_question"):
    """A question to a model."""

    about: str

    def key(self) -> str:
        """What it is about."""
        return self.about


class Page(Payload, kind="page"):
    """A page of a large crawl."""

    path: str
    fan: int = 0

    def key(self) -> str:
        """Its path."""
        return self.path


class Report(Payload, kind="report"):
    """Work at set times, and what follows a batch."""

    about: str


web = Source("web", per=host_of, rate="120/min", burst=40, breaker=Breaker(failures=4, pause="15m", disable_after=40))
model = Source("model", rate="300/min", burst=100, concurrency=8)
feeds = Source("feeds", rate="30/min")
model_usd = Budget("model-usd", limit="10", per="day")
model_tokens = Budget("model-tokens", limit=2_000_000, unit="tokens", per="hour")
web_calls = Budget("web-calls", limit=4_000, unit="calls", per="day")
trial = Budget("model-usd-trial", limit="0.05", per="total")

scrape = Pipeline(Scrape)
board = Pipeline(Board, retry=Retry(retries=1, base="30s"), refused={"depth": "park"})
job = Pipeline(Job, retry=Retry(retries=1, base="20s"))
question = Pipeline(Question, retry=Retry(retries=2, base="15s"))
page = Pipeline(Page)
report = Pipeline(Report)

BOARDS = (
    Board("feed:moebius-mill.example/jobs.rss", 12),
    Board("greenhouse:quillwick", 8),
    Board("workday:crumbling-arch/wd5/careers", 9),
    Board("jsonld:patience-weir.example/careers", 15),
    Board("jsonld:hedgerow-gate.example/careers", 12),
    Board("generic:bazaar-of-offers.example/careers", 190),
)


@scrape.stage
def plan(ctx: Context[Scrape]) -> int:
    """Spawn the boards."""
    takes(0.4)
    for one in BOARDS:
        ctx.spawn(one)
    return len(BOARDS)


@board.stage(source=feeds)
def read(ctx: Context[Board]) -> int:
    """Read the board."""
    takes(dice_of(ctx.payload.name).uniform(0.4, 4.0))
    return ctx.payload.jobs


@board.stage
def spread(ctx: Context[Board]) -> int:
    """Spawn its postings."""
    name = ctx.payload.name
    dice = dice_of(name)
    host = name.partition(":")[2].partition("/")[0]
    takes(0.3)
    for number in range(ctx.payload.jobs):
        slug = f"{dice.choice(('senior', 'staff', 'junior', 'lead'))}-{dice.choice(TITLES)}-{dice.choice(TEAMS)}"
        ctx.spawn(Job(f"https://{host}/{'offer' if ctx.payload.jobs > 100 else slug}/{number}"))
    if name.startswith("workday"):
        ctx.spawn(Job("https://moebius-mill.example/taken"))
        raise Failed(f"drifted: …/{host}/Careers/jobs has no list 'jobPostings' {HOSTILE}")
    return ctx.payload.jobs


@job.stage(source=web, budget=web_calls)
def fetch(ctx: Context[Job]) -> int:
    """Read the posting."""
    dice = dice_of(ctx.payload.url)
    takes(dice.uniform(0.1, 0.9))
    host = host_of(ctx.payload.url)
    if host.startswith("hedgerow"):
        raise ConnectionError(f"{host} cannot be reached: all connection attempts failed")
    if "offer" in ctx.payload.url:
        raise Filtered("does not fit")
    return dice.randrange(4_000, 90_000)


@job.stage(budget=model_tokens, estimate=9_000)
def analyse(ctx: Context[Job]) -> None:
    """Decide whether it is worth a question."""
    dice = dice_of(ctx.payload.url + "#")
    ctx.charge(model_tokens, dice.randrange(1_000, 8_000))
    if dice.random() < 0.35:
        raise Filtered("does not fit")
    if dice.random() < 0.25:
        raise Skipped("known from another board")
    if "moebius" in ctx.payload.url and dice.random() < 0.3:
        ctx.spawn(Board(f"jsonld:moebius-yard.example/{ctx.task.depth}{ctx.payload.url[-1]}", 2))
    ctx.spawn(Question(f"fit:{ctx.payload.url[8:]}"))


@question.stage(source=model, budget=model_usd, estimate="0.04")
def ask(ctx: Context[Question]) -> str:
    """Ask a model."""
    dice = dice_of(f"{ctx.payload.about} {ctx.task.attempt}")
    takes(dice.uniform(0.5, 3.0))
    if dice.random() < 0.06:
        raise TimeoutError("no answer from api.model.example within 30s")
    ctx.charge(model_usd, f"{dice.uniform(0.014, 0.038):.4f}")
    if ctx.payload.about.endswith("/3"):
        ctx.spawn(Scrape("2026-11-17 16:45"))
    if ctx.payload.about.startswith("fit:") and dice.random() < 0.2:
        ctx.spawn(Board(f"jsonld:beyond.example/{ctx.payload.about[-9:]}", 1))
    return "fits"


@page.stage
def crawl(ctx: Context[Page]) -> None:
    """Spawn the pages below, and ask for the first one again."""
    for number in range(ctx.payload.fan):
        ctx.spawn(Page(f"{ctx.payload.path}/{number}", 99 if ctx.task.depth == 0 else 0))
    if ctx.payload.path.endswith("7"):
        ctx.spawn(Page("https://large.example"))
    if ctx.payload.path.endswith("13"):
        raise Failed("KeyError: 'jobPostings'")


@report.stage
def write(ctx: Context[Report]) -> str:
    """Write it, or wait for a word."""
    takes(1.5)
    if ctx.payload.about == "numbers of the quarter" and ctx.signal("numbers") is None:
        raise Waiting(until="numbers")
    return ctx.payload.about


app = App(
    os.environ.get("WORLD_DB", "sqlite:////tmp/world.db"),
    [scrape, board, job, question, page, report],
    schedules=[
        Cron("45 * * * *", Scrape("every hour"), name="scrape"),
        Cron("30 2 * * *", Report("sales"), tz="Europe/Berlin", name="nightly"),
        Cron("*/15 9-17 * * MON-FRI", Report("visitors"), name="visitors", missed="skip"),
    ],
    settings=[Setting("match.min_score", 0.6, float, "Below this score a posting is not shown.")],
)


def made(url: str, *, rounds: int = 3, now_ms: int | None = None, large: bool = False) -> App:
    """Make the database of some hours of work, which end now; returns the app on it."""
    global clock
    harness = Harness(app, url=url, seed=3)
    end = int(time.time() * 1_000) if now_ms is None else now_ms
    try:
        clock = harness.clock
        clock.advance(timedelta(milliseconds=end - (rounds + 1) * 3_600_000 - clock.now()))
        for number in range(rounds):
            limits = Limits(max_depth=4, max_tasks=2_000, max_children=150, budget="0.90", deadline="3h")
            harness.enqueue(
                Scrape("2026-11-17 16:45" if number == 0 else f"2026-11-17 {17 + number}:45"), limits=limits
            )
            _some_batches(harness, number)
            harness.enqueue(Report(f"{HOSTILE} {number}"))
            harness.drain(wait_for_due=False)
            for step in range(9):
                clock.advance("5m")
                for place in range(3):
                    harness.enqueue(Question(f"often {number}-{step}-{place}"))
                    harness.enqueue(Job(f"https://hedgerow-gate.example/often/{number}-{step}-{place}"))
                harness.drain(wait_for_due=False)
                harness.app.alerts.look()
        with harness.app.batch("quarter", then=Report("after the quarter"), deadline="2d") as batch:
            for place in range(40):
                batch.add(Report("numbers of the quarter" if place % 3 == 0 else f"quarter {place}"))
            batch.add(Job("https://hedgerow-gate.example/quarter"))
        harness.drain(wait_for_due=False)
        if large:
            harness.enqueue(Page("https://large.example", 100), limits=Limits(max_tasks=10_001, max_children=100))
            harness.drain(wait_for_due=False)
        if (left := end - clock.now()) > 0:
            clock.advance(timedelta(milliseconds=left))
        harness.app.settings.set("match.min_score", 0.7, author="ada")
        harness.app.budgets.set_limit("model-usd", "12", author="ada")
        harness.app.workers.pause(source="feeds", author="ada")
        harness.app.schedules.pause("visitors")
        harness.enqueue(Scrape("2026-11-17 20:45"), limits=Limits(max_depth=4, max_tasks=2_000, max_children=150))
        harness.app.alerts.look()
    finally:
        clock = None
        harness.app.close()
    return app.on(url)


def _some_batches(harness: Harness, number: int) -> None:
    with harness.app.batch(f"night-{number}", then=Report(f"after night {number}"), deadline="8h") as batch:
        for place in range(30):
            batch.add(Question(f"batch-{number}-{place}"))


if __name__ == "__main__":
    address = sys.argv[1] if len(sys.argv) > 1 else app.url
    began = time.perf_counter()
    print(made(address, large="--large" in sys.argv).stats.counts(), f"{time.perf_counter() - began:.1f} s")
