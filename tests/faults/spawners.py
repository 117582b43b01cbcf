"""Many who spawn at the same moment: processes with threads, each thread on a session of its own.

`python -m tests.faults.spawners URL THREADS` reads one line a round, what each of its threads is to commit, lets them
all go at once, and answers with a line when every one of them has.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from onceward import Status
from onceward.model.lineage import Spawns
from onceward.model.task import Commit, Finish, Lease
from onceward.model.times import StoreClock, SystemClock
from onceward.store.attempts import commits
from onceward.store.drivers.open import open_store
from tests.faults.fleet import begin
from tests.nursery import Process

PROCESSES, THREADS = 4, 16
PATIENCE_S = 60.0


class Wish(NamedTuple):
    """A task that is about to end, and the children it asks for."""

    lease: Lease
    spawns: Spawns


class Spawners:
    """Processes that are ready, round after round."""

    def __init__(self, url: str) -> None:
        command = ["python", "-m", "tests.faults.spawners", url, str(THREADS)]
        self._processes = [begin(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(PROCESSES)]
        for process in self._processes:
            assert _answer(process) == "ready"

    def __enter__(self) -> Spawners:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()

    def race(self, wishes: Sequence[Wish], now: int) -> None:
        """Have all of these committed at the same time, each in a transaction of its own."""
        assert len(wishes) <= PROCESSES * THREADS
        for number, process in enumerate(self._processes):
            assert process.stdin is not None
            mine = msgspec.json.encode((now, list(wishes[number::PROCESSES]))).decode()
            process.stdin.write(mine + "\n")
            process.stdin.flush()
        for number, process in enumerate(self._processes):
            assert json.loads(_answer(process)) == [True] * len(wishes[number::PROCESSES])


def _answer(process: Process) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def main(url: str, threads: int) -> None:
    """One such process."""
    store = open_store(url, StoreClock(SystemClock()))
    sessions = [store.session(patience_s=PATIENCE_S) for _ in range(threads)]
    print("ready", flush=True)
    for line in sys.stdin:
        now, wishes = msgspec.json.decode(line.encode(), type=tuple[int, list[Wish]])
        verdicts: list[object] = [None] * len(wishes)
        gate = threading.Barrier(len(wishes)) if wishes else None

        def commit(number: int, wishes=wishes, gate=gate, verdicts=verdicts, now=now) -> None:
            ending = Finish("first", None, Status.SUCCEEDED, None)
            one = Commit(wishes[number].lease, ending, (), wishes[number].spawns)
            gate.wait()
            try:
                [verdicts[number]] = sessions[number].transact(lambda: commits.commit([one], now))
            except Exception as error:
                verdicts[number] = f"{type(error).__name__}: {error}"

        running = [threading.Thread(target=commit, args=(number,)) for number in range(len(wishes))]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        print(json.dumps(verdicts), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
    os._exit(0)
