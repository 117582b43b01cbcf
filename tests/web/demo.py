"""A small crawler whose work goes as it does outside: for tests of the pages, and for pictures of them.

`seeded(url)` makes its database: an hour of work with failures, refusals, a spent budget, approvals and a lost worker,
which ends now. The same seed makes the same hour.
"""

from __future__ import annotations

import os
import random
import time
from datetime import timedelta
from urllib.parse import urlsplit

from onceward import (
    App,
    Breaker,
    Budget,
    Context,
    Failed,
    Filtered,
    Limits,
    Payload,
    Pipeline,
    Retry,
    Source,
    Waiting,
)
from onceward.testing import Harness
from onceward.testing.clock import FakeClock

ALIVE = ("patience-weir", "moebius-yard", "nettleweir", "crumbling-arch", "lantern-row", "quillwick", "indigogate")
SILENT, BARRED = "silent-quarry", "hedgerow-gate"
WORDS = ("platform", "data", "backend", "frontend", "design", "support", "security", "maps", "billing", "search")

clock: FakeClock | None = None
"""The clock of a database that is being made; None where time passes by itself."""


def takes(seconds: float) -> None:
    """Let a stage take its time."""
    if clock is None:
        time.sleep(seconds)
    else:
        clock.advance(seconds)


def dice_of(text: str) -> random.Random:
    """Return dice that fall the same way for the same text."""
    return random.Random(text)


def host_of(key: str) -> str:
    """Return the host of an address: each has its own limits."""
    return urlsplit(key).hostname or "nowhere"


class Site(Payload, kind="site"):
    """A site that is to be crawled."""

    url: str
    confidence: str = "high"

    def key(self) -> str:
        """The address."""
        return self.url


class Page(Payload, kind="page"):
    """A page of a site."""

    url: str
    found_on: str = ""

    def key(self) -> str:
        """The address."""
        return self.url


class Posting(Payload, kind="posting"):
    """A posting that a model is to judge."""

    url: str
    title: str
    posted: str = "2026-11-02"

    def key(self) -> str:
        """The address."""
        return self.url


web = Source("web", per=host_of, rate="600/min", burst=200, breaker=Breaker(failures=6, pause="15m", disable_after=40))
model = Source("model", rate="300/min", burst=100)
model_usd = Budget("model-usd", limit="9.60", per="day")

site = Pipeline(Site)
page = Pipeline(Page, retry=Retry(retries=2, base="20s"), refused={"depth": "park"})
posting = Pipeline(Posting, retry=Retry(retries=3, base="15s"))


@site.stage
def survey(ctx: Context[Site]) -> int:
    """Look whether the site may be crawled."""
    takes(dice_of(ctx.payload.url).uniform(0.1, 0.6))
    if ctx.payload.confidence == "medium" and ctx.signal("approved") is None:
        raise Waiting(until="approved")
    return 3


@site.stage
def spread(ctx: Context[Site]) -> list[str]:
    """Spawn the first pages."""
    dice = dice_of(ctx.payload.url + "!")
    pages = [f"{ctx.payload.url}careers/{place}" for place in dice.sample(WORDS, 3)]
    for address in pages:
        ctx.spawn(Page(address, found_on=ctx.payload.url))
    return pages


@page.stage(source=web)
def fetch(ctx: Context[Page]) -> dict[str, int]:
    """Read the page."""
    dice, host = dice_of(ctx.payload.url), host_of(ctx.payload.url)
    takes(dice.uniform(0.05, 0.5))
    if host.startswith(SILENT):
        raise ConnectionError(f"{host} cannot be reached: all connection attempts failed")
    if host.startswith(BARRED):
        raise Failed(f"robots: the robots.txt of https://{host} does not allow {ctx.payload.url}")
    if dice.random() < 0.04:
        raise ValueError(read_listing({"url": ctx.payload.url}))
    return {"status": 200, "bytes": dice.randrange(4_000, 90_000)}


