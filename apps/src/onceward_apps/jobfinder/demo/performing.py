"""The whole demo, from the first line to the exit code."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from onceward import App
from onceward.terminal import console, print_json
from onceward_apps.jobfinder import listing_rows
from onceward_apps.jobfinder.demo import directing, ending
from onceward_apps.jobfinder.demo.counting import Cost, Line, Refused, balance, cost, refusals
from onceward_apps.jobfinder.demo.scene import BURST, LIMITS, PER_SECOND, PLACES, SIZE, Scene, scene
from onceward_apps.jobfinder.demo.screen import Screen
from onceward_apps.jobfinder.demo.story import Story
from onceward_apps.jobfinder.explaining import match_told
from onceward_apps.jobfinder.finder import opened
from onceward_apps.jobfinder.world.troubles import SPAM_LINKS
from onceward_apps.jobfinder.world.web import Size
from onceward_apps.speaking import BAD_ANSWER, FINE


def perform(*, as_json: bool, size: Size = SIZE, web: bool = False) -> int:
    """Run the demo; the exit code is 1 if a promise does not hold. With `web`, serve the dashboard on it then."""
    shown = console(to_stderr=as_json)
    with scene(size) as set_up, opened(new=True) as app:
        _open(shown, set_up, directing.add_companies(app, set_up))
        story = Story()
        screen = Screen(story, shown)
        started = time.monotonic()
        with screen.on():
            code = directing.play(app, set_up, story, screen.update)
        seconds = time.monotonic() - started
        refused, log = refusals(app), set_up.server.log()
        paid = cost(app, story, log)
        lines = balance(app, set_up, story, refused, paid, log)
        report = app.verify()
        ok = code == 0 and report.ok and all(line.ok for line in lines)
        if code != 0:
            _show_log(shown, set_up, code)
        if as_json:
            print_json(_document(app, set_up, story, lines, refused, paid, seconds, ok=ok))
        else:
            ending.show(shown, app, set_up, story, refused, paid, log)
            ending.show_account(shown, lines)
            _close(shown, app, set_up, seconds, ok=ok)
    if web:
        serving = subprocess.run(
            [sys.executable, "-m", "onceward", "web", "--db", f"sqlite:///{set_up.database}"], check=False
        )
        return serving.returncode
    return FINE if ok else BAD_ANSWER


def _open(shown: Console, set_up: Scene, companies: int) -> None:
    positions = sum(one.listings for one in set_up.web.companies)
    for name, text in (
        ("the web", f"invented: {companies} companies, {positions:,} positions, {SPAM_LINKS:,} links of spam; "
                    "all on loopback, nothing leaves this machine"),
        ("each root", f"depth {LIMITS.max_depth} at most, {LIMITS.max_tasks:,} tasks, "
                      f"{LIMITS.max_children} children of a task, {LIMITS.deadline}"),
        ("each host", f"{PER_SECOND} requests a second, {BURST} at once, by {PLACES} tasks at most"),
        ("workers", f"{directing.PROCESSES} processes; one will be killed"),
    ):  # fmt: skip
        line = Table.grid(padding=(0, 2, 0, 0))
        line.add_column(width=9)
        line.add_column(overflow="fold")
        line.add_row(Text(name, "dim"), text)
        shown.print(line)


def _close(shown: Console, app: App, set_up: Scene, seconds: float, *, ok: bool) -> None:
    report = app.verify()
    broken = [check for check in report.checks if check.broken]
    shown.print()
    for check in broken:
        shown.print(Text(f"verify     {check.name}: {check.meaning}: broken {check.broken} times", "bold red"))
    if not broken:
        shown.print(f"verify     {len(report.checks)} rules hold for {report.tasks:,} tasks, {report.events:,} events")
    verdict = "nothing was lost, nothing is there twice" if ok else "something is off"
    shown.print(Text.assemble((verdict, "bold green" if ok else "bold red"), f", in {seconds:.1f} s"))
    shown.print()
    where = f"--db {set_up.database}"
    for name, command in (("look on", "matches"), ("", "companies"), ("", "sources"), ("", "report matches.html")):
        # Not broken where the terminal is narrow, so that it can be copied.
        shown.print(Text.assemble((f"{name:11}", "dim"), f"onceward-jobs {command} {where}"), soft_wrap=True)
    shown.print(
        Text.assemble((f"{'dashboard':11}", "dim"), f"onceward web --db sqlite:///{set_up.database}"), soft_wrap=True
    )


def _show_log(shown: Console, set_up: Scene, code: int | None) -> None:
    ended = "did not end in time" if code is None else f"ended with code {code}"
    shown.print(Text(f"the workers {ended}; the end of their log:", "bold red"))
    for line in set_up.log.read_text(errors="replace").splitlines()[-15:]:
        shown.print(Text(line))


def _document(
    app: App,
    set_up: Scene,
    story: Story,
    lines: list[Line],
    refused: list[Refused],
    paid: Cost,
    seconds: float,
    *,
    ok: bool,
) -> dict[str, Any]:
    killed = story.killed
    return {
        "ok": ok,
        "database": str(set_up.database),
        "seconds": round(seconds, 3),
        "killed": None if killed is None else {**asdict(killed.worker), "at": round(killed.at_s, 3), **asdict(paid)},
        "limits": {"max_depth": LIMITS.max_depth, "max_tasks": LIMITS.max_tasks, "max_children": LIMITS.max_children},
        "approved": story.approved,
        "disabled": [row.source for row in story.now.sources if row.status == "disabled"],
        "refused": [asdict(one) for one in refused],
        "balance": [asdict(line) for line in lines],
        "matches": [match_told(row) for row in app.read(listing_rows.matches, False)],
        "verify": {"ok": app.verify().ok},
    }
