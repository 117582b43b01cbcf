"""`onceward-jobs run`: work, and show how it goes."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from onceward import App, ConfigError, Connection, Status
from onceward.terminal import console, print_json
from onceward_apps.jobfinder import listing_rows, source_rows, surroundings
from onceward_apps.jobfinder.cli.speaking import OWN_DATABASE, Where, complain
from onceward_apps.jobfinder.finder import opened
from onceward_apps.jobfinder.profile import unreachable
from onceward_apps.jobfinder.rejudging import rejudge
from onceward_apps.jobfinder.settings import numbers
from onceward_apps.jobfinder.working import workers
from onceward_apps.speaking import BAD_ANSWER, FINE, NOTHING_SAID, Flag, Output, table
from onceward_apps.statements import rows

LOOK_EVERY_S = 0.5
KINDS = ("company", "source_discovery", "scrape_source", "job", "fetch")
OPEN = ("pending", "running", "retryable", "waiting")
ENDED = ("succeeded", "filtered", "skipped", "failed", "cancelled")


def run(
    *,
    processes: Annotated[int, Parameter(validator=Number(gte=1, lte=64), help="How many processes work.")] = 2,
    forever: Annotated[
        bool, Flag, Parameter(help="Go on when nothing is left: sources are read on a schedule.")
    ] = False,
    where: Where = OWN_DATABASE,
    output: Output = NOTHING_SAID,
) -> int:
    """Process everything that was added and all that follows from it, until no work is left.

    If it is interrupted, or killed, the same command goes on.
    """
    profile = surroundings.profile()
    screen = console(to_stderr=output.json)
    with opened(where.db, new=True) as app:
        if wrong := unreachable(profile, numbers(app.settings.get)):
            raise ConfigError("; ".join(wrong))
        if judged_anew := rejudge(app, profile):
            screen.print(f"the profile has changed: {judged_anew:,} listings are judged anew")
        log = Path(tempfile.mkdtemp(prefix="onceward-jobs-")) / "workers.log"
        with workers(app, log, processes=processes, until_idle=not forever) as process:
            code = _watch(app, process, screen)
        told = _told(app)
    if output.json:
        print_json(told)
    else:
        screen.print(_summary(told))
        if told["matches"]:
            screen.print("see them: onceward-jobs matches")
    if code:
        complain(f"the workers ended with code {code}; their log is {log}")
        return BAD_ANSWER
    shutil.rmtree(log.parent, ignore_errors=True)
    return FINE


def _watch(app: App, process: subprocess.Popen[bytes], screen: Console) -> int:
    """Show how it goes until the workers end; returns how they ended."""
    with Live(console=screen, auto_refresh=False, transient=True) as live:
        while process.poll() is None:
            if screen.is_terminal:
                live.update(_progress(_told(app)), refresh=True)
            try:
                process.wait(timeout=LOOK_EVERY_S)
            except subprocess.TimeoutExpired:
                continue
    return process.returncode


def _told(app: App) -> dict[str, Any]:
    """How everything stands."""
    tasks: dict[str, dict[str, int]] = {kind: {} for kind in KINDS}
    for kind, status, count in app.read(_counts):
        tasks.setdefault(kind, {})[Status(status).word] = count
    sources = app.read(source_rows.sources)
    return {
        "tasks": {kind: found for kind, found in tasks.items() if found},
        "listings": app.read(listing_rows.counts),
        "matches": len(app.read(listing_rows.matches, False)),
        "sources": len(sources),
        "waiting_for_approval": sum(row.awaits_approval for row in sources),
        "disabled": [row.source for row in sources if row.status == "disabled"],
    }


def _counts(connection: Connection) -> list[tuple[Any, ...]]:
    return rows(connection, "SELECT kind, status, count(*) FROM onceward_task GROUP BY kind, status")


def _progress(told: dict[str, Any]) -> Group:
    return Group(_tasks(told), Text(_sentence(told), "bold"))


def _summary(told: dict[str, Any]) -> Group:
    return Group(_tasks(told), Text(_sentence(told)))


def _tasks(told: dict[str, Any]) -> Any:
    cells = [
        (
            kind.replace("_", " "),
            *(f"{sum(found.get(word, 0) for word in words):,}" for words in (OPEN, *((word,) for word in ENDED))),
        )
        for kind, found in told["tasks"].items()
    ]
    columns = ("work", "open", *ENDED)
    return table(columns, cells, right=columns[1:])


def _sentence(told: dict[str, Any]) -> str:
    listings = ", ".join(f"{count:,} {status}" for status, count in told["listings"].items()) or "none yet"
    matches, waiting = told["matches"], told["waiting_for_approval"]
    parts = [f"{matches:,} {'match' if matches == 1 else 'matches'}; listings: {listings}"]
    if waiting:
        parts.append(f"{waiting} {'source waits' if waiting == 1 else 'sources wait'} for `onceward-jobs approve`")
    if told["disabled"]:
        parts.append(f"disabled: {', '.join(told['disabled'])}")
    return "; ".join(parts)
