"""What a handler returns: a page to show, an action that was carried out, or a response as it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Page:
    """A template and what it shows."""

    template: str
    values: dict[str, Any] = field(default_factory=dict)
    title: str = ""
    here: str = ""
    """Which entry of the navigation is the page's own: `tasks`."""
    status: int = 200
    refresh_s: int | None = 5
    """How often a page that is looked at may be drawn anew while its database changes; None: never by itself."""


@dataclass(frozen=True, slots=True)
class Done:
    """An action that was carried out: what the page says of it, and where the browser goes next."""

    said: str
    back: str
    """The path of a page, below the base path."""
    count: int = 1
    """How many tasks, sources, … it concerned, for the audit log."""
    command: str = ""
    """The command that does the same."""
    stays: bool = False
    """Whether what is said stays until it is closed, because something could not be done."""


@dataclass(frozen=True, slots=True)
class Refused:
    """An action that was not carried out, and why; nothing has changed."""

    why: str
    back: str
