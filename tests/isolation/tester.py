"""Every order in which sessions can send their statements: one after the other, and all orders in turn.

Sessions run the engine's own transactions in threads of their own, and stop before each statement until it is their
turn. A session that has to wait for another one is seen to wait, on PostgreSQL by asking the server, on SQLite by its
busy handler; others go on meanwhile. Where all wait for each other the database has to end the circle.

What was chosen in one order is known by its choices alone, so the next order is found by changing the last one of them
that can be changed, and beginning again on an empty database.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from onceward.model.times import StoreClock
from onceward.store.drivers.postgres import PostgresSession
from onceward.store.drivers.session import Session
from onceward.store.drivers.sqlite import SqliteSession
from onceward.store.op import Call, Request, Rows
from onceward.testing import FakeClock

LONGEST_STEP_S = 20.0
UNASKED_S = 0.002
"""How long a statement may take before the server is asked whether it waits for somebody."""
DEADLOCK_MS = 20

Work = Callable[[Session], Any]
"""What a session does."""


class Stuck(AssertionError):
    """A statement has not come back, and waits for nobody."""


class Actor:
    """A thread that does something on a session, one statement at a time, when it is told to."""

    def __init__(self, name: str, work: Work, session: Stepped) -> None:
        self.name = name
        self.session = session
        self.outcome: Any = None
        """What the work has returned or raised."""
        self.is_done = self.is_waiting = False
        self.steps: list[str] = []
        self._work = work
        self._at_rest = threading.Semaphore(0)
        self._go = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        session.actor = self
        self._thread.start()
        self.come_to_rest()

    def _run(self) -> None:
        try:
            self.outcome = self._work(self.session)
        except Exception as error:  # what comes of it is for the test to judge
            self.outcome = error
        finally:
            self.is_done = True
            self._at_rest.release()

    # In the thread of the actor

    def stop_before(self, step: str) -> None:
        """Wait here until it is our turn."""
        self._at_rest.release()
        self._go.acquire()
        self.steps.append(step)

    def wait_for_others(self) -> None:
        """The database is locked: wait until somebody else has gone on."""
        self.is_waiting = True
        self._at_rest.release()
        self._go.acquire()
        self.is_waiting = False

    # In the thread of the conductor

    def step(self) -> None:
        """Let it go on until it comes to rest: before its next statement, at its end, or behind somebody else."""
        self._go.release()
        self.come_to_rest()

    def come_to_rest(self) -> None:
        """Wait for that."""
        deadline = time.monotonic() + LONGEST_STEP_S
        while not self._at_rest.acquire(timeout=UNASKED_S):
            if self.session.is_seen_waiting():
                self.is_waiting = True
                return
            if time.monotonic() > deadline:
                raise Stuck(f"{self.name} does not come back from {self.steps[-1:]}")
        if not isinstance(self.session, SteppedSqlite):
            self.is_waiting = False

    def look_again(self) -> None:
        """Somebody else has gone on: whether it still waits."""
        if isinstance(self.session, SteppedSqlite):
            self.step()
        else:
            self.come_to_rest()

    def end(self) -> None:
        """Let it run to its end, whatever happens."""
        while not self.is_done:
            self._go.release()
            self._at_rest.acquire(timeout=0.01)
        self._thread.join()


class Stepped(Session):
    """A session that stops before every statement, once it belongs to an actor."""

    actor: Actor | None = None
    _is_inside = False

    def run(self, request: Request) -> Rows:
        self._stop("call" if isinstance(request, Call) else request.name)
        return super().run(request)  # type: ignore[safe-super]

    def begin_with_receipt(self, token: bytes, before: bytes | None) -> None:
        self._stop("begin")
        self._whole(lambda: super(Stepped, self).begin_with_receipt(token, before))

    def commit(self) -> None:
        self._stop("commit")
        self._whole(super().commit)

    def _stop(self, step: str) -> None:
        if self.actor is not None and not self._is_inside:
            self.actor.stop_before(step)

    def _whole(self, work: Callable[[], None]) -> None:
        self._is_inside = True
        try:
            work()
        finally:
            self._is_inside = False

    def is_seen_waiting(self) -> bool:
        """Whether the statement under way waits for another session."""
        return False


class SteppedSqlite(Stepped, SqliteSession):
    """SQLite says by its busy handler that somebody else writes."""

    def _wait_politely(self, tries: int) -> bool:
        if self.actor is None:
            return super()._wait_politely(tries)
        self.actor.wait_for_others()
        return True


class SteppedPostgres(Stepped, PostgresSession):
    """PostgreSQL is asked, on a connection beside, for whom a session waits."""

    def __init__(self, url: str, clock: StoreClock, beside: psycopg.Connection[Any]) -> None:
        super().__init__(url, clock, _notice_deadlocks, patience_s=10)
        self._beside = beside
        self.pid = 0

    def opened(self) -> psycopg.Connection[Any]:
        connection = super().opened()
        self.pid = connection.info.backend_pid
        return connection

    def is_seen_waiting(self) -> bool:
        [found] = self._beside.execute("SELECT pg_blocking_pids(%s) <> '{}'", (self.pid,), prepare=True).fetchall()
        return bool(found[0])


def _notice_deadlocks(connection: psycopg.Connection[Any]) -> None:
    connection.execute(f"SET deadlock_timeout = '{DEADLOCK_MS}ms'")


def stepped(url: str, now: int, beside: psycopg.Connection[Any] | None) -> Stepped:
    """A new session that can be stopped, opened."""
    clock = StoreClock(FakeClock(now))
    session: Stepped
    if beside is None:
        session = SteppedSqlite(url.removeprefix("sqlite:///"), clock, patience_s=10)
    else:
        session = SteppedPostgres(url, clock, beside)
    session.opened()
    return session


@dataclass
class Choice:
    """Who went on, of those that could: first the one who went before, if it could."""

    options: Sequence[str]
    chosen: int
    is_free: bool
    """Whether the one who went before could not go on."""

    @property
    def switches(self) -> bool:
        """Whether somebody who could have gone on was left for another."""
        return self.chosen > 0 and not self.is_free


@dataclass
class Order:
    """One order of statements, and what came of it."""

    choices: list[Choice] = field(default_factory=list)
    outcomes: dict[str, Any] = field(default_factory=dict)
    waits: int = 0
    """How often a session had to wait for another."""
    circles: int = 0
    """How often all waited for each other."""
    steps: list[str] = field(default_factory=list)
    faster: str = ""
    """Who was, as the test has found."""

    def __str__(self) -> str:
        return " ".join(self.steps)


def play(works: Mapping[str, Work], open_session: Callable[[], Stepped], wanted: Sequence[int]) -> Order:
    """Run some sessions beside each other: by the wanted choices first, then each as long as it can."""
    actors = {name: Actor(name, work, open_session()) for name, work in works.items()}
    order = Order()
    last = ""
    try:
        while any(not actor.is_done for actor in actors.values()):
            able = [name for name, actor in actors.items() if not actor.is_done and not actor.is_waiting]
            if not able:
                order.circles += 1
                _wait_for_the_database(list(actors.values()))
                continue
            options = sorted(able, key=lambda name: name != last)
            place = len(order.choices)
            chosen = min(wanted[place], len(options) - 1) if place < len(wanted) else 0
            order.choices.append(Choice(options, chosen, is_free=last not in able))
            last = options[chosen]
            actors[last].step()
            order.waits += actors[last].is_waiting
            order.steps.append(f"{last}:{(actors[last].steps or ['end'])[-1]}{'…' if actors[last].is_waiting else ''}")
            for name, actor in actors.items():
                if name != last and actor.is_waiting:
                    actor.look_again()
    finally:
        for actor in actors.values():
            actor.end()
            actor.session.close()
    order.outcomes = {name: actor.outcome for name, actor in actors.items()}
    return order


def _wait_for_the_database(actors: Sequence[Actor]) -> None:
    """All wait for each other: until the database has ended one of them."""
    deadline = time.monotonic() + LONGEST_STEP_S
    while all(actor.is_done or actor.is_waiting for actor in actors):
        time.sleep(DEADLOCK_MS / 4_000)
        for actor in actors:
            if actor.is_waiting:
                actor.look_again()
        if time.monotonic() > deadline:
            raise Stuck("all wait for each other, and the database lets them")


def following(order: Order, most_switches: int) -> list[int] | None:
    """The choices of the next order, or None if that was the last: the last choice that can be another one is."""
    choices = order.choices
    for place in reversed(range(len(choices))):
        choice = choices[place]
        switched = sum(one.switches for one in choices[:place]) + (not choice.is_free)
        if choice.chosen + 1 < len(choice.options) and switched <= most_switches:
            return [*(one.chosen for one in choices[:place]), choice.chosen + 1]
    return None


def every_order(run: Callable[[Sequence[int]], Order], most_switches: int) -> Iterator[Order]:
    """Run all orders in which no more than so many times somebody who could go on is left for another."""
    wanted: list[int] | None = []
    while wanted is not None:
        order = run(wanted)
        yield order
        wanted = following(order, most_switches)
