"""The schedules: when each fires next, what it fired last; run one now, pause and resume it."""

from __future__ import annotations

from shlex import quote

from onceward.web.answers import Done, Page, Refused
from onceward.web.route import Answer, Route, action, page
from onceward.web.view import View

NEXT_RUNS = 3


async def show(view: View) -> Answer:
    """Show all schedules."""
    found = await view.app.schedules.alist()
    rows = [(one, view.app.schedules._next_runs(one.name, NEXT_RUNS)) for one in found]
    return Page("schedules.html", {"schedules": rows}, "Schedules", "schedules")


async def run_now(view: View) -> Answer:
    """Enqueue the work of a schedule now, besides its times."""
    name = (await view.form()).get("name", "")
    begun = await view.app.schedules.arun_now(name)
    if not begun.created:
        return Refused(
            f"{name} was not enqueued: {begun.reason or f'task {begun.existing} is the same work'}.", "/schedules"
        )
    return Done(f"Enqueued {name} as task {begun.id}.", "/schedules", 1, f"onceward schedules --run-now {quote(name)}")


async def pause(view: View) -> Answer:
    """Let a schedule fire no more before it is resumed."""
    name = (await view.form()).get("name", "")
    await view.app.schedules.apause(name)
    return Done(f"Paused {name}: it fires no more.", "/schedules", 1, f"onceward schedules --pause {quote(name)}")


async def resume(view: View) -> Answer:
    """Let a paused schedule go on."""
    name = (await view.form()).get("name", "")
    await view.app.schedules.aresume(name)
    said = f"Resumed {name}. The times in between were missed, and it is as with any others."
    return Done(said, "/schedules", 1, f"onceward schedules --resume {quote(name)}")


ROUTES: list[Route] = [
    page("/schedules", show),
    action("/schedules/run", run_now, "Enqueue the work of a schedule now, besides its times."),
    action("/schedules/pause", pause, "Let a schedule fire no more before it is resumed."),
    action("/schedules/resume", resume, "Let a paused schedule go on."),
]
