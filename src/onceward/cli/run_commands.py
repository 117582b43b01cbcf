"""The commands that work by themselves: a worker, and the demonstration."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from onceward.app import App
from onceward.cli import target_app
from onceward.cli.answers import Aside
from onceward.cli.command_line import command_line, example
from onceward.cli.exits import FINE
from onceward.cli.options import NOTHING_SAID, PLAIN_LOG, Flag, Log, Output
from onceward.cli.reloading import run_reloading
from onceward.store.drivers.availability import database
from onceward.support import logs


@command_line.command(
    sort_key=2,
    help_epilogue=example(
        "onceward run shop.tasks:app",
        "onceward run shop.tasks:app --processes 4 --concurrency 50 --queues default,mail",
        "onceward run shop.tasks:app --reload",
    ),
)
def run(
    app: Annotated[str, Parameter(name="APP", help="The app, as module:app or path/to/file.py:app.")],
    /,
    *,
    name: Annotated[str | None, Parameter(help="A name for this worker; by default machine and process.")] = None,
    processes: Annotated[
        int,
        Parameter(
            validator=Number(gte=0, lte=1_000),
            help="How many processes work, watched by this one, so that time limits hold for any code. "
            "0 works in this process.",
        ),
    ] = 1,
    concurrency: Annotated[
        int | None,
        Parameter(validator=Number(gte=1), help="How many tasks each process works on at a time, 100 by default."),
    ] = None,
    queues: Annotated[
        str | None, Parameter(help="Only the work of these queues, as a,b; by default all that the app has.")
    ] = None,
    until_idle: Annotated[bool, Flag, Parameter(help="End when nothing is left to do.")] = False,
    reload: Annotated[
        bool, Flag, Parameter(help="For development: begin anew when a .py or .toml file below this folder changes.")
    ] = False,
    log: Log = PLAIN_LOG,
    output: Output = NOTHING_SAID,
) -> int:
    """Be a worker, until Ctrl-C or SIGTERM.

    A first Ctrl-C lets running stages end, a second gives everything back at once. The log goes to stderr.
    """
    if reload:
        log.begin(app, output)
        return run_reloading(sys.argv[1:], Path.cwd())
    wanted = None if queues is None else [queue.strip() for queue in queues.split(",") if queue.strip()]
    answer = Aside() if output.json else None
    found = target_app.loaded(app)
    found._registry.lanes(wanted)  # a queue that no stage uses is refused before anything begins
    log.begin(app, output)
    logger = logs.EngineLog("onceward.cli")
    logger.info(
        "working",
        database=target_app.place_of(found),
        **({"created": True} if target_app.is_missing(found) else {}),
        kinds=",".join(found._registry.kinds),
        queues=",".join(wanted or found._registry.queues),
        processes=processes,
    )
    began, started = found._store.clock.now(), time.monotonic()
    found.run(processes=processes or None, concurrency=concurrency, queues=wanted, until_idle=until_idle, name=name)
    seconds = round(time.monotonic() - started, 3)
    counts, ended = _counts_at_the_end(found, began)
    found.close()
    logger.info("stopped", after_s=seconds, **ended)
    if answer is not None:
        answer.give({"seconds": seconds, "processes": processes, "ended": ended, "tasks": counts})
    return FINE


def _counts_at_the_end(app: App, began: int) -> tuple[dict[str, int], dict[str, int]]:
    """How many tasks there are, and how many have ended since, by status; nothing while the database is away."""
    if database.is_away:  # or the end would wait for it
        return {}, {}
    counts, ended = app.stats.counts(), target_app.ended_since(app, began)
    return {one.word: count for one, count in counts.items()}, {one.word: count for one, count in ended.items()}


@command_line.command(sort_key=1, help_epilogue=example("onceward demo"))
def demo(*, output: Output = NOTHING_SAID) -> int:
    """See 300 tasks survive the death of a worker. Takes some fifteen seconds and needs nothing.

    Three processes work on a new SQLite database among the temporary files. One is killed in the middle.

    In the end everything is counted: nothing may be lost, and nothing done twice.
    """
    from onceward.cli.demo import perform

    return perform(as_json=output.json)
