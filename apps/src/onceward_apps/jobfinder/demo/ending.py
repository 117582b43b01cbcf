"""The end of the demo: the matches with their reasons, what was wrong on the web, what was refused, and the account."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from onceward import App, Rule
from onceward_apps.jobfinder import company_rows, listing_rows
from onceward_apps.jobfinder.demo.counting import Cost, Line, Refused
from onceward_apps.jobfinder.demo.scene import LIMITS, Scene
from onceward_apps.jobfinder.demo.story import Story
from onceward_apps.jobfinder.explaining import match_told
from onceward_apps.jobfinder.world import troubles
from onceward_apps.jobfinder.world.http import Entry
from onceward_apps.speaking import table

MOST_MATCHES = 5


def show(
    console: Console,
    app: App,
    scene: Scene,
    story: Story,
    refused: Sequence[Refused],
    paid: Cost,
    log: Sequence[Entry],
) -> None:
    """Everything that was found out."""
    _section(console, "The best matches, and why", _matches(app))
    _section(console, "What was wrong on this web, and what came of it", _wrong(app, scene, story, log))
    _section(console, "Spawns that were refused", _refused(refused))
    _section(console, "The kill", _kill(story, paid))


def show_account(console: Console, balance: Sequence[Line]) -> None:
    """What there should be, and what there is."""
    rows = [
        (line.what, line.expected, line.found, Text("ok", "green") if line.ok else Text("OFF", "bold red"))
        for line in balance
    ]
    made = table(("", "expected", "found", " "), rows, right=("expected", "found"), folded=("",))
    _section(console, "The account", made)


def _section(console: Console, title: str, part: RenderableType) -> None:
    console.print()
    console.print(Text(title, "bold underline"))
    console.print(Padding(part, (0, 0, 0, 2), expand=False))


def _matches(app: App) -> RenderableType:
    told = [match_told(row) for row in app.read(listing_rows.matches, False)]
    if not told:
        return Text("none", "bold red")
    made = _plain("right", "left")
    for one in told[:MOST_MATCHES]:
        place = one["location"] or ""
        if one["remote"] and "remote" not in place.lower():
            place = f"{place}, remote" if place else "remote"
        made.add_row(
            Text(str(one["score"]), "bold green"),
            Text.assemble((one["title"] or "", "bold"), f", {one['company']}", (f" · {place}", "dim")),
        )
        made.add_row("", Text(_why(one["why"]), "dim"))
    if len(told) > MOST_MATCHES:
        made.add_row("", Text(f"and {len(told) - MOST_MATCHES} more"))
    return made


def _why(reasons: list[dict[str, Any]]) -> str:
    return "; ".join(f"{one['points']:+d} {one['sentence']}" for one in reasons)


def _wrong(app: App, scene: Scene, story: Story, log: Sequence[Entry]) -> RenderableType:
    made = _plain("left", "left")
    for company in scene.web.companies:
        name, host = company.name, company.host
        row, source = app.read(company_rows.company, host), story.now.source_of(host)
        reason = row.reason if row is not None and row.reason else ""
        seen = source.listings or 0 if source is not None else 0
        what: tuple[str, str]
        match name:
            case troubles.LOOP:
                what = "redirects in a circle", f"unknown: {reason}"
            case troubles.DEAD:
                what = "no server listens there", f"unknown: {reason}"
            case troubles.BUSY:
                times = sum(entry.host == host and entry.status == 429 for entry in log)
                what = (
                    "says it is busy",
                    f"429 came {times} times; left alone for as long as it asked, then {seen} listings",
                )
            case troubles.SPAM:
                what = "a board with 10,000 links", f"{seen:,} seen, {LIMITS.max_children} taken: the cap of a task"
            case troubles.FAILING:
                what = "a board that breaks off", f"disabled: {source.reason if source is not None else ''}"
            case troubles.FORBIDDEN:
                what = "robots.txt forbids its jobs", f"{seen} listings seen, none fetched: kept as unknown"
            case troubles.MILL | troubles.YARD:
                other = troubles.YARD if name == troubles.MILL else troubles.MILL
                read = f"{seen} listings seen" if source is not None else f"read once, as the board of {other}"
                what = f"one feed with {other}, and it leads back", read
            case _:
                continue
        made.add_row(Text(name, "bold"), Text.assemble(what[0], (f" → {what[1]}", "dim")))
    return made


def _refused(refused: Sequence[Refused]) -> RenderableType:
    if not refused:
        return Text("none", "bold red")
    made = _plain("right", "left", "left")
    meanings = {Rule.LIMIT: "no room", Rule.CYCLE: "a way back", Rule.DUPLICATE: "there already", Rule.DONE: "done"}
    for one in refused:
        made.add_row(
            Text(f"{one.count:,}", "bold"), one.rule, Text(f"{meanings.get(Rule(one.rule), '')}: {one.example}", "dim")
        )
    return made


def _kill(story: Story, paid: Cost) -> RenderableType:
    if story.killed is None:
        return Text("there was none", "bold red")
    worker = story.killed.worker
    return Text(
        f"{worker.name} was killed after {story.killed.at_s:.1f} s, with {worker.holds} tasks in hand. "
        f"{paid.taken_back} were taken back, the last one {paid.within_ms} ms later, and went on from their last "
        f"finished stage; {paid.asked_again} pages had to be asked for again."
    )


def _plain(*sides: Any) -> Table:
    made = Table.grid(padding=(0, 2, 0, 0))
    for side in sides:
        made.add_column(justify=side, overflow="fold")
    return made
