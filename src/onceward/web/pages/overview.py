"""The overview: is work being done, what needs a person, and how the last hour went."""

from __future__ import annotations

from typing import Any

from onceward.errors import ConfigError
from onceward.model.hour import Minute
from onceward.model.pause import scope_text
from onceward.model.status import Status
from onceward.web.answers import Done, Page
from onceward.web.attention import MOST, attention
from onceward.web.charts import LARGE, SMALL, hour_chart
from onceward.web.facts import Facts, facts_of
from onceward.web.health import health
from onceward.web.roles import Role
from onceward.web.route import Answer, action, page
from onceward.web.view import View

MOST_PIPELINES = 12
WATCHED = 6
"""How many sources are shown: those with trouble first."""
RECENT = 5
"""Over how many whole minutes the present pace is told."""
WORDS = {
    "signal:approved": "approval",
    "signal": "a signal",
    "budget": "a budget",
    "batch": "a batch",
    "code": "other code",
    "children": "children",
    "other": "something else",
}


async def show(view: View) -> Answer:
    """Show the overview."""
    facts, counts = await facts_of(view.app).read()
    items = attention(facts)
    hour, standing = facts.hour, facts.standing
    recent = hour.minutes[-RECENT - 1 : -1]
    watched = sorted(
        (one for one in facts.sources if not one.is_healthy or one.waiting),
        key=lambda one: (one.is_healthy, -one.waiting),
    )
    return Page(
        "overview.html",
        {
            "facts": facts,
            "hour": hour,
            "standing": standing,
            "health": health(facts),
            "items": items[:MOST],
            "more": len(items) - MOST,
            "counts": counts,
            "statuses": list(Status),
            "total": None if counts is None else sum(counts.values()),
            "ended_a_minute": sum(map(_ended, recent)) / RECENT,
            "failed_a_minute": sum(one.failed for one in recent) / RECENT,
            "ended": [_ended(one) for one in hour.minutes[:-1]],
            "failed": [one.failed for one in hour.minutes[:-1]],
            "charts": [
                ("only-large", hour_chart(hour.minutes, LARGE)),
                ("only-small", hour_chart(hour.minutes, SMALL)),
            ],
            "notes": _notes(facts),
            "pipelines": _pipelines(facts),
            "watched": watched[:WATCHED],
            "held": sum(one.holds for one in standing.workers),
            "worst": facts.worst_usd,
        },
        "Overview",
        "overview",
    )


def _ended(one: Minute) -> int:
    return one.succeeded + one.left_out + one.failed + one.cancelled


def _notes(facts: Facts) -> dict[str, str]:
    """Return what else is known of the tasks of a status, by its word."""
    standing = facts.standing
    waits = sorted(standing.waits.items(), key=lambda one: -one[1])
    told = ", ".join(f"{count:,} {WORDS.get(what, what)}" for what, count in waits[:3])
    return {
        Status.PENDING.word: f"{standing.backlog.ready_tasks:,} ready, {standing.backlog.later_tasks:,} later",
        Status.WAITING.word: told,
        Status.RUNNING.word: f"on {len(standing.workers)} worker{'' if len(standing.workers) == 1 else 's'}",
    }


def _pipelines(facts: Facts) -> list[dict[str, Any]]:
    """Return a row for each pipeline: what it has done in the last hour, and how it stands."""
    done = {one.pipeline: one for one in facts.hour.pipelines}
    names = {*done, *facts.standing.running, *facts.standing.waiting}
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "done": done.get(name),
            "ready": facts.ready_of(name),
            "running": facts.standing.running.get(name, 0),
            "waiting": facts.standing.waiting.get(name, 0),
        }
        for name in names
    ]
    return sorted(rows, key=lambda row: (-(row["done"].ended if row["done"] else 0), row["name"]))[:MOST_PIPELINES]


async def pause(view: View) -> Answer:
    """Let nothing begin before it is resumed."""
    await view.app.workers.apause(author=view.caller.name)
    said = "Everything is paused. Stages that run end in good order."
    return Done(said, "/", command="onceward pause --everything")


async def resume(view: View) -> Answer:
    """Let go on what was paused."""
    scope = (await view.form()).get("scope", "")
    what, _, name = scope.partition(":")
    if what not in ("everything", "pipeline", "source", "queue"):
        raise ConfigError(f"{scope!r} is nothing that is paused")
    await view.app.workers.aresume(**({} if what == "everything" else {what: name}))
    said = "Work goes on." if what == "everything" else f"{scope_text(scope).capitalize()} goes on."
    return Done(said, "/", command=f"onceward resume --{what}" + (f" {name}" if name else ""))


async def enable(view: View) -> Answer:
    """Open a source, whatever it has suffered."""
    source = (await view.form()).get("source", "")
    opened = await view.app.sources.aenable(source)
    return Done(f"Source {source} is open.", "/", len(opened), f"onceward source {source} --enable")


async def limit(view: View) -> Answer:
    """Give a budget another limit."""
    form = await view.form()
    name, most, scope = form.get("name", ""), form.get("limit", "").strip(), form.get("scope") or None
    await view.app.budgets.aset_limit(name, most, scope=scope, author=view.caller.name)
    said = f"The limit of budget {name} is {most} now; tasks that fit are woken."
    return Done(said, "/", command=f"onceward budgets {name} --limit {most}" + (f" --scope {scope}" if scope else ""))


ROUTES = [
    page("/", show),
    action("/overview/pause", pause, "Pauses everything."),
    action("/overview/resume", resume, "Resumes what is paused."),
    action("/overview/enable", enable, "Opens a source."),
    action("/overview/limit", limit, "Gives a budget another limit.", role=Role.ADMIN),
]
