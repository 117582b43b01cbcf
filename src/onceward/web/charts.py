"""The last hour as stacked bars, one for each minute: geometry for an SVG that the server draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from onceward.model.hour import Minute


class Size(NamedTuple):
    """The room that a chart has, in its own units."""

    width: float
    height: float
    left: float
    """Where the bars begin: before them stand the numbers of the axis."""
    bottom: float
    minutes: int
    words_every: int
    """After how many minutes the axis has a time."""


LARGE = Size(880, 262, 40, 240, 60, 15)
SMALL = Size(358, 190, 32, 170, 30, 10)
TOP = 22.5


class Rect(NamedTuple):
    """A part of a bar."""

    style: str
    y: str
    height: str


class Bar(NamedTuple):
    """One minute."""

    x: str
    width: str
    said: str
    parts: tuple[Rect, ...]


class Word(NamedTuple):
    """A text beside an axis."""

    at: str
    text: str
    anchor: str = "middle"


@dataclass(frozen=True, slots=True)
class Chart:
    """All of it, for the template."""

    size: Size
    bars: tuple[Bar, ...]
    lines: tuple[Word, ...]
    """Where a line runs across, and its number; the lowest is the axis."""
    words: tuple[Word, ...]
    said: str
    """The same in a sentence."""


def hour_chart(minutes: Sequence[Minute], size: Size) -> Chart:
    """Draw how tasks have ended, minute by minute."""
    shown = minutes[-size.minutes :]
    most = max((_total(one) for one in shown), default=0)
    step = _step(most)
    top = max(step * -(-most // step), step)
    scale = (size.bottom - TOP) / top
    slot = (size.width - size.left) / max(len(shown), 1)
    bars = tuple(_bar(one, size.left + place * slot, slot, size.bottom, scale) for place, one in enumerate(shown))
    lines = tuple(Word(f"{size.bottom - count * scale:.1f}", f"{count:,}", "end") for count in range(0, top + 1, step))
    words = [
        Word(f"{size.left + place * slot:.1f}", f"{one.at:%H:%M}", "start" if not place else "middle")
        for place, one in enumerate(shown)
        if place % size.words_every == 0
    ]
    words.append(Word(f"{size.width:g}", "now", "end"))
    ended, failed = sum(map(_total, shown)), sum(one.failed for one in shown)
    said = f"Tasks that ended in the last {len(shown)} minutes, by minute: {ended:,} in all, {failed:,} of them failed"
    return Chart(size, bars, lines, tuple(words), said)


def _total(one: Minute) -> int:
    return one.succeeded + one.left_out + one.cancelled + one.failed


def _step(most: int) -> int:
    """Return the distance of the lines: 1, 2 or 5 times a power of ten, three to five of them."""
    power = 1
    while True:
        for factor in (1, 2, 5):
            if most <= 4 * factor * power:
                return factor * power
        power *= 10


def _bar(one: Minute, x: float, slot: float, bottom: float, scale: float) -> Bar:
    parts: list[Rect] = []
    y = bottom
    for style, count in (("good", one.succeeded), ("off", one.left_out + one.cancelled), ("bad", one.failed)):
        if not count:
            continue
        gap = 0.8 if parts else 0
        height = max(count * scale - gap, 1.6)
        y -= height + gap
        parts.append(Rect(style, f"{y:.1f}", f"{height:.1f}"))
    said = (
        f"{one.at:%H:%M}: {one.succeeded:,} succeeded, {one.left_out:,} filtered or skipped, {one.failed:,} failed"
        + (f", {one.cancelled:,} cancelled" if one.cancelled else "")
    )
    return Bar(f"{x + slot * 0.1:.1f}", f"{slot * 0.8:.1f}", said, tuple(parts))
