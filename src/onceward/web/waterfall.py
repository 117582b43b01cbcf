"""The stages of a task as bars over time: attempts as heads, stages as rows, all geometry in shares of the width.

Long times in which nothing ran are cut short, so that a stage of a second can be seen beside a wait of a day.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from onceward.views.attempts import Attempt, Came, StageRun, Wait
from onceward.views.details import TaskDetails
from onceward.web.words import span

CUT_WIDTH = 8.0
"""How much of the width, in per cent, a time takes in which nothing ran, and which is cut."""
MOST_CUTS = 5
WORTH_CUTTING = 0.6
"""A wait is cut if it is longer than this part of all that ran."""
SHORTEST_CUT_MS = 2_000
NARROWEST = 0.4
TICKS = 4
ROOM, ROOM_FOR_MS = 13, 18
"""How far from either end of the axis there is room for another time."""
FIRST_SHOWN, LAST_SHOWN = 2, 8
"""How many attempts are drawn of many: the first and the last ones."""
STEPS_MS = tuple(
    step * unit
    for unit, steps in ((1, (1, 2, 5, 10, 20, 50, 100, 200, 500)), (1_000, (1, 2, 5, 10, 20, 30)),
                        (60_000, (1, 2, 5, 10, 20, 30)), (3_600_000, (1, 2, 4, 6, 12, 24, 48, 168)))
    for step in steps
)  # fmt: skip
GLYPHS = {
    Came.FINISHED: "succeeded",
    Came.FAILED: "failed",
    Came.LOST: "retryable",
    Came.PUT_OFF: "waiting",
    Came.GIVEN_BACK: "pending",
    Came.CANCELLED: "cancelled",
    Came.RUNNING: "running",
    Came.WAITS: "waiting",
    Came.TO_COME: "pending",
}
BARS = {
    Came.FINISHED: "good",
    Came.FAILED: "bad",
    Came.LOST: "lost",
    Came.RUNNING: "run",
    Came.KEPT: "kept",
}
SAID = {
    Came.FINISHED: "finished",
    Came.FAILED: "failed",
    Came.LOST: "lost with its worker",
    Came.PUT_OFF: "put off",
    Came.GIVEN_BACK: "given back, it had not begun",
    Came.CANCELLED: "cancelled",
    Came.RUNNING: "runs",
    Came.KEPT: "kept, not run again",
    Came.WAITS: "waits",
    Came.TO_COME: "still to come",
    Came.ENDED: "ended the task",
}


class Bar(NamedTuple):
    """A stretch of time in a row, in per cent of the width."""

    x: str
    width: str


class Line(NamedTuple):
    """A time of waiting in a row; `cuts` are the places at which time was cut out of it."""

    parts: tuple[tuple[str, str], ...]
    is_retry: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One stage in one attempt."""

    stage: str
    glyph: str
    said: str
    style: str
    bar: Bar | None
    line: Line | None
    cuts: tuple[str, ...]
    time: str
    """How long it took or has waited; `kept`, or nothing known."""
    is_kept: bool


@dataclass(frozen=True, slots=True)
class Head:
    """One attempt, above its stages."""

    number: int
    run: int
    said: str
    time: str
    rows: tuple[Row, ...]


class Tick(NamedTuple):
    """A moment on the axis."""

    x: str
    word: str
    anchor: str
    gives_way: bool


@dataclass(frozen=True, slots=True)
class Waterfall:
    """All of it, for the template."""

    ticks: tuple[Tick, ...]
    cuts: tuple[str, ...]
    cut_for: str
    """For how long nothing happened where the axis is cut."""
    heads: tuple[Head, ...]
    left_out: int
    """How many attempts in the middle are not drawn."""
    kinds: frozenset[str]
    """The sorts of bars that occur, for the legend."""


class _Piece(NamedTuple):
    begin: int
    end: int
    x: float
    width: float
    is_cut: bool


