"""Ended tasks go by themselves once they are old enough: once an hour, by one process, and not by a wrong clock."""

from __future__ import annotations

import pytest

from onceward import Config, ConfigError, Watch
from onceward.store.operations import pruning
from onceward.worker.pruner import Pruner
from tests.store.conftest import Hands
from tests.store.test_pruning import DAY, finished
from tests.worker.conftest import Clockwork


class Old:
    """A database with a task that ended 40 days ago and one that ended a day ago."""

    def __init__(self, clockwork: Clockwork, url: str) -> None:
        self.clock = clockwork.clock
        self._clockwork = clockwork
        self._url = url
        self._hands = clockwork.hands()
        self.config = Config()
        [self.old] = self._end_a_task("ant")
        self.clock.advance("39d")
        [self.young] = self._end_a_task("bee")
        self.clock.advance("1d")

    def _end_a_task(self, worker: str) -> list[int]:
        self._hands.now = self.clock.now()
        return finished(self._hands, self._hands.worker(worker))

    def pruner(self, goes_on: bool = True) -> Pruner:
        """That of a process that begins now."""
        session = self._clockwork.app.on(self._url, clock=self.clock)._store.session(patience_s=5)
        self._clockwork.opened.append(session)
        return Pruner(session, lambda: self.config, lambda: goes_on)

    def left(self) -> list[int]:
        return [row[0] for row in self._hands.sql("SELECT id FROM onceward_task ORDER BY id")]


@pytest.fixture
def old(clockwork: Clockwork, store_url: str) -> Old:
    return Old(clockwork, store_url)


def test_what_is_old_goes_after_an_hour_and_the_young_stays(old: Old) -> None:
    pruner = old.pruner()
    pruner.step()
    old.clock.advance("59m")
    pruner.step()
    assert old.left() == [old.old, old.young]
    old.clock.advance("1m")
    pruner.step()
    assert old.left() == [old.young]


def test_how_long_tasks_are_kept_is_a_setting(old: Old) -> None:
    pruner = old.pruner()
    old.clock.advance("1h")
    old.config = Config(keep="90d")
    pruner.step()
    assert old.left() == [old.old, old.young]
    old.clock.advance("1h")
    old.config = Config(keep="1h")
    pruner.step()
    assert old.left() == []


def test_one_process_does_it_in_an_hour(old: Old) -> None:
    first, second = old.pruner(), old.pruner()
    old.config = Config(keep="90d")
    old.clock.advance("1h")
    first.step()
    old.config = Config(keep="1h")
    old.clock.advance("1m")
    second.step()
    assert old.left() == [old.old, old.young], "the first one has looked, a minute ago"
    old.clock.advance("1h")
    second.step()
    assert old.left() == []


def test_a_clock_that_was_just_set_makes_nothing_old(old: Old) -> None:
    pruner = old.pruner()
    old.clock.advance("1h")
    old.clock.step(100 * DAY)
    pruner._session.measure_clock()
    pruner.step()
    assert old.left() == [old.old, old.young]
    old.clock.advance("1h")
    pruner.step()
    assert old.left() == []


def test_a_process_that_stops_leaves_the_rest_to_others(old: Old) -> None:
    pruner = old.pruner(goes_on=False)
    old.clock.advance("1h")
    pruner.step()
    assert old.left() == [old.old, old.young]


def test_a_look_that_comes_again_and_again_walks_over_old_rows_alone(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "TASKS_AT_ONCE", 1)
    ant = hands.worker()
    [first], [second] = finished(hands, ant), finished(hands, ant)
    hands.later(DAY)
    [third] = finished(hands, ant)
    hands.sql("UPDATE onceward_task SET created_at = created_at + 86400000 WHERE id = " + str(second))
    assert pruning.prune(hands.session, hands.now, hands.now, is_thorough=False).tasks == 1
    assert hands.sql("SELECT id FROM onceward_task ORDER BY id") == [(second,), (third,)]
    assert pruning.prune(hands.session, hands.now, hands.now).tasks == 1, "whoever asks for it gets all"
    assert hands.sql("SELECT id FROM onceward_task ORDER BY id") == [(third,)]
    assert first < second


def test_no_watch_takes_its_name() -> None:
    with pytest.raises(ConfigError, match="cannot be called 'pruning'"):
        Watch("pruning", "SELECT 1", above=0, advice="Do something.")
