"""One lineage: the drawn tree, its limits and its budget, what was refused, and what an operator does with it."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote
from typing import Any

from onceward.errors import ConfigError
from onceward.model.lineage import Limits
from onceward.model.status import Status
from onceward.views.branches import Drawn, LineageTree, TreeTask
from onceward.web import tree_drawing, tree_folding
from onceward.web.answers import Done, Page
from onceward.web.forms import back_of, miscounted, number_of
from onceward.web.rendering import path
from onceward.web.roles import Role
from onceward.web.route import Answer, Route, action, page
from onceward.web.shown import shown_lineage
from onceward.web.tree_folding import Folding
from onceward.web.view import View

SLOWER_ABOVE = 2_000
"""Tasks of a lineage above which its page is drawn anew less often."""
REFUSALS_READ = 3
PEEK_LEFT_FROM = 640
"""From which place on a chosen task would lie below its own facts at the right of the page."""


@dataclass(frozen=True)
class Looked:
    """How a person looks at the tree: as the address says."""

    id: str
    base: str
    folding: Folding
    at: int | None
    by: tree_drawing.By
    outline: bool

    def address(self, **changed: object) -> str:
        """The address of the same page, looked at differently; None takes a word away."""
        now: dict[str, object] = {
            "open": self.folding.text or None,
            "at": self.at,
            "by": None if self.by == "cost" else self.by,
            "view": "outline" if self.outline else None,
        }
        return path(self.base, f"/lineages/{self.id}", **{**now, **changed})

    def unfolded(self, task: int, count: int = 0) -> str:
        """The address with a task unfolded."""
        return self.address(open=self.folding.unfolding(task, count).text)

    def folded(self, task: int) -> str:
        """The address with a task folded."""
        return self.address(open=self.folding.folding(task).text)


def looked(view: View) -> Looked:
    """Read from the address how the tree is looked at."""
    query = view.query
    at = query.get("at", "")
    return Looked(
        view.path["id"],
        view.base,
        Folding.parsed(query.get("open", "")),
        int(at) if at.isdecimal() and len(at) < 19 else None,
        "time" if query.get("by") == "time" else "cost",
        query.get("view") == "outline",
    )


async def show(view: View) -> Answer:
    """Show a lineage, or a task and all that descends from it."""
    how = looked(view)
    tree = await view.app.lineages.atree(how.id)
    roots = tree_folding.chosen(tree, how.folding)
    spots = tree_folding.spots_of(roots)
    shown = [spot.task.id for spot in spots]
    chosen = tree.tasks.get(how.at) if how.at is not None else None
    drawn = await view.app.lineages.adrawn(
        {*shown, tree.root.id, *([chosen.id] if chosen else ())}, refused_each=REFUSALS_READ
    )
    tree, drawn = shown_lineage(tree, drawn, view.caller, view.secret)
    drawing = tree_drawing.drawing(tree, roots, drawn, how.by, chosen.id if chosen else None)
    refused = tree_drawing.refused_by_task(tree, spots, drawn)
    values = {
        "tree": tree,
        "how": how,
        "roots": roots,
        "drawing": drawing,
        "drawn": drawn,
        "refused": refused,
        "stands": _stands(tree),
        "chosen": chosen,
        "chosen_why": await _why(view, chosen, drawn) if chosen else "",
        "parked": [spot.task for spot in spots if spot.task.is_parked][:20],
        "back": how.address()[len(view.base) :],
        "draws": tree_drawing,
        "peek_left": any("node--here" in node.classes and node.box.x > PEEK_LEFT_FROM for node in drawing.nodes),
        "max_length": max((root.length_ms for root in tree.roots), default=0),
        "command_id": str(tree.id) if tree.is_whole else how.id,
    }
    root = drawn.tasks.get(tree.root.id)
    title = f"{tree.root.kind} {tree_drawing.spoken_key(root.key) if root else tree.root.id}"
    slower = 15 if len(tree.tasks) > SLOWER_ABOVE else 5
    return Page("lineage.html", {**values, "headline": title}, title[:80], "lineages", refresh_s=slower)


async def _why(view: View, task: TreeTask, drawn: Drawn) -> str:
    if task.status.is_terminal or task.status is Status.RUNNING:
        known = drawn.tasks.get(task.id)
        return (known.reason or "") if known else ""
    return (await view.app.awhy(task.id)).sentence


def _stands(tree: LineageTree) -> str:
    """Say in few words how the tasks of a lineage stand: 9 open, 25 failed, 352 ended well."""
    counts = tree.counts
    well = sum(counts.get(status, 0) for status in (Status.SUCCEEDED, Status.FILTERED, Status.SKIPPED))
    said = [
        f"{count:,} {word}"
        for count, word in (
            (tree.open, "open"),
            (counts.get(Status.FAILED, 0), "failed"),
            (counts.get(Status.CANCELLED, 0), "cancelled"),
            (well, "ended well"),
        )
        if count
    ]
    return ", ".join(said)


def _part(id: str) -> str:
    return f"lineage {id}" if "-" in id else f"task {id} and what descends from it"


async def _asked(view: View) -> tuple[str, dict[str, str], str]:
    """Return the part that a form is about, its fields, and the page it came from."""
    form = await view.form()
    id = form.get("part", "").strip() or view.path["id"]
    return id, form, back_of(form, f"/lineages/{view.path['id']}")


async def pause(view: View) -> Answer:
    """Pause a lineage or a part of it."""
    id, _, back = await _asked(view)
    count = await view.app.lineages.apause(id)
    return Done(f"Paused {_part(id)}: {count:,} open tasks begin nothing.", back, count, f"onceward pause {quote(id)}")


async def resume(view: View) -> Answer:
    """Let a lineage or a part of it go on."""
    id, _, back = await _asked(view)
    count = await view.app.lineages.aresume(id)
    return Done(f"Resumed {_part(id)}: {count:,} tasks go on.", back, count, f"onceward resume {quote(id)}")


async def retry(view: View) -> Answer:
    """Open the failed tasks of a lineage or a part of it again."""
    id, form, back = await _asked(view)
    tree = await view.app.lineages.atree(id)
    wrong = miscounted(form, tree.counts.get(Status.FAILED, 0), "failed tasks", back)
    if wrong is not None:
        return wrong
    found = await view.app.lineages.aretry(id)
    said = f"Opened {len(found.tasks):,} failed tasks of {_part(id)} again."
    if found.refused:
        task, why = next(iter(found.refused.items()))
        said += f" {len(found.refused):,} could not be opened; task {task}: {why}"
    return Done(said, back, len(found.tasks), f"onceward retry --lineage {quote(id)}", stays=bool(found.refused))


async def cancel(view: View) -> Answer:
    """Cancel whatever is open in a lineage or a part of it."""
    id, form, back = await _asked(view)
    wrong = miscounted(form, (await view.app.lineages.atree(id)).open, "open tasks", back)
    if wrong is not None:
        return wrong
    reason = form.get("reason", "").strip() or f"cancelled by {view.caller.name}"
    found = await view.app.lineages.acancel(id, reason)
    return Done(
        f"Cancelled {len(found):,} tasks of {_part(id)}.", back, len(found), f"onceward cancel --lineage {quote(id)}"
    )


async def approve(view: View) -> Answer:
    """Let a child begin that waits for an operator's word."""
    id, _, back = await _asked(view)
    await view.app.tasks.aapprove(_number(id))
    return Done(f"Approved task {id}: it stands in line.", back, 1, f"onceward approve {quote(id)}")