class Scale:
    """From moments to shares of the width, with long idle times cut short."""

    def __init__(self, busy: Sequence[tuple[int, int]], begin: int, end: int) -> None:
        end = max(end, begin + 1)
        merged: list[tuple[int, int]] = []
        for first, last in sorted(busy):
            if merged and first <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
            else:
                merged.append((first, last))
        gaps = _gaps(merged, begin, end)
        total = sum(last - first for first, last in merged) or end - begin
        worth = [gap for gap in gaps if gap[1] - gap[0] > max(WORTH_CUTTING * total, SHORTEST_CUT_MS)]
        cut = sorted(sorted(worth, key=lambda gap: gap[0] - gap[1])[:MOST_CUTS]) if merged else []
        self.cut_ms = sum(last - first for first, last in cut)
        self.pieces = _pieces(cut, begin, end)

    def at(self, when: int) -> float:
        """Return where a moment lies, in per cent."""
        for piece in self.pieces:
            if when <= piece.end or piece is self.pieces[-1]:
                length = piece.end - piece.begin
                part = min(max(when - piece.begin, 0) / length, 1) if length else 0
                return piece.x + piece.width * part
        return 0.0

    def bar(self, begin: int, end: int) -> Bar:
        """Return a stretch of time; one that is very short can still be seen."""
        x = self.at(begin)
        width = max(self.at(end) - x, NARROWEST)
        return Bar(_percent(min(x, 100 - width)), _percent(width))

    def line(self, begin: int, end: int, *, is_retry: bool) -> tuple[Line, tuple[str, ...]]:
        """Return a time of waiting, broken where time is cut."""
        parts, cuts, at = [], [], begin
        for piece in self.pieces:
            if piece.is_cut and piece.begin < end and piece.end > begin:
                middle = piece.x + piece.width / 2
                if at < piece.end:
                    parts.append((self.at(at), middle - 1.2))
                cuts.append(_percent(middle))
                parts.append((middle + 1.2, min(self.at(end), piece.x + piece.width)))
                at = piece.end
        if at < end:
            parts.append((self.at(at), self.at(end)))
        drawn = tuple((_percent(first), _percent(last)) for first, last in parts if last - first > 0.2)
        return Line(drawn, is_retry), tuple(cuts)


def _gaps(merged: Sequence[tuple[int, int]], begin: int, end: int) -> list[tuple[int, int]]:
    edges = [begin, *(edge for one in merged for edge in one), end]
    return [(first, last) for first, last in zip(edges[::2], edges[1::2], strict=True) if last > first]


def _pieces(cut: Sequence[tuple[int, int]], begin: int, end: int) -> list[_Piece]:
    kept_ms = (end - begin) - sum(last - first for first, last in cut)
    room = 100 - CUT_WIDTH * len(cut)
    pieces: list[_Piece] = []
    x, at = 0.0, begin
    for first, last in [*cut, (end, end)]:
        if first > at:
            width = room * (first - at) / kept_ms
            pieces.append(_Piece(at, first, x, width, False))
            x += width
        if last > first:
            pieces.append(_Piece(first, last, x, CUT_WIDTH, True))
            x += CUT_WIDTH
        at = last
    return pieces


def waterfall(details: TaskDetails, now_ms: int) -> Waterfall | None:
    """Draw the attempts of a task; None if it was never attempted."""
    told = details.attempts
    if not told:
        return None
    drawn = told if len(told) <= FIRST_SHOWN + LAST_SHOWN else (*told[:FIRST_SHOWN], *told[-LAST_SHOWN:])
    is_open = not details.task.status.is_terminal
    moments = [_ms(at) for one in drawn for at in _moments(one) if at is not None]
    if not moments:
        return None
    begin, end = min(moments), now_ms if is_open else max(moments)
    busy = [
        (_ms(run.began_at), _ms(run.ended_at) if run.ended_at else end)
        for one in drawn
        for run in one.stages
        if run.began_at is not None and run.came not in (Came.KEPT, Came.WAITS, Came.TO_COME)
    ]
    scale = Scale(busy, begin, end)
    heads = [_head(one, scale, end, is_last=one is told[-1], details=details) for one in drawn]
    kinds = {row.style for head in heads for row in head.rows} | {
        "retry" if row.line.is_retry else "wait" for head in heads for row in head.rows if row.line
    }
    return Waterfall(
        _ticks(scale, begin, end, is_open=is_open),
        tuple(_percent(piece.x + piece.width / 2) for piece in scale.pieces if piece.is_cut),
        span(scale.cut_ms) if scale.cut_ms else "",
        tuple(heads),
        len(told) - len(drawn),
        frozenset(kinds - {""}),
    )


def _moments(one: Attempt) -> list[datetime | None]:
    return [one.claimed_at, *(at for run in one.stages for at in (run.began_at, run.ended_at, run.waited_until))]


