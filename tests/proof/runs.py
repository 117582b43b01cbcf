"""The long runs so far: what each was made with, how far it came, what it counted. The page adds them up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from tests.proof.courses import courses_of
from tests.proof.tally import Tally


class Ran(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One long run, as it is kept from one to the next."""

    date: str
    commit: str
    minutes: int
    machine: str
    courses: tuple[str, ...]
    """Those that it has come to, by name."""
    failed: tuple[str, ...] = ()
    """The commands that did not pass."""
    tallies: tuple[Tally, ...] = ()


def earlier_runs(file: Path) -> list[Ran]:
    """All runs that a file tells of."""
    decode = msgspec.json.Decoder(Ran).decode
    return [decode(line) for line in file.read_bytes().splitlines()] if file.exists() else []


def keep_runs(file: Path, runs: Iterable[Ran]) -> None:
    """Write a file of runs anew."""
    file.write_bytes(b"".join(msgspec.json.encode(run) + b"\n" for run in runs))


def without_repeats(runs: Sequence[Ran]) -> list[Ran]:
    """The same runs; but what looks at all there is, the states of a model or a list of mistakes, counts only in the
    last of them: to look at the same once more adds nothing."""
    seen: set[tuple[str, str]] = set()
    told: list[Ran] = []
    for run in reversed(runs):
        kept = tuple(one for one in run.tallies if (one.fault, one.store) not in seen)
        seen |= {(one.fault, one.store) for one in run.tallies if one.states or one.caught}
        told.append(msgspec.structs.replace(run, tallies=kept))
    return told[::-1]


def never_run(names: Sequence[str], runs: Iterable[Ran]) -> list[str]:
    """Which courses no run has come to."""
    done = {course for run in runs for course in run.courses}
    return [name for name in names if name not in done]


def passed_since(command: str, later: Iterable[Ran]) -> str | None:
    """The commit of the last of these runs that has done, and passed, what has failed before; None if none has."""
    return next((run.commit for run in reversed(list(later)) if _passed(command, run)), None)


def _passed(command: str, run: Ran) -> bool:
    same = courses_of(command) & set(run.courses)
    return bool(same) and not any(courses_of(one) & same for one in run.failed)
