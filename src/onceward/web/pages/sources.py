"""The sources: what each lets through, how it stood in the last day, and what stands in line for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote

from onceward.operations.sources import SourcePoint, SourceState, SourceStatus
from onceward.web.answers import Done, Page
from onceward.web.forms import back_of
from onceward.web.route import Answer, Route, action, page
from onceward.web.view import View

MOST = 200
DAY_MS = 86_400_000
GAP_MS = 900_000
"""A longer time between two looks is drawn as unknown."""
MARKS = {
    SourceState.OPEN: ("succeeded", "open"),
    SourceState.HALF_OPEN: ("waiting", "one probe"),
    SourceState.PAUSED: ("failed", "left alone"),
    SourceState.DISABLED: ("cancelled", "disabled"),
    SourceState.HELD: ("paused", "paused"),
}
"""The mark of each state, and its word."""
DRAWN = {
    SourceState.OPEN: "open",
    SourceState.HALF_OPEN: "half",
    SourceState.PAUSED: "closed",
    SourceState.DISABLED: "off",
    SourceState.HELD: "off",
}


@dataclass(frozen=True)
class Piece:
    """A part of the last day in which a source stood in one state: where it begins and how long it is, in percent."""

    sort: str
    x: float
    width: float


@dataclass(frozen=True)
class History:
    """The last day of a source, as it is drawn."""

    pieces: list[Piece]
    failures: list[float]
    """Where failures were counted, in percent."""
    rates: list[float]
    """Calls a minute, from look to look."""

    @property
    def rate(self) -> float | None:
        """Calls a minute between the last two looks."""
        return self.rates[-1] if self.rates else None


def history_of(points: Sequence[SourcePoint], now_ms: int) -> History:
    """Draw the looks of a day: a state lasts from one look to the next."""
    pieces: list[Piece] = []
    failures: list[float] = []
    rates: list[float] = []
    began = now_ms - DAY_MS
    moments = [point.at.timestamp() * 1_000 for point in points]
    for place, point in enumerate(points):
        at = moments[place]
        until = moments[place + 1] if place + 1 < len(points) else min(now_ms, at + GAP_MS)
        x, width = 100 * (at - began) / DAY_MS, 100 * (min(until, at + GAP_MS) - at) / DAY_MS
        sort = DRAWN[point.state]
        last = pieces[-1] if pieces else None
        if last is not None and last.sort == sort and abs(last.x + last.width - x) < 0.05:
            pieces[-1] = Piece(sort, last.x, x + width - last.x)
        else:
            pieces.append(Piece(sort, x, width))
        if place and at > moments[place - 1]:
            before = points[place - 1]
            rates.append(max(0, point.calls - before.calls) * 60_000 / (at - moments[place - 1]))
            if point.failures > before.failures:
                failures.append(x)
    return History(pieces, failures, rates)


async def show(view: View) -> Answer:
    """Show all sources, those that need a look first."""
    app = view.app
    found = await app.sources.alist()
    histories = await app.sources.ahistory()
    sought = view.query.get("name", "").strip()
    matching = [one for one in found if sought.lower() in one.name.lower()]
    matching.sort(key=_urgency)
    rows = [(one, MARKS[one.state], history_of(histories.get(one.name, ()), view.now)) for one in matching[:MOST]]
    values = {
        "sources": rows,
        "count": len(found),
        "matching": len(matching),
        "sought": sought,
        "shut": sum(one.state is not SourceState.OPEN for one in found),
        "rate_of": app.sources._rate_of,
        "code_is_known": bool(app._registry.kinds),
    }
    return Page("sources.html", values, "Sources", "sources")


def _urgency(one: SourceStatus) -> tuple[object, ...]:
    return (one.state is SourceState.OPEN, not one.streak, -one.waiting, one.name)


async def enable(view: View) -> Answer:
    """Open a source, whatever it has suffered."""
    form = await view.form()
    name = form.get("name", "")
    names = await view.app.sources.aenable(name)
    said = f"Opened {name}: its failures are forgotten, and its line is looked at now."
    return Done(said, back_of(form, "/sources"), len(names), f"onceward source {quote(name)} --enable")


async def disable(view: View) -> Answer:
    """Let nothing pass a source until it is enabled."""
    form = await view.form()
    name = form.get("name", "")
    names = await view.app.sources.adisable(name)
    said = f"Disabled {name}: nothing passes until it is enabled."
    return Done(said, back_of(form, "/sources"), len(names), f"onceward source {quote(name)} --disable")


async def pause(view: View) -> Answer:
    """Let nothing pass a source, new instances included, until it is resumed."""
    form = await view.form()
    name = form.get("name", "")
    await view.app.workers.apause(source=name, author=view.caller.name)
    said = f"Paused {name}: nothing of it begins before it is resumed."
    return Done(said, back_of(form, "/sources"), 1, f"onceward pause --source {quote(name)}")


async def resume(view: View) -> Answer:
    """Take back the pause of a source."""
    form = await view.form()
    name = form.get("name", "")
    await view.app.workers.aresume(source=name)
    return Done(f"Resumed {name}.", back_of(form, "/sources"), 1, f"onceward resume --source {quote(name)}")


ROUTES: list[Route] = [
    page("/sources", show),
    action("/sources/enable", enable, "Open a source, whatever it has suffered."),
    action("/sources/disable", disable, "Let nothing pass a source until it is enabled."),
    action("/sources/pause", pause, "Let nothing pass a source, new instances included, until it is resumed."),
    action("/sources/resume", resume, "Take back the pause of a source."),
]
