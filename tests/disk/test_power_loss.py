"""The power goes at any moment: every acknowledged commit is there, and nothing is torn."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from unittest.mock import patch

import apsw
import pytest

from onceward.store.drivers.session import Session
from onceward.testing import Harness
from tests.disk.disk import standing_between
from tests.disk.engine import Order, Question, app_on, assert_ends, assert_sound
from tests.disk.power import Acknowledged, Event, RememberingDisk, left_after
from tests.proof.tally import SEED, Tally

NAME = "onceward.db"
LATER_MS = 3_600_000


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """Where the database is while there is power."""
    folder = tmp_path / "before"
    folder.mkdir()
    return folder


@pytest.fixture
def after(tmp_path: Path) -> Path:
    """Where what is left of it is looked at."""
    folder = tmp_path / "after"
    folder.mkdir()
    return folder


def test_a_power_loss_takes_nothing_that_was_acknowledged(before: Path, after: Path) -> None:
    lose_power(before, after, times=60)


@pytest.mark.torture
def test_a_power_loss_at_any_moment_takes_nothing_that_was_acknowledged(before: Path, after: Path) -> None:
    lose_power(before, after, times=3_000)


def lose_power(before: Path, after: Path, *, times: int) -> None:
    """Lose it at some moments, in some way; judge what is left, and go on from there."""
    events, now = what_was_asked(before, synchronous="full")
    dice = random.Random(SEED * times)
    tasks = commits = 0
    for moment in moments(events, times, dice):
        told = left_after(events[:moment], dice, after)
        commits += len(told)
        if told:
            assert told <= set(receipts(after / NAME)), f"lost at moment {moment} of {len(events)}"
        assert_sound(after / NAME)
        tasks += assert_ends(after / NAME, now + LATER_MS)
    assert commits
    Tally(matrix="F21", fault="power loss", store="sqlite", faults=times, accepted=tasks, commits=commits).keep()


def test_where_nothing_is_synced_the_same_losses_of_power_take_commits(before: Path, after: Path) -> None:
    events, _ = what_was_asked(before, synchronous="off")
    dice = random.Random(SEED)
    lost = 0
    for moment in moments(events, 40, dice):
        told = left_after(events[:moment], dice, after)
        try:
            lost += not told <= set(receipts(after / NAME))
        except apsw.Error:
            lost += bool(told)
    assert lost > 5


def test_with_fewer_syncs_the_last_commits_may_be_lost_and_nothing_is_torn(before: Path, after: Path) -> None:
    events, _ = what_was_asked(before, synchronous="normal")
    dice = random.Random(SEED)
    in_order = [event.receipt for event in events if isinstance(event, Acknowledged)]
    lost = 0
    for moment in moments(events, 40, dice):
        told = left_after(events[:moment], dice, after)
        if told:
            there = set(receipts(after / NAME))
            assert_sound(after / NAME)
            kept = sum(receipt in there for receipt in in_order)
            assert set(in_order[:kept]) <= there, "a commit is lost, and one that came later is there"
            lost += not told <= there
    assert lost


def what_was_asked(folder: Path, *, synchronous: str) -> tuple[list[Event], int]:
    """All that a disk was asked while an engine began, worked, pruned and ended; and what time it was in the end."""
    disk = RememberingDisk(folder)
    app = app_on(folder / NAME, synchronous=synchronous)
    with standing_between(disk), noting_receipts(disk):
        harness = Harness(app, url=f"sqlite:///{folder / NAME}")
        for number in range(4):
            harness.app.enqueue(Order(number, "x" * 3_000))
        harness.app.enqueue_many([Question(number) for number in range(10)])
        harness.drain()
        harness.app.tasks.prune("0s")
        harness.app.enqueue(Order(7))
        harness.drain()
        harness.app.close()
    assert sum(isinstance(event, Acknowledged) for event in disk.events) > 30
    return disk.events, harness.clock.now()


@contextmanager
def noting_receipts(disk: RememberingDisk) -> Iterator[None]:
    """Note the receipt of every transaction at the moment at which it is known to be durable."""
    confirm = Session._confirm

    def noting(self: Session, token: bytes) -> None:
        disk.note(Acknowledged(token))
        confirm(self, token)

    with patch.object(Session, "_confirm", noting):
        yield


def moments(events: Sequence[Event], times: int, dice: random.Random) -> list[int]:
    """Some of all moments; half of them right after something was acknowledged, when it hurts most."""
    acknowledged = [place + 1 for place, event in enumerate(events) if isinstance(event, Acknowledged)]
    anywhere = dice.choices(range(len(events) + 1), k=times - times // 2)
    return sorted(anywhere + dice.choices(acknowledged, k=times // 2))


def receipts(file: Path) -> list[bytes]:
    """The transactions that a database knows."""
    with closing(apsw.Connection(str(file))) as connection:
        found = connection.execute("SELECT token FROM onceward_receipt WHERE at > 0").fetchall()
        return [token for (token,) in found]