async def refuse(view: View) -> Answer:
    """Cancel a child that waits for an operator's word."""
    id, _, back = await _asked(view)
    await view.app.tasks.acancel(_number(id), f"not approved by {view.caller.name}")
    return Done(f"Cancelled task {id}.", back, 1, f"onceward cancel {quote(id)}")


async def limits(view: View) -> Answer:
    """Give a lineage or a part of it wider limits."""
    id, form, back = await _asked(view)
    wanted = Limits(
        max_tasks=number_of(form, "max_tasks"),
        max_depth=number_of(form, "max_depth"),
        max_children=number_of(form, "max_children"),
        deadline=form.get("deadline", "").strip() or None,
        budget=form.get("budget", "").strip() or None,
    )
    if wanted.is_empty:
        raise ConfigError("which limit? Fill in at least one of them")
    has = await view.app.lineages.araise_limits(id, wanted)
    said = f"max_tasks {has.max_tasks:,}, max_depth {has.max_depth}, max_children {has.max_children:,}"
    command = f"onceward limits {quote(id)}{_flags(form)}"
    if wanted.budget is not None:
        head = (await view.app.lineages.atree(id)).id
        command = f"onceward budgets lineage --limit {quote(str(wanted.budget))} --scope {head}"
    return Done(f"Limits of {_part(id)} are now: {said}.", back, 1, command)


def _flags(form: dict[str, str]) -> str:
    named = ("max_tasks", "max_depth", "max_children", "deadline")
    return "".join(
        f" --{name.replace('_', '-')} {quote(form[name].strip())}" for name in named if form.get(name, "").strip()
    )


def _number(id: str) -> int:
    if not id.isdecimal() or len(id) > 18:
        raise ConfigError(f"{id[:40]!r} is not the number of a task")
    return int(id)


def _route(word: str, do: Any, about: str, **more: Any) -> Route:
    return action(f"/lineages/{{id}}/{word}", do, about, **more)


ROUTES: list[Route] = [
    page("/lineages/{id}", show),
    _route("pause", pause, "Pause a lineage or a part of it."),
    _route("resume", resume, "Let a lineage or a part of it go on."),
    _route("retry", retry, "Open the failed tasks of a lineage or a part of it again."),
    _route("cancel", cancel, "Cancel whatever is open in a lineage or a part of it."),
    _route("approve", approve, "Let a child begin that waits for an operator's word."),
    _route("refuse", refuse, "Cancel a child that waits for an operator's word."),
    _route("limits", limits, "Give a lineage or a part of it wider limits.", role=Role.ADMIN),
]
