"""`onceward-docs show`: a document, or one of its passages."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number
from rich.console import RenderableType
from rich.text import Text

from onceward import ConfigError
from onceward.terminal import print_json
from onceward.terminal import show as show_parts
from onceward_apps.documents import reads
from onceward_apps.documents.app import opened
from onceward_apps.documents.choosing import chosen
from onceward_apps.documents.cli.speaking import OWN_LIBRARY, Where
from onceward_apps.documents.excerpts import plain, printable, shortened
from onceward_apps.documents.outline import Heading
from onceward_apps.documents.passages import Passage, Tie, passages_of, ties
from onceward_apps.documents.reading import About
from onceward_apps.documents.reads import Entry
from onceward_apps.speaking import FINE, NOTHING_SAID, Flag, Output, table

_LINE = 90


def show(
    document: Annotated[str, Parameter(name="DOC", help="An id or its beginning, a file name, or a part of a title.")],
    /,
    *,
    chunk: Annotated[
        int | None,
        Parameter(name=("--chunk", "-c"), validator=Number(gte=1), help="Show this passage, counted from 1."),
    ] = None,
    passages: Annotated[bool, Flag, Parameter(help="List all passages, one a line.")] = False,
    where: Where = OWN_LIBRARY,
    output: Output = NOTHING_SAID,
) -> int:
    """See a document: what is known of it, its outline and its passages; or one passage with its connections."""
    with opened(where.library) as app:
        [entry] = app.read(reads.entries, chosen(app, document))
        every = app.read(passages_of, entry.document)
        found = app.read(ties, entry.document)
        titles = {one.document: one.name for one in app.read(reads.entries)}
    if chunk is None:
        told = _document(entry, every, len(found), with_passages=passages)
        screen = _screen(entry, every, len(found), with_passages=passages)
    else:
        if chunk > len(every):
            raise ConfigError(f"{entry.name} has {len(every):,} passages; there is no passage {chunk:,}")
        passage = every[chunk - 1]
        own = [tie for tie in found if passage.chunk in (tie.left.chunk, tie.right.chunk)]
        told = _passage(entry, passage, own, titles)
        screen = _passage_screen(entry, passage, own, titles, len(every))
    if output.json:
        print_json(told)
    else:
        show_parts(*screen)
    return FINE


def _outline(entry: Entry, every: Sequence[Passage]) -> list[tuple[Heading, int]]:
    """The headings, each with the number of the passage in which it stands, from 1."""
    headings = msgspec.json.decode(entry.outline, type=list[Heading]) if entry.outline else []
    starts = [passage.start for passage in every]
    return [(heading, max(1, bisect_right(starts, heading.start))) for heading in headings]


def _document(entry: Entry, every: Sequence[Passage], count: int, *, with_passages: bool) -> dict[str, Any]:
    told: dict[str, Any] = {
        "document": entry.document,
        "name": entry.name,
        "path": entry.path,
        "generation": entry.generation,
        "about": msgspec.json.decode(entry.about) if entry.about else None,
        "words": entry.words,
        "passages": len(every),
        "connections": count,
        "outline": [
            {"level": heading.level, "title": heading.title, "start": heading.start, "passage": number}
            for heading, number in _outline(entry, every)
        ],
    }
    if with_passages:
        told["texts"] = [
            {"chunk": one.chunk, "position": one.position, "start": one.start, "end": one.end, "heading": one.heading,
             "text": one.text}
            for one in every
        ]  # fmt: skip
    return told


def _screen(entry: Entry, every: Sequence[Passage], count: int, *, with_passages: bool) -> Iterator[RenderableType]:
    about = msgspec.json.decode(entry.about, type=About) if entry.about else About(format="")
    yield Text(printable(entry.name), "bold cyan")
    facts = {
        "by": ", ".join(about.creators),
        "published": about.published,
        "language": about.language,
        "format": about.format,
        "file": entry.path,
        "id": entry.document,
        "words": None if entry.words is None else f"{entry.words:,}",
        "passages": f"{len(every):,}",
        "connections": f"{count:,}",
        "warnings": "; ".join(about.warnings),
    }
    yield table(("", " "), [(name, printable(value)) for name, value in facts.items() if value], folded=(" ",))
    if outline := _outline(entry, every):
        yield Text("\nOutline", "bold")
        for heading, number in outline:
            yield Text.assemble(f"{number:>7,}  ", "  " * (heading.level - 1), printable(heading.title))
    if with_passages:
        yield Text("\nPassages", "bold")
        for one in every:
            yield Text.assemble(f"{one.position + 1:>7,}  ", shortened(plain(one.text), _LINE))


def _passage(entry: Entry, one: Passage, own: Sequence[Tie], titles: Mapping[str, str]) -> dict[str, Any]:
    return {
        "document": entry.document,
        "title": entry.name,
        "chunk": one.chunk,
        "position": one.position,
        "start": one.start,
        "end": one.end,
        "heading": one.heading,
        "text": one.text,
        "connections": [
            {"score": tie.score, "why": tie.why, "document": other.document, "title": titles.get(other.document, ""),
             "chunk": other.chunk, "position": other.position, "heading": other.heading}
            for tie in own
            for other in [tie.other(one.chunk)]
        ],
    }  # fmt: skip


def _passage_screen(
    entry: Entry, one: Passage, own: Sequence[Tie], titles: Mapping[str, str], total: int
) -> Iterator[RenderableType]:
    yield Text.assemble((printable(entry.name), "bold cyan"), f"  passage {one.position + 1:,} of {total:,}")
    place = f"{one.chunk}, characters {one.start:,} to {one.end:,}"
    yield Text.assemble(f"{printable(one.heading)}\n" if one.heading else "", (place, "dim"), "\n")
    yield Text("".join(letter if letter.isprintable() or letter == "\n" else " " for letter in one.text))
    if own:
        yield Text("\nConnections", "bold")
        for tie in own:
            other = tie.other(one.chunk)
            yield Text.assemble(
                (f"{tie.score:.2f}  ", "bold"), (printable(titles.get(other.document, other.document)), "cyan"),
                f"  {printable(other.heading)}  passage {other.position + 1:,}  ", (tie.why, "green"),
            )  # fmt: skip
