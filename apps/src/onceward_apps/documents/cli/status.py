"""`onceward-docs status`: how the library, or one document, stands."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from cyclopts import Parameter
from rich.text import Text

from onceward import App
from onceward.terminal import console, print_json
from onceward_apps.documents import reads, watching
from onceward_apps.documents.app import opened
from onceward_apps.documents.choosing import chosen
from onceward_apps.documents.cli.documents_table import documents_table
from onceward_apps.documents.cli.speaking import OWN_LIBRARY, Where
from onceward_apps.documents.reads import Entry
from onceward_apps.documents.standing import is_trouble, standing, task_of
from onceward_apps.speaking import FINE, NOTHING_SAID, Output, table


def status(
    document: Annotated[
        str | None, Parameter(name="DOC", help="A document: its id or the beginning of it, its path, or file name.")
    ] = None,
    /,
    *,
    where: Where = OWN_LIBRARY,
    output: Output = NOTHING_SAID,
) -> int:
    """See how the library stands, or one document: what is ready, what is worked on, what could not be read and why."""
    with opened(where.library) as app:
        entries = app.read(reads.entries, chosen(app, document) if document else None)
        told = [_told(app, entry) for entry in entries]
        numbers = {
            "refused connections": app.read(watching.refused_connections),
            "chunks deleted": sum(missing for missing, _ in app.read(watching.missing_chunks)),
            **{name: value for name, value in app.read(reads.counts).items() if name.startswith("provider")},
        }
    if output.json:
        print_json(told[0] if document else {"documents": told, "counts": numbers})
    elif document:
        _show_one(told[0])
    else:
        _show_all(told, numbers)
    return FINE


def _told(app: App, entry: Entry) -> dict[str, Any]:
    task = task_of(app, entry)
    word, why = standing(entry, task)
    progress = app.tasks.get(task.id).progress if task is not None and task.status.word == "running" else None
    about = msgspec.json.decode(entry.about) if entry.about else {}
    return {
        "document": entry.document,
        "name": entry.name,
        "path": entry.path,
        "state": word,
        "why": why,
        "progress": None
        if progress is None
        else {"done": progress.done, "total": progress.total, "note": progress.note},
        "trouble": is_trouble(entry, task),
        "generation": entry.generation,
        "words": entry.words,
        "chunks": entry.chunks,
        "connections": entry.connections,
        "extract_ms": entry.extract_ms,
        "headings": len(msgspec.json.decode(entry.outline)) if entry.outline else None,
        **{name: about.get(name) for name in ("format", "title", "creators", "language", "published", "warnings")},
    }


def _show_all(told: list[dict[str, Any]], numbers: dict[str, int]) -> None:
    screen = console()
    if not told:
        screen.print("the library is empty; fill it with: onceward-docs ingest PATHS")
        return
    screen.print(documents_table([{**one, "why": _why(one)} for one in told], "name"))
    screen.print(Text(", ".join(f"{name}: {value:,}" for name, value in numbers.items()), "dim"))


def _show_one(one: dict[str, Any]) -> None:
    lines = [
        (name.replace("_", " "), _why(one) if name == "why" else _spoken(value))
        for name, value in one.items()
        if value not in (None, "", [], False) and name != "progress"
    ]
    console().print(table(("", " "), lines, folded=(" ",)))


def _why(one: dict[str, Any]) -> str:
    progress = one["progress"]
    if progress is None:
        return str(one["why"])
    return f"{one['why']}, {progress['done']:,} of {progress['total'] or '?'}"


def _spoken(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)
