"""Lineages as people see them: a tree with the refusals where they happened, and a table of lineages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from onceward.cli.screens import STATUS_STYLE, status_text
from onceward.cli.tables import GAP, LEAST_WIDTH, table
from onceward.cli.words import age, shortened, time_of
from onceward.harmless import one_line
from onceward.model.decide import wait_text
from onceward.model.lineage import Limits
from onceward.model.status import Status
from onceward.model.times import duration_text, milliseconds
from onceward.terminal import console
from onceward.views.lineage import Branch, Lineage, LineageSummary, Refusal
from onceward.views.why import Why

KEY_LENGTH = 60
REASON_LENGTH = 300
REFUSALS_SHOWN = 10
"""How many different refusals of one task are shown; those beyond are counted by rule."""

_LEFT_OUT_FIRST = ("created", "depth", "of")


def lineage_screen(lineage: Lineage, now: datetime) -> Iterable[RenderableType]:
    """What a lineage is and may be, and its tree."""
    part = "" if lineage.is_whole else f"  from task {lineage.root.id} down"
    pause = ("  paused", "bold magenta") if lineage.is_paused else ""
    yield Text.assemble(("lineage ", "bold"), (str(lineage.id), "bold"), part, pause)
    yield _facts(lineage, now)
    for root in lineage.roots:
        yield _tree(root, now)
    if lineage.left_out:
        shown = lineage.tasks - lineage.left_out
        yield Text(f"the oldest {shown:,} of {lineage.tasks:,}; --limit shows more", "dim")


def _facts(lineage: Lineage, now: datetime) -> Table:
    made = Table.grid(padding=(0, 2))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    counts = [Text(f"{count:,} {status.word}", STATUS_STYLE[status]) for status, count in lineage.counts.items()]
    full = "bold red" if lineage.tasks_counted >= lineage.max_tasks else ""
    room = Text(f"{lineage.tasks_counted:,} of {lineage.max_tasks:,}", full)
    if lineage.is_whole:
        made.add_row("tasks", Text.assemble(room, ": ", Text(", ").join(counts)))
    else:
        made.add_row("tasks here", Text(", ").join(counts))
        made.add_row("in the lineage", room)
    made.add_row("deepest", Text(f"{lineage.deepest} of {lineage.max_depth}"))
    over = lineage.deadline_at <= now
    when = f"over since {age(now - lineage.deadline_at)}" if over else f"in {age(lineage.deadline_at - now)}"
    made.add_row("deadline", Text(when, "bold red" if over else ""))
    if lineage.cost:
        made.add_row("cost", Text(f"{lineage.cost:,f} USD"))
    if lineage.refusals:
        made.add_row("refused", Text(f"{lineage.refusals:,}", "yellow"))
    if lineage.paused and not lineage.is_paused:
        made.add_row("paused", Text(f"{lineage.paused:,} tasks", "magenta"))
    return made


def _tree(root: Branch, now: datetime) -> Tree:
    """The tree of a task. Its label and its lines belong to it; its children stand below them."""
    made = Tree(_task_line(root, now), guide_style="dim")
    _grow(made, root, now)
    return made


def _grow(node: Tree, branch: Branch, now: datetime) -> None:
    told = {refusal.existing for refusal in branch.refusals}
    alike = _alike(branch.refusals)
    for same in alike[:REFUSALS_SHOWN]:
        node.add(_refusal_line(same))
    if more := _more_refusals(branch, alike[REFUSALS_SHOWN:]):
        node.add(Text(f"✗ {more}", "yellow"))
    for link in branch.links:
        if link.task not in told:
            line = Text.assemble(
                ("→ ", "cyan"),
                f"{one_line(link.kind)} {shortened(link.key or '', KEY_LENGTH)}  ",
                status_text(link.status),
                (f"  linked to task {link.task}, which was there already", "dim"),
            )
            node.add(line)
    for child in branch.children:
        _grow(node.add(_task_line(child, now)), child, now)


def _task_line(branch: Branch, now: datetime) -> Text:
    notes = [f"depth {branch.depth}"]
    if branch.attempts:
        notes.append(f"{branch.attempts} attempt{'' if branch.attempts == 1 else 's'}")
    if branch.cost:
        notes.append(f"{branch.cost:,f} USD")
    if branch.waiting_for:
        notes.append(f"waits for {one_line(wait_text(branch.waiting_for))}")
    elif branch.due_at is not None and branch.due_at > now:
        notes.append(f"due in {age(branch.due_at - now)}")
    if branch.reason and branch.status is not Status.SUCCEEDED and not branch.waiting_for:
        notes.append(shortened(branch.reason, REASON_LENGTH))
    return Text.assemble(
        (str(branch.id), "bold"),
        f" {one_line(branch.kind)} {shortened(branch.key, KEY_LENGTH)}  ",
        status_text(branch.status),
        ("  paused", "magenta") if branch.is_paused and not branch.status.is_terminal else "",
        (f"  {', '.join(notes)}", "dim"),
    )


def _alike(refusals: Sequence[Refusal]) -> list[list[Refusal]]:
    """Refusals of the same work for the same reason, together; in the order in which they first came."""
    found: dict[tuple[str, str | None, str, str], list[Refusal]] = {}
    for one in refusals:
        found.setdefault((one.kind, one.key, one.rule.value, one.reason), []).append(one)
    return list(found.values())


def _refusal_line(alike: Sequence[Refusal]) -> Text:
    refusal = alike[0]
    key = f" {shortened(refusal.key, KEY_LENGTH)}" if refusal.key is not None else ""
    times = f" {len(alike)} times" if len(alike) > 1 else ""
    return Text.assemble(
        ("✗ ", "yellow"),
        f"{one_line(refusal.kind)}{key}  ",
        (f"refused{times}: {refusal.rule.value}", "yellow"),
        (f"  {shortened(refusal.reason, REASON_LENGTH)}", "dim"),
    )


def _more_refusals(branch: Branch, alike: Sequence[Sequence[Refusal]]) -> str:
    """The refusals that are not shown one by one, by their rules where those are known."""
    rules: dict[str, int] = {}
    for same in alike:
        rules[same[0].rule.value] = rules.get(same[0].rule.value, 0) + len(same)
    parts = [f"{count:,} by {rule}" for rule, count in rules.items()]
    if branch.refusals_only_counted:
        parts.append(f"{branch.refusals_only_counted:,} of which only the number is kept")
    total = sum(rules.values()) + branch.refusals_only_counted
    return f"and {total:,} more refused: {', '.join(parts)}" if parts else ""


def lineages_screen(found: Sequence[LineageSummary], now: datetime) -> Iterable[RenderableType]:
    """Lineages, one a line; the number of the root names a lineage as well as its id does."""
    rows = [_summary_cells(one, now) for one in found]
    names = list(rows[0])
    for name in _LEFT_OUT_FIRST:
        if _width(rows, names) > console().width:
            names.remove(name)
    numbers = ("root", "tasks", "of", "open", "failed", "refused", "depth")
    yield table(names, ([row[name] for name in names] for row in rows), right=numbers, cut=("key",))


def _summary_cells(one: LineageSummary, now: datetime) -> dict[str, Text]:
    full = "bold red" if one.tasks_counted >= one.max_tasks else ""
    return {
        "root": Text(str(one.root)),
        "kind": Text(one_line(one.kind)),
        "key": Text(one_line(one.key)),
        "status": Text.assemble(status_text(one.status), (" paused", "magenta") if one.is_paused else ""),
        "tasks": Text(f"{one.tasks_counted:,}", full),
        "of": Text(f"{one.max_tasks:,}", full or "dim"),
        "open": _count(sum(count for status, count in one.counts.items() if not status.is_terminal), ""),
        "failed": _count(one.counts.get(Status.FAILED, 0), "bold red"),
        "refused": _count(one.refusals, "yellow"),
        "depth": Text(str(one.deepest)),
        "created": Text(time_of(one.created_at, now)),
    }


def _width(rows: Sequence[dict[str, Text]], names: Sequence[str]) -> int:
    """How wide the columns are if the key gives way."""
    natural = {name: max(len(name), *(row[name].cell_len for row in rows)) for name in names}
    return sum(GAP + (min(width, LEAST_WIDTH) if name == "key" else width) for name, width in natural.items())


def _count(count: int, style: str) -> Text:
    return Text(f"{count:,}", style if count else "dim")


def why_screen(why: Why, now: datetime) -> Iterable[RenderableType]:
    """What holds a task and the tasks below it back, in sentences; when it is over, and how to unblock it."""
    yield from _why_lines(why, now, 0)
    if why.before:
        yield Text("before", "bold")
        yield from (Text(f"  {one_line(text)}", "dim") for text in why.before)


def _why_lines(why: Why, now: datetime, depth: int) -> Iterable[RenderableType]:
    indent = " " * 2 * depth
    parts = (indent, (f"task {why.task}", "bold"), "  ", status_text(why.status), "  ", one_line(why.sentence))
    yield Text.assemble(*parts)
    if why.until is not None:
        yield Text(f"{indent}until {why.until.astimezone():%Y-%m-%d %H:%M:%S}, in {age(why.until - now)}", "dim")
    if why.command is not None:
        yield Text.assemble(indent, ("unblock  ", "dim"), one_line(why.command))
    for one in why.below:
        yield from _why_lines(one, now, depth + 1)


def limits_screen(name: str, limits: Limits) -> Iterable[RenderableType]:
    """The limits of a lineage or a part of it."""
    yield Text(name, "bold")
    rows = [
        ("max depth", str(limits.max_depth)),
        ("max tasks", f"{limits.max_tasks:,}"),
        ("max children", f"{limits.max_children:,}"),
        ("deadline", duration_text(milliseconds(limits.deadline or 0))),
        *([] if limits.budget is None else [("budget", f"{limits.budget} USD")]),
    ]
    yield table(("limit", "value"), rows, right=("value",))
