"""An app with schedules, and processes that fire them, on a clock that the test moves.

`python -m tests.faults.schedulers race URL` reads one line a round, the present, fires what is due then, and answers.
`python -m tests.faults.schedulers live URL FILE END STEP DEATH SEED` goes through simulated time as fast as it can, in
steps up to a length; where time has come to stands in the file. Within so many statements it is killed.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from onceward import App, Context, Cron, Payload, Pipeline
from onceward.model.times import instant
from onceward.store.drivers.session import Session
from onceward.store.op import Request, Rows
from onceward.worker.scheduler import fire_due
from tests.faults.work import DATABASE

MINUTE_MS = 60_000

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
FIXED = {
    "berlin two": (BERLIN, 2, 0),
    "berlin half past two": (BERLIN, 2, 30),
    "new york two": (NEW_YORK, 2, 0),
    "new york half past one": (NEW_YORK, 1, 30),
}
QUARTERS = "quarters"


class Chime(Payload, kind="chime"):
    name: str

    def key(self) -> str:
        return self.name


chime = Pipeline(Chime)


@chime.stage
def ring(ctx: Context[Chime]) -> None:
    """Done."""


def app_with_schedules(url: str, *, quarters: bool = True) -> App:
    """Four fixed times that the clock meets twice or not at all, and if wanted every quarter of an hour."""
    crons = [
        Cron(f"{minute} {hour} * * *", Chime(name), tz=tz, missed="all", name=name)
        for name, (tz, hour, minute) in FIXED.items()
    ]
    if quarters:
        crons.append(Cron("*/15 * * * *", Chime(QUARTERS), tz=BERLIN, missed="all", name=QUARTERS))
    return App(url, [chime], schedules=crons)


app = app_with_schedules(os.environ.get(DATABASE, "sqlite:///:memory:"))


def expected(start: int, end: int, *, quarters: bool = True) -> list[tuple[str, int]]:
    """Every due time after a start up to an end, with the name of its schedule; by the calendar, not by cron."""
    found = [(name, at) for name, fixed in FIXED.items() for at in _once_a_day(*fixed) if start < at <= end]
    if quarters:
        quarter = 15 * MINUTE_MS
        found += [(QUARTERS, at) for at in range((start // quarter + 1) * quarter, end + 1, quarter)]
    return sorted(found)


def _once_a_day(tz: str, hour: int, minute: int) -> Iterator[int]:
    zone = ZoneInfo(tz)
    for number in range(800):
        day = date(2025, 6, 1) + timedelta(days=number)
        shown = datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001 - what a clock on the wall shows
        while shown.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).replace(tzinfo=None) != shown:
            shown += timedelta(minutes=1)  # the clock jumps over it
        yield instant(shown.replace(tzinfo=zone))


def fired(app: App) -> list[tuple[str, int]]:
    """Every time that was fired, with the name of its schedule, by the tasks that are there."""
    return sorted(
        app.read(
            lambda connection: [
                (str(key), int(at))
                for key, at in connection.execute("SELECT key, scheduled_at FROM onceward_task").fetchall()
            ]
        )
    )


def _race(url: str) -> None:
    app = app_with_schedules(url)
    session = app._store.session(patience_s=30)
    session.opened()
    print("ready", flush=True)
    for line in sys.stdin:
        print(fire_due(session, app._schedules, int(line)).fired, flush=True)


def _live(url: str, file: Path, end: int, longest_step_ms: int, death_within: int, seed: int) -> None:
    dice = random.Random(seed)
    app = app_with_schedules(url)
    session = app._store.session(patience_s=30)
    _mortal(session, dice, death_within)
    while (now := int(file.read_text())) < end:
        fire_due(session, app._schedules, now)
        later = file.with_name(f"later-{os.getpid()}")
        later.write_text(str(min(end, now + dice.randrange(MINUTE_MS, longest_step_ms))))
        later.replace(file)
    while fire_due(session, app._schedules, end).fired:
        pass


def _mortal(session: Session, dice: random.Random, death_within: int) -> None:
    """Have the process of a session killed at one of its next statements, before or after it; a commit is one too."""
    run = session.run
    left = dice.randrange(1, death_within)
    is_late = dice.random() < 0.5

    def run_or_die(request: Request) -> Rows:
        nonlocal left
        left -= 1
        if left == 0 and not is_late:
            os.kill(os.getpid(), signal.SIGKILL)
        rows = run(request)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return rows

    session.run = run_or_die  # type: ignore[method-assign]


if __name__ == "__main__":
    if sys.argv[1] == "race":
        _race(sys.argv[2])
    else:
        _live(sys.argv[2], Path(sys.argv[3]), *map(int, sys.argv[4:]))
