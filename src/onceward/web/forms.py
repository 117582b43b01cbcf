"""What forms of the pages bring: where to go back to, numbers that may be left out, and counts that were typed."""

from __future__ import annotations

from onceward.errors import ConfigError
from onceward.web.answers import Refused

LONGEST_BACK = 6_000


def back_of(form: dict[str, str], otherwise: str) -> str:
    """Return the page of this site from which a form came, with its question; never an address elsewhere."""
    back = form.get("back", "")
    if not back.startswith("/") or back.startswith(("//", "/\\")) or len(back) > LONGEST_BACK:
        return otherwise
    return back


def number_of(form: dict[str, str], name: str) -> int | None:
    """Return a field as a whole number; None where it was left empty."""
    text = form.get(name, "").strip().replace(",", "").replace("_", "")
    if not text:
        return None
    if not text.isdecimal() or len(text) > 15:
        raise ConfigError(f"{name}={text[:40]!r}: it is a whole number")
    return int(text)


def miscounted(form: dict[str, str], count: int, what: str, back: str) -> Refused | None:
    """Refuse an action on many whose number was not typed, or has grown since the page was drawn."""
    typed = number_of(form, "typed")
    if typed is None:
        return Refused(f"Type how many {what} there are to go on.", back)
    if typed < count:
        return Refused(f"There are {count:,} {what} now, not {typed:,}. Nothing was done; look again.", back)
    if not count:
        return Refused(f"There are no {what} any more. Nothing was done.", back)
    return None
