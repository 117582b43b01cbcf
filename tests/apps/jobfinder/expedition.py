"""Real workers of the job finder sent through an invented web, some of them killed on the way."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from onceward import App, Connection
from onceward_apps.jobfinder import approving, importing, surroundings
from onceward_apps.jobfinder import profile as profiles
from onceward_apps.jobfinder.demo.counting import asked_again
from onceward_apps.jobfinder.demo.scene import way_to
from onceward_apps.jobfinder.demo.story import Look, look
from onceward_apps.jobfinder.finder import opened
from onceward_apps.jobfinder.importing import company_at
from onceward_apps.jobfinder.working import workers
from onceward_apps.jobfinder.world.companies import companies
from onceward_apps.jobfinder.world.judging import Judgement, judge
from onceward_apps.jobfinder.world.running import Running, running
from onceward_apps.jobfinder.world.web import Size
from onceward_apps.statements import rows
from tests.killing import kill_a_busy_one

PROCESSES = 2
PLACES = 8
PATIENCE_S = 2
"""How long a kill looks for a worker that holds something. Meanwhile no board is approved."""
BOARDS_PER_KILL = 3
"""Boards that stay unapproved for each kill still to come: reading one is work that a worker can be killed at."""


@dataclass(frozen=True, slots=True)
class Expedition:
    """What came of it."""

    look: Look
    kills: int
    taken_back: int
    seconds: float
    hardest: Judgement
    """The host that was asked hardest, by the server's own log."""
    asked_again: int
    """Pages that the server was asked for although it had handed them over."""
    counts: dict[str, int]

    @property
    def listings_per_s(self) -> float:
        """How many listings were decided about in a second, from the start of the workers to the end."""
        return self.look.decided / self.seconds


@dataclass(frozen=True, slots=True)
class Plan:
    """How large the web is, how often a worker is killed, and how hard the hosts may be asked."""

    companies: int
    listings: int
    kills: int
    per_second: int
    burst: int
    longest_s: float
    look_every_s: float = 0.2


def send_out(plan: Plan, url: str, folder: Path, monkeypatch: pytest.MonkeyPatch, seed: int = 1) -> Expedition:
    """Have every company looked at, every board approved and read, and every listing decided about."""
    profile = folder / "profile.toml"
    profile.write_text(profiles.template(), encoding="utf-8")
    size = Size(companies=plan.companies, listings=plan.listings, has_troubles=False)
    with running(size) as server:
        way = msgspec.structs.replace(way_to(server, plan.per_second, plan.burst), concurrency=PLACES)
        monkeypatch.setenv(surroundings.PROFILE, str(profile))
        monkeypatch.setenv(surroundings.WEB, msgspec.json.encode(way).decode())
        with opened(url, new=True) as app:
            every = companies(size.seed, size.companies, size.listings)
            importing.add(app, [company_at(one.website, one.name) for one in every])
            return _watched(plan, app, folder, server, random.Random(seed))


def _watched(plan: Plan, app: App, folder: Path, server: Running, dice: random.Random) -> Expedition:
    started = time.monotonic()
    # Where in the work the kills fall: somewhere in each of as many equal parts of it.
    parts = plan.listings / (plan.kills + 1)
    kill_at = [round(parts * (number + dice.random())) for number in range(plan.kills)]
    killed: set[int] = set()
    log = folder / "workers.log"
    are_all_there = False  # until then nothing is approved: one of them could be done before the other is ready
    with workers(app, log, processes=PROCESSES, until_idle=False, name="worker") as process:
        while True:
            now = look(app, time.monotonic() - started)
            assert process.poll() is None, log.read_text(errors="replace")[-3_000:]
            assert now.at_s < plan.longest_s, f"not done in {plan.longest_s} s: {now}"
            are_all_there = are_all_there or len(app.workers.list()) >= PROCESSES
            has_ended = are_all_there and bool(now.tasks) and now.is_idle
            boards = approving.waiting(app) if are_all_there else []
            if len(killed) < plan.kills and (has_ended or now.decided >= kill_at[len(killed)]):
                # Most of the time workers hold nothing, because all hosts limit their rate: a fresh board is work.
                is_work = approving.approve(app, boards[:1])
                pid = kill_a_busy_one(partial(_busy, app, killed), dice, patience_s=PATIENCE_S)
                killed |= {pid} if pid else set()
                if is_work:
                    continue
            if approving.approve(app, boards[BOARDS_PER_KILL * (plan.kills - len(killed)) :]):
                continue
            if has_ended:
                break
            time.sleep(plan.look_every_s)
        process.terminate()
        assert process.wait(timeout=60) == 0
    return Expedition(
        look=now,
        kills=len(killed),
        taken_back=app.read(_taken_back),
        seconds=now.at_s,
        hardest=judge(server.log(), per_second=plan.per_second, burst=plan.burst, on_the_way=PLACES),
        asked_again=asked_again(server.log()),
        counts=app.read(_counts),
    )


def _busy(app: App, killed: set[int]) -> list[int]:
    """The workers that hold something, while all are there: whoever is killed, another one goes on."""
    there = app.workers.list()
    return [one.pid for one in there if one.holds and one.pid not in killed] if len(there) >= PROCESSES else []


def _taken_back(connection: Connection) -> int:
    return int(rows(connection, "SELECT count(*) FROM onceward_attempt WHERE event IN (9, 10)")[0][0])


def _counts(connection: Connection) -> dict[str, int]:
    """What must be there once, and how often it is there."""
    asked: dict[str, str] = {
        "companies known": "SELECT count(*) FROM jobs_company WHERE status = 'active'",
        "listings": "SELECT count(*) FROM jobs_listing",
        "addresses": "SELECT count(DISTINCT url) FROM jobs_listing",
        "tasks of listings": "SELECT count(*) FROM onceward_task WHERE kind = 'job'",
        "listings that are matches": "SELECT count(*) FROM jobs_listing WHERE status = 'active'",
        "matches": "SELECT count(*) FROM jobs_match",
    }
    return {what: _number(rows(connection, sql)) for what, sql in asked.items()}


def _number(found: list[tuple[Any, ...]]) -> int:
    return int(found[0][0])
