"""Many processes spend from one budget and are killed on the way: by the provider's own ledger it is never passed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from onceward import App, Status
from onceward.store.drivers.session import Session
from onceward.store.governance.budget_waits import sweep_budgets
from onceward.store.governance.budgets import set_aside
from tests.faults.counting import keep, recovered_s
from tests.faults.fleet import begin, wait_until
from tests.faults.spenders import (
    DEAREST,
    LIMIT,
    PROVIDER,
    Alone,
    Ledger,
    Order,
    Question,
    alone_app,
    provider,
    spending_app,
)
from tests.faults.work import DATABASE
from tests.nursery import Process
from tests.proof.tally import SEED


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """A new database."""
    found: str = request.getfixturevalue(f"migrated_{request.param}_url")
    return found


def test_a_few_processes_never_spend_more_than_their_budget(url: str, tmp_path: Path) -> None:
    spend(url, tmp_path, limit="0.60", tasks=45, processes=4, kills=4)


@pytest.mark.torture
def test_16_processes_never_spend_more_than_five_usd(url: str, tmp_path: Path) -> None:
    spend(url, tmp_path, limit="5.00", tasks=400, processes=16, kills=60)


def spend(url: str, folder: Path, *, limit: str, tasks: int, processes: int, kills: int) -> None:
    """Kill workers at random until the budget is spent and enough of them are dead; then raise it."""
    ledger = Ledger(folder / "ledger.txt")
    dice = random.Random(SEED * kills)
    with provider(ledger) as where, spending_app(url, limit) as app:
        app.prepare()
        app.enqueue_many([Question(number) for number in range(tasks)])
        workers = Workers(url, where, limit, folder)
        try:
            workers.fill(processes)
            for _ in range(kills):
                time.sleep(min(0.6, dice.expovariate(1 / 0.2)))
                workers.kill_one(dice)
                workers.fill(processes)
            wait_until(lambda: is_spent(app), "the budget is spent", lambda: said(app, folder), limit_s=120)
            within(ledger, app, Decimal(limit))
            assert ledger.total() > Decimal(limit) / 3, "hardly anything was spent"
            app.budgets.set_limit("usd", 1_000)
            for _ in range(kills // 10):
                time.sleep(min(0.6, dice.expovariate(1 / 0.2)))
                workers.kill_one(dice)
                workers.fill(processes)
            wait_until(lambda: has_finished(app, tasks), "all have finished", lambda: said(app, folder), limit_s=180)
        finally:
            workers.end()
        wait_until(lambda: settled(app), "what was lost is settled")
        assert ledger.total() <= app.budgets.list()[0].spent
        within(ledger, app, Decimal(1_000))
        fault = "worker killed while it spends from a budget"
        keep(app, "F52", fault, faults=len(workers.killed), recovery_s=recovered_s(app, workers.killed))


def test_what_tasks_hold_over_kills_is_never_more_than_their_budget(url: str, tmp_path: Path) -> None:
    hold(url, tmp_path, limit="0.60", tasks=12, processes=3, kills=4)


@pytest.mark.torture
def test_16_processes_never_hold_more_than_five_usd(url: str, tmp_path: Path) -> None:
    hold(url, tmp_path, limit="5.00", tasks=300, processes=16, kills=60)


def hold(url: str, folder: Path, *, limit: str, tasks: int, processes: int, kills: int) -> None:
    """Kill workers whose tasks hold money while a provider works; then raise the budget, and let them finish."""
    ledger = Ledger(folder / "ledger.txt")
    dice = random.Random(SEED * kills)
    with provider(ledger) as where, spending_app(url, limit) as app:
        app.prepare()
        app.enqueue_many([Order(number) for number in range(tasks)])
        workers = Workers(url, where, limit, folder)
        try:
            workers.fill(processes)
            for _ in range(kills):
                time.sleep(min(0.6, dice.expovariate(1 / 0.2)))
                workers.kill_one(dice)
                workers.fill(processes)
                within(ledger, app, Decimal(limit))
            wait_until(lambda: is_at_rest(app), "all wait or have ended", lambda: said(app, folder), limit_s=120)
            within(ledger, app, Decimal(limit))
            app.budgets.set_limit("usd", 1_000)
            wait_until(lambda: has_finished(app, tasks), "all have finished", lambda: said(app, folder), limit_s=180)
        finally:
            workers.end()
        wait_until(lambda: settled(app), "what was lost is settled")
        assert ledger.total() <= app.budgets.list("usd")[0].spent
        within(ledger, app, Decimal(1_000))
        fault = "worker killed while its tasks hold money beyond their stages"
        keep(app, "F52", fault, faults=len(workers.killed), recovery_s=recovered_s(app, workers.killed))


def is_at_rest(app: App) -> bool:
    """Whether nothing can be begun: whatever has not ended waits for the budget."""
    counts = app.stats.counts()
    return not counts[Status.PENDING] + counts[Status.RUNNING] + counts[Status.RETRYABLE]


def is_spent(app: App) -> bool:
    """Whether nothing more can be begun: not even one more call fits, or all that is left has ended."""
    [status] = app.budgets.list()
    counts = app.stats.counts()
    busy = counts[Status.PENDING] + counts[Status.RUNNING] + counts[Status.RETRYABLE]
    return status.left < DEAREST and status.reserved == 0 and not busy


def has_finished(app: App, tasks: int) -> bool:
    """Whether all have."""
    return app.stats.counts()[Status.SUCCEEDED] == tasks


def settled(app: App) -> bool:
    """Settle what killed workers have left behind, as any worker would."""
    with app._lock:
        sweep_budgets(app._session(), app._store.clock.now())
    return app.budgets.list()[0].reserved == 0


def within(ledger: Ledger, app: App, limit: Decimal) -> None:
    """Neither the provider nor the budget has counted more than the limit, and every promise holds."""
    assert ledger.total() <= limit
    [status] = app.budgets.list()
    assert status.spent + status.reserved <= limit
    report = app.verify()
    assert report.ok, [breach.sentence for check in report.checks for breach in check.breaches]


def said(app: App, folder: Path) -> str:
    printed = "\n".join(path.read_text(errors="replace")[-800:] for path in sorted(folder.glob("worker-*.log"))[-6:])
    return f"{app.stats.counts()}\n{app.budgets.list()}\n{printed}"


class Workers:
    """Worker processes of their own, some of which are killed."""

    def __init__(self, url: str, where: str, limit: str, folder: Path) -> None:
        self._variables = {DATABASE: url, PROVIDER: where, LIMIT: limit}
        self._folder = folder
        self._running: list[Process] = []
        self._started = 0
        self.killed: dict[int, float] = {}

    def fill(self, many: int) -> None:
        """Have so many of them at work."""
        while len(self._running) < many:
            self._started += 1
            with (self._folder / f"worker-{self._started}.log").open("wb") as output:
                command = ["python", "-m", "tests.faults.spenders"]
                self._running.append(begin(command, self._variables, stdout=output, stderr=subprocess.STDOUT))

    def kill_one(self, dice: random.Random) -> None:
        """One of them is gone, in the middle of whatever it does."""
        victim = self._running.pop(dice.randrange(len(self._running)))
        self.killed[victim.pid] = time.time()
        os.kill(victim.pid, signal.SIGKILL)
        victim.wait()

    def end(self) -> None:
        """All of them end in good order, or else at once."""
        for process in self._running:
            process.send_signal(signal.SIGTERM)
        for process in self._running:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


# In processes of their own


@pytest.mark.parametrize(("fate", "spent"), [("fine", "0.3"), ("error", "0.3"), ("death", "1")])
def test_what_a_stage_in_a_process_of_its_own_charges_is_spent(url: str, fate: str, spent: str) -> None:
    with alone_app.on(url) as app:
        app.enqueue(Alone(fate))
        assert begin(["python", "-m", "tests.faults.spenders", "alone"], {DATABASE: url}).wait(60) == 0
        [status] = app.budgets.list()
        assert (status.spent, status.reserved) == (Decimal(spent), 0)
        assert app.verify().ok
        if fate != "fine":
            keep(app, "F52", f"stage in a process of its own spends and ends by {fate}", faults=1)


def test_a_stage_in_a_process_of_its_own_holds_and_settles(url: str) -> None:
    with alone_app.on(url) as app:
        held, waiting = app.enqueue(Alone("hold")), app.enqueue(Alone("too much"))
        assert begin(["python", "-m", "tests.faults.spenders", "alone"], {DATABASE: url}).wait(60) == 0
        assert app.tasks.get(held.id).status is Status.SUCCEEDED
        assert app.tasks.get(waiting.id).waiting_for == "budget:alone-usd"
        [status] = app.budgets.list()
        assert (status.spent, status.reserved) == (Decimal(5), 0)
        assert app.verify().ok


# Claims that race


@pytest.fixture
def sessions(url: str) -> Iterator[Callable[[], Session]]:
    """Makes sessions on the database of a test."""
    made: list[Session] = []
    with spending_app(url, "1.00") as app:
        app.prepare()

        def new() -> Session:
            made.append(app._store.session(patience_s=30))
            return made[-1]

        yield new
        for session in made:
            session.close()


@pytest.mark.both
def test_claims_that_race_set_aside_no_more_than_there_is(url: str, sessions: Callable[[], Session]) -> None:
    with spending_app(url, "1.00") as app:
        ids = [one.id for one in app.enqueue_many([Question(number) for number in range(64)])]
        held: list[int] = []
        begin = threading.Barrier(8)

        def claim(session: Session, mine: list[int]) -> None:
            begin.wait()
            for task in mine:
                now = app._store.clock.now()
                decided = session.transact(lambda: set_aside([task], app._registry.budgets_of, now, now, waits=True))  # noqa: B023
                held.extend(decided.held)

        threads = [threading.Thread(target=claim, args=(sessions(), ids[place::8])) for place in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(held) == 20
        assert app.stats.counts()[Status.WAITING] == 44
        [(reserved,)] = app.read(
            lambda connection: connection.execute("SELECT reserved FROM onceward_budget").fetchall()
        )
        assert reserved == 1_000_000_000
        keep(app, "F52", "eight claims race one budget", faults=len(ids) // 8)
