"""How a fault test on PostgreSQL comes to its end: the work is finished, judged and counted."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from onceward import Event
from tests.faults.fleet import Fleet, Worker, wait_until
from tests.faults.work import STAGES
from tests.proof.tally import Tally


def judge(
    fleet: Fleet,
    workers: Sequence[Worker],
    ids: Sequence[int],
    *,
    matrix: str,
    fault: str,
    faults: int,
    recovery_s: Sequence[float] = (),
) -> Tally:
    """Let the workers finish, stop them, look at what they have done, and keep the counts."""
    fleet.app.close()  # its connection may be as dead as theirs
    wait_until(lambda: fleet.ended() == len(ids), "every task has ended", fleet.state, limit_s=60 + len(ids) / 20)
    for worker in workers:
        worker.send(signal.SIGTERM)
    assert {worker.end() for worker in workers} == {0}, fleet.state()
    fleet.all_succeeded(ids)
    fleet.exactly_once((task, stage) for task in ids for stage in STAGES)
    fleet.verified()
    tally = Tally(
        matrix=matrix,
        fault=fault,
        store="postgres",
        faults=faults,
        accepted=len(ids),
        commits=len(ids) * len(STAGES),
        refused=fleet.events(Event.LOST),
        reconciled=sum(worker.summary()["unknown_commits"] for worker in workers),
        recovery_s=[round(second, 3) for second in recovery_s],
    )
    tally.keep()
    return tally
