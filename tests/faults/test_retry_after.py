"""A source that asks to be left alone, for a moment or for longer, while two processes call it on twenty places."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from onceward import Status
from tests.faults.fleet import Fleet, wait_until
from tests.faults.heeding import AwaitedVisit, Visit, make_app

OTHERS_S = 0.1
"""How long after that other processes may still begin a call."""
RAISED_S = 0.02
"""How long an error may take from where it is noted to `ctx.call`, beside twenty busy threads."""
CLOCKS_S = 0.02
"""By how much two processes may read the clock of their database differently: half of what a message takes."""
TASKS = 4_000


class Noted(NamedTuple):
    at: float
    pid: int
    what: str
    seconds: float = 0.0


@pytest.fixture(params=["sqlite", "postgres"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    """A database, and worker processes that call."""
    url: str = request.getfixturevalue(f"migrated_{request.param}_url")
    with Fleet(url, tmp_path, make_app, "tests.faults.heeding") as made:
        yield made
        made.verified()


def noted(folder: Path) -> list[Noted]:
    """What the calls have noted, in order. Of the last line only a part may be there yet."""
    path = folder / "noted"
    text = path.read_text() if path.exists() else ""
    lines = text[: text.rfind("\n") + 1].splitlines()
    return [Noted(float(at), int(pid), what, *map(float, rest)) for at, pid, what, *rest in map(str.split, lines)]


@pytest.mark.alone
@pytest.mark.parametrize("sort", [Visit, AwaitedVisit])
def test_no_worker_calls_a_source_that_has_asked_to_be_left_alone(fleet: Fleet, sort: type[Visit]) -> None:
    settings = {"concurrency": 20, "threads": 20, "poll": "200ms"}
    workers = [fleet.start(settings=settings) for _ in range(2)]
    pids = {worker.pid for worker in workers}
    wait_until(lambda: pids <= set(fleet.living_pids()), "both are at work", fleet.said)
    fleet.enqueue(sort(number, str(fleet.folder)) for number in range(TASKS))
    wait_until(lambda: pids <= {one.pid for one in noted(fleet.folder)}, "both call", fleet.state)
    for asked, seconds in enumerate((0.3, 1.0, 3.0), start=1):
        # Whatever comes next is asked to wait: the first call of a task that has not begun.
        ahead = fleet.sql("SELECT max(id) FROM onceward_task WHERE status <> 0")[0][0]
        first = fleet.sql("SELECT min(id) FROM onceward_task")[0][0]
        (fleet.folder / f"asks-{ahead - first + 40}").write_text(str(seconds))
        heard = wait_until(
            lambda asked=asked: [one for one in noted(fleet.folder) if one.what == "heard"][asked - 1 :],  # type: ignore[misc]
            "it is heard", fleet.state,
        )[0]  # fmt: skip
        over_at = heard.at + seconds
        wait_until(lambda over_at=over_at: time.time() > over_at + 0.6, "time has passed", limit_s=seconds + 20)  # type: ignore[misc]
        began = [one for one in noted(fleet.folder) if one.what == "began" and one.at > heard.at]
        early = [one for one in began if one.at < over_at - 0.005]
        mine = [f"{one.at - heard.at:.3f}" for one in early if one.pid == heard.pid and one.at > heard.at + RAISED_S]
        others = [one for one in early if one.pid != heard.pid and one.at < over_at - CLOCKS_S]
        late = [f"{one.at - heard.at:.3f}" for one in others if one.at > heard.at + OTHERS_S]
        assert (mine, late) == ([], []), f"{seconds} s: {len(mine)} of its own process, {len(late)} of the other"
        after = [one for one in began if over_at + 0.1 < one.at < over_at + 0.6]
        assert len(after) > 20, f"{seconds} s: the pause was served longer than it was asked for"
    fleet.app.workers.pause()
    wait_until(lambda: not fleet.counts().get(Status.RUNNING), "all is still", fleet.state)