def _head(one: Attempt, scale: Scale, end: int, *, is_last: bool, details: TaskDetails) -> Head:
    is_open = is_last and not details.task.status.is_terminal
    runs = list(one.stages)
    if is_open and runs:
        seen = [run.stage for run in runs]
        at = max((details.stages.index(name) for name in seen if name in details.stages), default=-1)
        runs += [StageRun(name, Came.TO_COME) for name in details.stages[at + 1 :]]
    rows = tuple(_row(run, scale, end, details, is_open=is_open) for run in runs)
    took = None
    if one.claimed_at is not None and (one.ended_at is not None or is_open):
        took = (_ms(one.ended_at) if one.ended_at is not None else end) - _ms(one.claimed_at)
    return Head(one.number, one.run, _told(one), span(took) if took is not None else "", rows)


def _row(run: StageRun, scale: Scale, end: int, details: TaskDetails, *, is_open: bool) -> Row:
    stage = run.stage or (details.stages[0] if details.stages else "its first stage")
    bar: Bar | None = None
    line: Line | None = None
    cuts: tuple[str, ...] = ()
    took: str = "–"
    if run.came is Came.KEPT and run.began_at is not None:
        bar, took = scale.bar(_ms(run.began_at), _ms(run.began_at)), "kept"
    elif run.began_at is not None and run.came not in (Came.WAITS, Came.TO_COME):
        first, last = _ms(run.began_at), end if run.ended_at is None else _ms(run.ended_at)
        bar, took = scale.bar(first, last), span(last - first)
    elif run.ended_at is not None:
        bar = scale.bar(_ms(run.ended_at), _ms(run.ended_at))
    waits_from = run.began_at if run.came is Came.WAITS else run.ended_at
    if run.wait is not None and waits_from is not None and (run.waited_until is not None or is_open):
        first, last = _ms(waits_from), end if run.waited_until is None else _ms(run.waited_until)
        line, cuts = scale.line(first, last, is_retry=run.wait is Wait.RETRY)
        took = span(last - first) if run.came is Came.WAITS else took
        line = line if line.parts else None
    glyph = GLYPHS.get(run.came, "")
    if run.came is Came.ENDED:
        glyph = details.task.status.word
    style = BARS.get(run.came, "off" if bar else "")
    return Row(stage, glyph, SAID[run.came], style, bar, line, cuts, took, run.came is Came.KEPT)


def _told(one: Attempt) -> str:
    """Say who made an attempt and what came of it."""
    who = one.worker or "a worker that is no longer known"
    outcome = one.outcome
    if outcome is None:
        return who
    stage, note = outcome.stage or "its first stage", outcome.note
    match outcome.came:
        case Came.RUNNING:
            what = f"runs {stage}"
        case Came.FINISHED:
            what = "all stages finished" if outcome.wait is None else f"{stage} finished, and it went back in line"
        case Came.FAILED:
            what = f"{stage} failed: {note}" if note else f"{stage} failed"
            if outcome.wait is Wait.RETRY and outcome.waited_until and outcome.ended_at:
                what += f"; tried again after {span(_ms(outcome.waited_until) - _ms(outcome.ended_at))}"
        case Came.LOST:
            what = f"{stage} was lost: {note}. Taken back, and no failure" if note else f"{stage} was lost"
        case Came.ENDED:
            what = f"{stage} ended it: {note}" if note else f"{stage} ended it"
        case _:
            what = f"{stage}: {SAID[outcome.came]}" + (f", {note}" if note else "")
    return f"{who} · {what}"


def _ticks(scale: Scale, begin: int, end: int, *, is_open: bool) -> tuple[Tick, ...]:
    kept = [piece for piece in scale.pieces if not piece.is_cut]
    length = sum(piece.end - piece.begin for piece in kept)
    step = next((step for step in STEPS_MS if length / step <= TICKS), STEPS_MS[-1])
    ticks = [Tick("0%", _clock(begin, step), "start", True)]
    room = ROOM_FOR_MS if step < 1_000 else ROOM
    cuts = [piece.x + piece.width / 2 for piece in scale.pieces if piece.is_cut]
    for piece in kept:
        at = (piece.begin // step + 1) * step
        while at < piece.end:
            x = scale.at(at)
            if room < x < 100 - room and all(abs(x - cut) > room / 2 for cut in cuts):
                ticks.append(Tick(_percent(x), _clock(at, step), "middle", True))
            at += step
    ticks.append(Tick("100%", "now" if is_open else _clock(end, step), "end", False))
    return tuple(ticks)


def _clock(at: int, step: int) -> str:
    when = datetime.fromtimestamp(at / 1_000, UTC)
    if step < 1_000:
        return f"{when:%H:%M:%S}.{when.microsecond // 1_000:03}"
    return f"{when:%H:%M:%S}" if step < 24 * 3_600_000 else f"{when:%m-%d %H:%M}"


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1_000)


def _percent(share: float) -> str:
    return f"{share:.2f}%"
