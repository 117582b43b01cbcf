"""The job finder at work: an invented web on loopback, two worker processes, every listing decided about once."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bench.plan import Plan
from bench.processes import EXIT_SECONDS, LIFE_SECONDS, BenchError
from bench.runlog import Tally
from bench.samples import Outcome
from bench.target import Target
from onceward import App, Connection
from onceward_apps.jobfinder import approving, importing, surroundings
from onceward_apps.jobfinder import profile as profiles
from onceward_apps.jobfinder.finder import opened
from onceward_apps.jobfinder.importing import company_at
from onceward_apps.jobfinder.working import workers
from onceward_apps.jobfinder.world.companies import companies
from onceward_apps.jobfinder.world.running import running
from onceward_apps.jobfinder.world.web import Size
from onceward_apps.statements import rows

LISTINGS_A_COMPANY = 25
PROCESSES = 2
AMPLE = 100_000
"""Requests a second that a host allows: here the hosts are not what is waited for."""


def listings(target: Target, plan: Plan) -> Outcome:
    """Have companies looked at and their boards read, first those that are certain, then those that were approved.

    The time is that from the first start of a task to the last end of one, in each of the two runs of the workers.
    """
    size = Size(companies=max(10, plan.listings // LISTINGS_A_COMPANY), listings=plan.listings, has_troubles=False)
    folder = target.log.parent
    profile = folder / "profile.toml"
    profile.write_text(profiles.template(), encoding="utf-8")
    with running(size) as web:
        way = surroundings.Web(rate=f"{AMPLE}/s", burst=AMPLE, concurrency=100, loopback=True, stand_ins=web.stand_ins)
        said = {surroundings.PROFILE: str(profile), surroundings.WEB: msgspec.json.encode(way).decode()}
        with _environment(said), opened(target.url, new=True) as app:
            every = companies(size.seed, size.companies, size.listings)
            importing.add(app, [company_at(one.website, one.name) for one in every])
            _run(app, target.log)
            first_ms, between_ms = app.read(_span)
            approving.approve(app, approving.waiting(app))
            _run(app, target.log)
            second_ms, last_ms = app.read(_span, between_ms)
            took_ms = between_ms - first_ms + last_ms - second_ms
            decided, tasks = app.read(_decided)
    never = plan.listings - decided
    tally = Tally(plan.listings, once=decided - (tasks - decided), twice=tasks - decided, never=never, unknown=0)
    return Outcome({"listings": decided / (took_ms / 1_000)}, tally)


def _run(app: App, log: Path) -> None:
    output = log.with_suffix(".workers")
    with workers(app, output, processes=PROCESSES, until_idle=True) as process:
        if code := process.wait(timeout=LIFE_SECONDS + EXIT_SECONDS):
            end = output.read_text(errors="replace")[-2_000:]
            raise BenchError(f"the workers of the job finder ended with {code}: {end}")


def _span(connection: Connection, after_ms: int = 0) -> tuple[int, int]:
    """When the first task was started and the last one ended, of those that were started after a time."""
    [(first, last)] = rows(
        connection, "SELECT min(started_at), max(ended_at) FROM onceward_task WHERE started_at > ?", after_ms
    )
    return first, last


def _decided(connection: Connection) -> tuple[int, int]:
    """How many listings were decided about, and how many tasks there were for them."""
    found: list[tuple[Any, ...]] = rows(
        connection,
        "SELECT (SELECT count(*) FROM jobs_listing WHERE status <> 'analyzing'),"
        " (SELECT count(*) FROM onceward_task WHERE kind = 'job')",
    )
    return found[0][0], found[0][1]


@contextmanager
def _environment(said: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(said)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
