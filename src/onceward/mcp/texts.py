"""How answers to an assistant are written: short, bounded, and with stored text marked as data.

Keys, errors, reasons and payloads come from web pages, files and callers. In an answer they stand between `<stored>`
and `</stored>`, which no stored text can hold itself, so that an assistant can tell them from what this server says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

from onceward.harmless import one_line
from onceward.model.times import duration_text
from onceward.support.redaction import redacted

MOST_LISTED = 50
"""How many rows an answer holds at most."""
LONGEST_TEXT = 300
LONGEST_ANSWER = 12_000
"""How many letters an answer has at most."""

_PLAIN = re.compile(r"[\w ,./:=-]{1,120}", re.ASCII)
_MARK = re.compile(r"<(?=\s*/?\s*stored)", re.IGNORECASE)


def stored(text: object, most: int = LONGEST_TEXT) -> str:
    """Return a text from outside, marked as data, in one line, cut to a length and without secrets."""
    line = _MARK.sub("‹", redacted(one_line(str(text))))
    more = len(line) - most
    return f"<stored>{line if more <= 0 else f'{line[:most]}… ({more:,} more letters)'}</stored>"


def command(text: str) -> str:
    """Return a command for a person; one with names from outside in it is marked as data."""
    return text if _PLAIN.fullmatch(text) else stored(text)


def ago(at: datetime | None, now: datetime) -> str:
    """Return when something was, for a reader without a clock: `2026-11-19 04:10:07 UTC (3m ago)`."""
    if at is None:
        return "never"
    ms = round((now - at).total_seconds() * 1_000)
    far = f"in {_span(-ms)}" if ms < 0 else f"{_span(ms)} ago"
    return f"{at:%Y-%m-%d %H:%M:%S} UTC ({far})"


def _span(ms: int) -> str:
    return duration_text(round(ms, -3 if ms >= 10_000 else -2))


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: `1 task`, `1,284 tasks`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(lines: Iterable[str], total: int | None = None, *, more: str = "") -> list[str]:
    """Return the first lines of a list, and a line that says how many more there are and how to see them."""
    every = list(lines)
    shown = every[:MOST_LISTED]
    left = (len(every) if total is None else total) - len(shown)
    return [*shown, f"… and {left:,} more{f'; {more}' if more else ''}"] if left > 0 else shown


def bounded(answer: str) -> str:
    """Return an answer cut to the length that a model has room for; a mark that was cut in two is closed."""
    if len(answer) <= LONGEST_ANSWER:
        return answer
    cut = answer[:LONGEST_ANSWER].rpartition("\n")[0]
    closing = "</stored>" if cut.count("<stored>") > cut.count("</stored>") else ""
    return f"{cut}{closing}\n… cut: the answer was {len(answer):,} letters long; ask for less"
