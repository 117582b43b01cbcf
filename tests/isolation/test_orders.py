"""Whatever the order in which two transactions send their statements, what comes of them is one of the right things."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from onceward.store.drivers import session as sessions
from onceward.store.drivers.open import open_store
from onceward.store.drivers.session import Session
from onceward.store.op import Op, Query
from onceward.store.verify.verify import verify
from onceward.testing import FakeClock
from tests.isolation.scenes import SCENES, Scene, commit_reclaim_and_claim
from tests.isolation.tester import Order, Stepped, Work, every_order, play, stepped
from tests.isolation.waiting_scenes import WAITING_SCENES
from tests.proof.tally import Tally
from tests.store.conftest import NOON, Hands

Make = Callable[[Hands, str], Scene]
ALL_SCENES: Sequence[Make] = (*SCENES, *WAITING_SCENES)


class Arena:
    """A database that is empty again for every order."""

    def __init__(self, url: str, empty: Callable[[], None], beside: psycopg.Connection[Any] | None) -> None:
        self.url, self.empty, self.beside = url, empty, beside
        self._judge: Session | None = None

    @contextmanager
    def judge(self) -> Iterator[Session]:
        """A session to prepare a scene and judge it: always the same one where the database stays, and its plans do."""
        session = self._judge or open_store(self.url, FakeClock(NOON)).session()
        try:
            yield session
        finally:
            if self.beside is None:
                session.close()
            else:
                self._judge = session

    def close(self) -> None:
        if self._judge is not None:
            self._judge.close()

    def session(self) -> Stepped:
        return stepped(self.url, NOON, self.beside)

    def orders(self, make: Make, most_switches: int) -> list[Order]:
        """All orders of a scene with no more than so many switches, each judged."""
        return list(every_order(lambda wanted: self.judged(make, wanted), most_switches))

    def judged(self, make: Make, wanted: Sequence[int]) -> Order:
        self.empty()
        with self.judge() as session:
            hands = Hands(session)
            scene = make(hands, self.url)
            order = play(scene.works, self.session, wanted)
            try:
                order.faster = scene.judge(order.outcomes, hands)
                breaches = [one.sentence for check in verify(session, NOON).checks for one in check.breaches]
                assert breaches == []
            except Exception as error:
                error.add_note(f"in the order {order}\nwith the outcomes {order.outcomes}")
                raise
            return order


@pytest.fixture(params=["sqlite", "postgres"])
def arena(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Arena]:
    monkeypatch.setattr(sessions, "FIRST_PAUSE_S", 0.0)  # who was a deadlock's victim tries again at once
    if request.param == "sqlite":
        file, pattern = tmp_path / "onceward.db", request.getfixturevalue("sqlite_pattern")

        def empty() -> None:
            for old in tmp_path.glob("onceward.db*"):
                old.unlink()
            shutil.copy(pattern, file)

        yield Arena(f"sqlite:///{file}", empty, None)
    else:
        url, empty = request.getfixturevalue("emptying")
        with psycopg.connect(url, autocommit=True) as beside:
            arena = Arena(url, empty, beside)
            yield arena
            arena.close()


def keep(arena: Arena, make: Make, orders: Sequence[Order]) -> None:
    """Add what was tried to the counts, if not always the same one was faster, and nobody waited in a circle."""
    assert len({order.faster for order in orders}) > 1
    assert [str(order) for order in orders if order.circles] == []
    about = make.__name__.replace("_", " ")
    store = "sqlite" if arena.beside is None else "postgres"
    Tally(matrix="orders", fault=f"{about}, in another order", store=store, faults=0, seeds=len(orders)).keep()


@pytest.mark.parametrize("make", ALL_SCENES, ids=lambda make: make.__name__)
def test_two_transactions_end_well_wherever_one_of_them_is_held_up(arena: Arena, make: Make) -> None:
    keep(arena, make, arena.orders(make, most_switches=1))


@pytest.mark.torture
@pytest.mark.parametrize("make", ALL_SCENES, ids=lambda make: make.__name__)
def test_two_transactions_end_well_in_every_order(arena: Arena, make: Make) -> None:
    # On SQLite, where writers wait for each other, these are all; on PostgreSQL there are more with more switches.
    keep(arena, make, arena.orders(make, most_switches=3))


@pytest.mark.torture
def test_three_transactions_end_well_in_every_order(arena: Arena) -> None:
    keep(arena, commit_reclaim_and_claim, arena.orders(commit_reclaim_and_claim, most_switches=2))


# The tester itself


def setting(name: str, value: str) -> Query:
    return Query("set_setting", {"name": name, "value": value, "at": NOON, "author": "ant"})


def adding_one(session: Session) -> None:
    """As nobody should: look, and then write what was seen and one more."""
    seen = session.run(Query("read_settings"))

    def write() -> Op[None]:
        yield setting("a", str(int(seen[0][1]) + 1 if seen else 1))

    session.transact(write)


def setting_both(*names: str) -> Work:
    def write() -> Op[None]:
        for name in names:
            yield setting(name, names[0])

    return lambda session: session.transact(write)


def test_the_tester_finds_the_order_in_which_an_update_is_lost(arena: Arena) -> None:
    def count(hands: Hands, _: str) -> Scene:
        def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
            assert outcomes == {"ant": None, "bee": None}
            [(value,)] = hands.sql("SELECT value FROM onceward_setting")
            assert value == "2", "one is lost"
            return "nobody"

        return Scene({"ant": adding_one, "bee": adding_one}, judge)

    arena.judged(count, [])  # one after the other
    with pytest.raises(AssertionError, match="one is lost") as found:
        arena.orders(count, most_switches=1)
    assert "in the order ant:read_settings ant:begin" in found.value.__notes__[0]


def test_the_tester_sees_a_circle_that_the_database_has_to_end(arena: Arena) -> None:
    def lock(hands: Hands, _: str) -> Scene:
        hands.do(_both)

        def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
            assert outcomes == {"ant": None, "bee": None}
            [value] = {value for (value,) in hands.sql("SELECT value FROM onceward_setting")}
            return str(value)

        return Scene({"ant": setting_both("a", "b"), "bee": setting_both("b", "a")}, judge)

    orders = arena.orders(lock, most_switches=2)
    assert sum(order.waits for order in orders) > 0
    assert (sum(order.circles for order in orders) > 0) == (arena.beside is not None), "SQLite has one writer at a time"


def _both() -> Op[None]:
    yield setting("a", "c")
    yield setting("b", "c")
