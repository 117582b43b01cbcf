"""What the live view says of one task: why it stands where it does, and what unblocks it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from onceward.top.panels import text

if TYPE_CHECKING:
    from onceward.app import App
    from onceward.views.why import Why

LONGEST_SENTENCE = 1_000
MOST_LINES = 12


def reason_lines(app: App, task: int) -> Text:
    """Return why a task stands where it does, with the command that unblocks it, and its last error."""
    found, one = app.why(task), app.tasks.get(task)
    lines = [
        Text.assemble((f"task {one.id} ", "bold"), (f"{one.status.word} ", "bold cyan"), text(one.kind, "bold")),
        text(one.key, "dim"),
        Text(),
        *_lines(found),
    ]
    trace = next((event.trace for event in reversed(one.history) if event.trace), None)
    if trace is not None:
        lines += [Text(), *(text(line.expandtabs(), "dim") for line in trace.splitlines()[-6:])]
    return Text("\n").join(lines[: MOST_LINES * 2])


def _lines(found: Why) -> Iterator[Text]:
    yield text(found.sentence, most=LONGEST_SENTENCE)
    if found.until is not None:
        yield text(f"until {found.until:%Y-%m-%d %H:%M:%S} UTC", "dim")
    if found.command is not None:
        yield Text.assemble(("unblock  ", "dim"), text(found.command, "bold green"))
    for earlier in found.before[-3:]:
        yield text(f"earlier  {earlier}", "dim")
    for below in found.below[:MOST_LINES]:
        yield Text.assemble((f"task {below.task}  ", "bold"), text(below.sentence))
        if below.command is not None:
            yield Text.assemble(("unblock  ", "dim"), text(below.command, "bold green"))
