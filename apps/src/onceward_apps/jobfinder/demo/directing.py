"""The course of the demo: companies added, a worker killed, boards approved, one failing until it is disabled."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable

from rich.text import Text

from onceward import App
from onceward_apps.jobfinder import approving, importing
from onceward_apps.jobfinder.demo.scene import LIMITS, Scene
from onceward_apps.jobfinder.demo.story import Kill, Look, Story, Worker, look
from onceward_apps.jobfinder.identities import company_id
from onceward_apps.jobfinder.importing import Row
from onceward_apps.jobfinder.payloads import Reading
from onceward_apps.jobfinder.working import workers
from onceward_apps.jobfinder.world import troubles

PROCESSES = 2
NAME = "worker"
KILL_AFTER = 0.1
"""After which part of all listings a worker is killed."""
FEW = 3
"""With so few tasks left a person looks which boards wait."""
LONGEST_S = 120.0
LOOK_EVERY_S = 0.2

Watch = Callable[[], None]


def add_companies(app: App, scene: Scene) -> int:
    """Add the file of companies, each with the limits of the demo; returns how many there are."""
    wishes = [row.wish for row in importing.companies_in(scene.companies) if isinstance(row, Row)]
    return len(importing.add(app, wishes, LIMITS))


def play(app: App, scene: Scene, story: Story, watch: Watch) -> int | None:
    """Let the workers work until all is done; returns how they ended, or None if they had to be stopped."""
    started = time.monotonic()
    kill_at = scene.web.size.listings * KILL_AFTER
    with workers(app, scene.log, processes=PROCESSES, until_idle=False, name=NAME) as process:
        while process.poll() is None and time.monotonic() - started < LONGEST_S:
            story.looks.append(look(app, time.monotonic() - started))
            _notice_newcomers(story)
            if story.killed is None and story.now.decided >= kill_at:
                _kill_one(story)
            watch()
            if _go_on(app, story) is None:
                process.terminate()
                break
            time.sleep(LOOK_EVERY_S)
        code = _ended(process)
        story.looks.append(look(app, time.monotonic() - started))
        watch()
        return code


def _ended(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        return None


def _go_on(app: App, story: Story) -> bool | None:
    """Do what a person or a schedule would do next; None when nothing is left."""
    now = story.now
    if _read_again(app, now, story):
        return True
    waiting = approving.waiting(app) if now.tasks and now.open <= FEW else []
    if waiting:
        story.approved += len(approving.approve(app, waiting, LIMITS))
        story.tell(f"a person approves {len(waiting)} boards that were not certain")
        return True
    return None if now.is_idle and now.tasks else False


def _read_again(app: App, now: Look, story: Story) -> bool:
    """The broken board is due again. Its schedule would ask every six hours; the demo asks as soon as it has failed."""
    row = now.source_of(company_id(f"https://{troubles.FAILING_HOST}/"))
    if row is None or row.streak == 0:
        return False
    if row.status == "disabled":
        if "disabled" not in story.seen:
            story.seen.add("disabled")
            story.tell(Text(f"{row.source} failed {row.streak} times in a row and is disabled", "yellow"))
        return False
    enqueued = app.enqueue(Reading(row.source), limits=LIMITS)
    return enqueued.created


def _notice_newcomers(story: Story) -> None:
    for worker in story.now.workers:
        if worker.name not in story.seen:
            story.seen.add(worker.name)
            if story.killed is not None:
                what = "looks at what was running in it" if "suspects" in worker.name else "takes its place"
                story.tell(Text.assemble((worker.name, "bold"), f" {what}"))


def _kill_one(story: Story) -> None:
    """Kill the worker that holds most, in the middle of its work."""
    busy: list[Worker] = sorted((one for one in story.now.workers if one.pid and one.holds), key=lambda one: -one.holds)
    for worker in busy[:1]:
        try:
            os.kill(worker.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        story.killed = Kill(worker, story.now.at_s, round(time.time() * 1_000))
        text = f"killed {worker.name} (pid {worker.pid}) with SIGKILL; it held {worker.holds} tasks"
        story.tell(Text(text, "bold red"))
