"""What may stand at a place in a filter of tasks: for the field of a page, and for a shell. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from onceward.model.task_filter import FIELDS, PAYLOAD, STATUS_WORDS, quoted

MOST = 20
_WORD = re.compile(r'(?:[^\s"]|"(?:[^"\\]|\\.)*(?:"|$))*$')
_PARTS = re.compile(r"(-?)([A-Za-z_][\w.\-]*)(<=|>=|[:~<>])(.*)", re.DOTALL)


class Completion(NamedTuple):
    """A text that may stand at a place of a filter."""

    text: str
    """What to put there."""
    start: int
    end: int
    """Which characters of the filter it replaces."""
    about: str
    """What it means."""


def complete(text: str, position: int, known: Mapping[str, Sequence[str]]) -> list[Completion]:
    """Return what may be written at a position: names of fields, then values.

    `known` has values of fields that only the app or the database knows, as `{"kind": ["page", "note"]}`.
    """
    place = max(0, min(position, len(text)))
    word = _WORD.search(text, 0, place)
    start = place if word is None else word.start()
    written = text[start:place]
    parts = _PARTS.fullmatch(written)
    if parts is None:
        return _fields(written, start, place)
    name, value = parts[2].lower(), parts[4]
    begun = value.rpartition(",")[2]
    values = STATUS_WORDS if name == "status" else ("yes", "no") if name == "paused" else known.get(name, ())
    sought = begun.lstrip('"').casefold()
    first = [one for one in values if one.casefold().startswith(sought)]
    within = [one for one in values if sought in one.casefold() and one not in first]
    about = FIELDS[name].about if name in FIELDS else ""
    return [Completion(quoted(one), place - len(begun), place, about) for one in [*first, *within][:MOST]]


def _fields(written: str, start: int, place: int) -> list[Completion]:
    sign, name = written[: written.startswith("-")], written.removeprefix("-").lower()
    return [
        Completion(
            f"{sign}payload." if field == PAYLOAD else f"{sign}{field}{known.operators[0]}",
            start,
            place,
            f"{known.about}: {known.example}",
        )
        for field, known in FIELDS.items()
        if field.startswith(name)
    ][:MOST]
