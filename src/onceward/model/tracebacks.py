"""Tracebacks as they are kept with an attempt: bounded, without secrets, and without the engine's own frames."""

from __future__ import annotations

import os
from pathlib import Path
from traceback import FrameSummary, StackSummary, TracebackException

from onceward.support.redaction import redacted

LONGEST_TRACE = 8_000
"""How many characters of a traceback are kept: a quarter from its beginning, the rest from its end."""
_ENGINE = f"{Path(__file__).parent.parent}/"
_STANDARD = tuple(f"{Path(os.__file__).parent}/{name}" for name in ("asyncio", "concurrent", "contextlib", "threading"))
"""What stands between frames of the engine and belongs to them: how it waits for threads and event loops."""


class _Folded(StackSummary):
    """Frames in which those of the engine are one line."""

    def format_frame_summary(self, frame_summary: FrameSummary, **options: bool) -> str:
        if frame_summary.filename != _ENGINE:
            return super().format_frame_summary(frame_summary, **options)
        count = frame_summary.lineno or 0
        return f"  … {count} frame{'s' if count > 1 else ''} of onceward\n"


def trace_of(error: BaseException) -> str | None:
    """The traceback of an error as a text; None if no frame of it belongs to the application."""
    try:
        found = TracebackException.from_exception(error)
        if not _fold(found, set()):
            return None
        text = redacted("".join(found.format()).rstrip())
    except Exception:  # an error that cannot be shown must not keep its task from being judged
        return None
    held = text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
    if len(held) <= LONGEST_TRACE:
        return held
    first = LONGEST_TRACE // 4
    return f"{held[:first]}\n  …\n{held[first - LONGEST_TRACE :]}"


def _fold(found: TracebackException, seen: set[int]) -> bool:
    """Fold the engine's frames in an error and in those that it came from; whether any others are left."""
    if id(found) in seen:
        return False
    seen.add(id(found))
    frames: list[FrameSummary] = []
    between: list[FrameSummary] = []
    for frame in found.stack:
        if frame.filename.startswith(_STANDARD) and frames and frames[-1].filename == _ENGINE:
            between.append(frame)  # what the engine waits with, if it comes back to the engine
        elif not frame.filename.startswith(_ENGINE):
            frames += [*between, frame]
            between = []
        elif frames and frames[-1].filename == _ENGINE:
            count = (frames[-1].lineno or 0) + len(between) + 1
            frames[-1] = FrameSummary(_ENGINE, count, "", lookup_line=False)
            between = []
        elif frames:  # what stands before the stage is how every stage is called
            frames.append(FrameSummary(_ENGINE, 1, "", lookup_line=False))
    found.stack = _Folded(frames + between)
    below = [found.__cause__, found.__context__, *(found.exceptions or ())]
    others = [_fold(one, seen) for one in below if one is not None]
    return bool(frames) or any(others)
