"""`onceward-docs connections`: which passages belong together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from onceward.terminal import print_json, show
from onceward_apps.documents import reads
from onceward_apps.documents.app import opened
from onceward_apps.documents.choosing import chosen
from onceward_apps.documents.cli.speaking import OWN_LIBRARY, Where
from onceward_apps.documents.excerpts import excerpt, printable
from onceward_apps.documents.passages import Passage, Tie, ties
from onceward_apps.documents.words import told_words
from onceward_apps.speaking import FINE, NOTHING_SAID, Flag, Output

_LENGTH = 280


def connections(
    document: Annotated[
        str | None, Parameter(name="DOC", help="Only those of a document: an id, file name or title.")
    ] = None,
    /,
    *,
    within: Annotated[bool, Flag, Parameter(help="Those within one document too.")] = False,
    limit: Annotated[
        int, Parameter(name=("--limit", "-n"), validator=Number(gte=1, lte=100_000), help="How many at most.")
    ] = 10,
    where: Where = OWN_LIBRARY,
    output: Output = NOTHING_SAID,
) -> int:
    """See the strongest connections between documents: both passages, and why they belong together."""
    with opened(where.library) as app:
        only = chosen(app, document) if document else None
        found = app.read(ties, only, within=within, limit=limit)
        titles = {entry.document: entry.name for entry in app.read(reads.entries)}
    if output.json:
        print_json({"connections": [_told(tie, titles) for tie in found]})
    elif found:
        show(*(part for tie in found for part in _screen(tie, titles)))
        if len(found) == limit:
            show(Text(f"the strongest {limit:,}; --limit shows more", "dim"))
    else:
        show(Text("no connections" + ("" if within else " between documents; --within shows those within one"), "dim"))
    return FINE


def _told(tie: Tie, titles: Mapping[str, str]) -> dict[str, Any]:
    return {"score": tie.score, "why": tie.why, "left": _end(tie.left, titles), "right": _end(tie.right, titles)}


def _end(passage: Passage, titles: Mapping[str, str]) -> dict[str, Any]:
    return {
        "document": passage.document,
        "title": titles.get(passage.document, passage.document),
        "chunk": passage.chunk,
        "position": passage.position,
        "heading": passage.heading,
        "text": passage.text,
    }


def _screen(tie: Tie, titles: Mapping[str, str]) -> Iterator[RenderableType]:
    shared = told_words(tie.left.text) & told_words(tie.right.text)
    yield Text.assemble((f"{tie.score:.2f} ", "bold"), (tie.why, "green"))
    for passage in (tie.left, tie.right):
        title = titles.get(passage.document, passage.document)
        below = printable(passage.heading.removeprefix(title).removeprefix(" › "))
        yield Padding(
            Text.assemble(
                (printable(title), "bold cyan"), f"  {below}" if below else "", f"  passage {passage.position + 1:,}"
            ),
            (0, 0, 0, 5),
            expand=False,
        )
        yield Padding(Text(excerpt(passage.text, shared, _LENGTH)), (0, 0, 0, 7), expand=False)
    yield Text()