@page.stage
def follow(ctx: Context[Page]) -> int:
    """Follow the links of the page."""
    address = ctx.payload.url
    dice = dice_of(address + "#")
    takes(dice.uniform(0.01, 0.08))
    if dice.random() < 0.25:
        raise Filtered("no listing on this page")
    if ctx.task.depth < 3:
        for _ in range(dice.randrange(0, 3)):
            ctx.spawn(Page(f"{address}/{dice.choice(WORDS)}", found_on=address))
    if dice.random() < 0.2:
        ctx.spawn(Page(address))  # a page that leads to itself: refused as a cycle
    for number in range(dice.randrange(1, 4)):
        title = f"{dice.choice(('Senior', 'Staff', 'Lead'))} {dice.choice(WORDS).title()} Engineer"
        ctx.spawn(Posting(f"{address}/{3_500_000 + number}-{title.lower().replace(' ', '-')}", title))
    return dice.randrange(1, 9)


@posting.stage
def read(ctx: Context[Posting]) -> dict[str, str]:
    """Cut the posting out of its page."""
    takes(dice_of(ctx.payload.url).uniform(0.02, 0.2))
    return {"title": ctx.payload.title, "posted": ctx.payload.posted}


@posting.stage(source=model, budget=model_usd, estimate="0.04")
def judge(ctx: Context[Posting]) -> dict[str, str]:
    """Ask the model whether the posting fits."""
    dice = dice_of(f"{ctx.payload.url} {ctx.task.attempt}")
    takes(dice.uniform(0.4, 2.4))
    if dice.random() < 0.05:
        raise TimeoutError("no answer from api.model.example within 30s")
    ctx.charge(model_usd, f"{dice.uniform(0.004, 0.02):.4f}")
    if dice.random() < 0.02:
        raise Failed("ValidationError: Object missing required field `title` - at `$[0]`")
    return {"verdict": dice.choice(("fits", "does not fit")), "model": "small-2"}


@posting.stage
def save(ctx: Context[Posting]) -> None:
    """Keep what was found."""
    takes(0.02)
    if ctx.result(judge)["verdict"] != "fits":
        raise Filtered("does not fit")


def read_listing(document: dict[str, str]) -> str:
    """Find the listing in a page; some pages have none where it should be."""
    return document["jobPostings"]


app = App(os.environ.get("CRAWLER_DB", "sqlite:///crawler.db"), [site, page, posting])


def seeded(url: str, *, minutes: int = 60, limit: str | None = None, seed: int = 7) -> App:
    """Make the database of an hour of crawling, which ends now; returns the app on it. `limit` is for the budget."""
    global clock
    dice = random.Random(seed)
    harness = Harness(app, url=url, seed=seed)
    try:
        clock = harness.clock
        end = int(time.time() * 1_000)
        clock.step(end - minutes * 60_000 - clock.now())
        if limit is not None:
            harness.app.budgets.set_limit("model-usd", limit)
        for minute in range(minutes):
            _a_minute(harness, dice, minute, minutes)
            left = end - (minutes - minute - 1) * 60_000 - clock.now()
            if left > 0:
                clock.advance(timedelta(milliseconds=left))
        harness.app.enqueue_many([Site(f"https://{name}.example/jobs/") for name in ALIVE[:2]])
        harness.app.alerts.look()
    finally:
        clock = None
        harness.app.close()
    return app.on(url)


def _a_minute(harness: Harness, dice: random.Random, minute: int, minutes: int) -> None:
    wave = 1 + minute % 7 // 3
    for number in range(wave):
        name = dice.choice(ALIVE)
        limits = Limits(max_depth=4, max_tasks=500, budget="0.80")
        harness.enqueue(Site(f"https://{name}.example/{minute}-{number}/"), limits=limits)
    if minute % 6 == 2:
        harness.enqueue(Site(f"https://{BARRED}.example/{minute}/"))
    if minute > minutes * 0.6 and minute % 4 == 0:
        harness.enqueue(Site(f"https://{SILENT}.example/{minute}/"))
    if minute % 9 == 4:
        harness.enqueue(Site(f"https://{dice.choice(ALIVE)}.example/maybe-{minute}/", confidence="medium"))
    if minute == minutes * 2 // 3:
        harness.crash("after judge")
    harness.drain(wait_for_due=False)
