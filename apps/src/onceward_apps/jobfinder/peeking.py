"""A look into JSON of which nothing is sure: a value of the wanted sort, or None."""

from __future__ import annotations

from typing import Any


def at(value: Any, *path: str | int) -> Any:
    """What lies at a path, or None where it ends."""
    for key in path:
        if isinstance(key, str) and isinstance(value, dict):
            value = value.get(key)
        elif isinstance(key, int) and isinstance(value, list) and -len(value) <= key < len(value):
            value = value[key]
        else:
            return None
    return value


def text_at(value: Any, *path: str | int) -> str | None:
    """A text, trimmed, that is not empty; a number counts as its digits."""
    found = at(value, *path)
    if isinstance(found, int | float) and not isinstance(found, bool):
        found = str(found)
    return found.strip() or None if isinstance(found, str) else None


def flag_at(value: Any, *path: str | int) -> bool | None:
    """True or False."""
    found = at(value, *path)
    return found if isinstance(found, bool) else None


def number_at(value: Any, *path: str | int) -> int | None:
    """A whole number."""
    found = at(value, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def list_at(value: Any, *path: str | int) -> list[Any]:
    """A list; an empty one for anything else."""
    found = at(value, *path)
    return found if isinstance(found, list) else []


def texts_at(value: Any, *path: str | int) -> list[str]:
    """All texts in a list."""
    return [text for text in (text_at(entry) for entry in list_at(value, *path)) if text]


def joined(*parts: str | None, by: str = ", ") -> str | None:
    """The parts that are there, each once."""
    return by.join(dict.fromkeys(part for part in parts if part)) or None
