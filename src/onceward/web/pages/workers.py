"""The workers: which are alive, what each holds and runs, and what an operator has paused."""

from __future__ import annotations

from functools import partial
from shlex import quote

from onceward.errors import ConfigError
from onceward.model.pause import EVERYTHING
from onceward.operations.workers import HeldTask
from onceward.web.answers import Done, Page
from onceward.web.route import Answer, Route, action, page
from onceward.web.stages import first_stage
from onceward.web.view import View

MOST_HELD = 300
SHOWN_EACH = 12
SCOPES = ("pipeline", "source", "queue")


async def show(view: View) -> Answer:
    """Show the living workers with what they hold, and what is paused."""
    app = view.app
    workers = await app.workers.alist()
    held: dict[int, list[HeldTask]] = {}
    for one in await app.workers.aheld(limit=MOST_HELD):
        held.setdefault(one.worker, []).append(one)
    pauses = await app.workers.apauses()
    registry = app._registry
    values = {
        "workers": workers,
        "held": held,
        "each": SHOWN_EACH,
        "pauses": [(one, *_named(one.scope)) for one in pauses],
        "is_all_paused": any(one.scope == EVERYTHING for one in pauses),
        "choices": {"pipeline": registry.kinds, "source": sorted(registry.sources), "queue": registry.queues},
        "first_stage": partial(first_stage, app),
    }
    return Page("workers.html", values, "Workers", "workers")


def _named(scope: str) -> tuple[str, str]:
    what, _, name = scope.partition(":")
    return what, name


def _scope(form: dict[str, str]) -> tuple[dict[str, str], str]:
    """Return what a form means as named arguments, and as the command line says it."""
    what, name = form.get("what", ""), form.get("name", "").strip()
    if what == EVERYTHING:
        return {}, "--everything"
    if what not in SCOPES or not name:
        raise ConfigError("say what is meant: a pipeline, a source or a queue by its name, or everything")
    return {what: name}, f"--{what} {quote(name)}"


async def pause(view: View) -> Answer:
    """Let nothing of a pipeline, a source, a queue, or nothing at all, begin before it is resumed."""
    named, said = _scope(await view.form())
    await view.app.workers.apause(**named, author=view.caller.name)
    what = " ".join(*named.items()) if named else "everything"
    return Done(f"Paused {what}: workers heed it within a second.", "/workers", 1, f"onceward pause {said}")


async def resume(view: View) -> Answer:
    """Take back a pause."""
    named, said = _scope(await view.form())
    await view.app.workers.aresume(**named)
    what = " ".join(*named.items()) if named else "everything"
    return Done(f"Resumed {what}.", "/workers", 1, f"onceward resume {said}")


ROUTES: list[Route] = [
    page("/workers", show),
    action(
        "/workers/pause", pause, "Let nothing of a pipeline, a source, a queue or at all begin before it is resumed."
    ),
    action("/workers/resume", resume, "Take back a pause."),
]
