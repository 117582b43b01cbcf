"""Durations as people write them, instants, the store's clock, and identifiers in the order of time."""

from __future__ import annotations

import os
import time
import uuid
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from onceward import ConfigError
from onceward.errors import BadDuration
from onceward.model.times import StoreClock, SystemClock, duration_text, instant, milliseconds, moment, uuid7, uuids7
from onceward.testing import FakeClock

YEARS_100_MS = 100 * 365 * 86_400_000


@pytest.mark.parametrize(
    ("duration", "length_ms"),
    [
        ("0s", 0),
        ("250ms", 250),
        ("90s", 90_000),
        ("1.5s", 1_500),
        ("5m", 300_000),
        ("1h30m", 5_400_000),
        ("1h 30m", 5_400_000),
        ("  2d ", 172_800_000),
        ("1w", 604_800_000),
        ("1d2h3m4s5ms", 93_784_005),
        (0, 0),
        (20, 20_000),
        (0.25, 250),
        (timedelta(minutes=2, milliseconds=3), 120_003),
        ("36500d", YEARS_100_MS),
    ],
)
def test_a_duration_is_read_as_it_is_written(duration: Any, length_ms: int) -> None:
    assert milliseconds(duration) == length_ms


@pytest.mark.parametrize(
    "duration",
    ["", " ", "5", "s", "5 parsecs", "five minutes", "1h-5m", "-5s", "5S", ".5s", "1.5.5s", "1e3s", "5s!", "5m,3s",
     -1, -0.5, timedelta(seconds=-1), float("nan"), float("inf"), "36501d", 10**12, True, None, ["5s"], b"5s"],
)  # fmt: skip
def test_what_is_no_duration_is_refused_and_quoted(duration: Any) -> None:
    with pytest.raises(BadDuration) as refused:
        milliseconds(duration)
    assert repr(duration) in str(refused.value)


def test_a_text_that_is_no_duration_is_refused_at_once() -> None:
    for endless in ("1" * 1_000_000, "1." * 500_000, "1s" * 500_000):
        began = time.thread_time()
        with pytest.raises(BadDuration):
            milliseconds(endless)
        assert time.thread_time() - began < 5


@given(some.integers(0, YEARS_100_MS // 1_000))
def test_whole_seconds_are_read_alike_in_every_form(seconds: int) -> None:
    assert milliseconds(seconds) == milliseconds(f"{seconds}s") == milliseconds(timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("length_ms", "words"),
    [(0, "0s"), (1, "0.001s"), (1_500, "1.5s"), (59_999, "59.999s"), (60_000, "1m"), (90_000, "1m30s"),
     (5_400_000, "1h30m"), (3_600_000, "1h"), (90_061_000, "1d1h"), (172_800_000, "2d")],
)  # fmt: skip
def test_a_duration_is_spoken_in_at_most_two_units(length_ms: int, words: str) -> None:
    assert duration_text(length_ms) == words


def test_a_naive_datetime_is_refused_and_told_what_to_add() -> None:
    with pytest.raises(ConfigError, match=r"2026-03-01T12:00:00 has no time zone.*2026-03-01T12:00:00\+00:00"):
        instant(datetime(2026, 3, 1, 12))  # noqa: DTZ001 - that is the point


def test_an_aware_datetime_is_the_same_instant_in_every_zone() -> None:
    utc = datetime(2026, 3, 1, 12, tzinfo=UTC)
    elsewhere = utc.astimezone(timezone(timedelta(hours=5, minutes=45)))
    assert instant(utc) == instant(elsewhere) == 1_772_366_400_000
    assert moment(instant(elsewhere)) == utc


@given(some.integers(0, 4_102_444_800_000))
def test_an_instant_and_its_moment_are_one(at: int) -> None:
    assert instant(moment(at)) == at


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=-12)), timezone(timedelta(hours=12))])
def test_the_last_of_all_datetimes_is_an_instant_with_a_moment(zone: timezone) -> None:
    last = datetime.max.replace(tzinfo=zone)
    assert moment(instant(last)).year == 9_999
    assert moment(instant(last) + 1).year == 9_999


def test_a_step_of_the_wall_clock_does_not_move_the_stores_clock() -> None:
    base = FakeClock()
    clock = StoreClock(base)
    before = clock.now()
    base.step(-86_400_000)
    assert clock.now() == before
    base.advance("5s")
    assert clock.now() == before + 5_000


class Machine(SystemClock):
    """A machine whose clock is a day ahead."""

    def __init__(self) -> None:
        self.passed = 0

    def now(self) -> int:
        return 86_400_000 + self.passed

    def monotonic(self) -> int:
        return 5_000 + self.passed


def test_the_stores_clock_follows_what_the_database_says() -> None:
    machine = Machine()
    clock = StoreClock(machine)
    assert clock.now() == 86_400_000
    clock.measured(1_000_000)
    machine.passed = 2_000
    assert clock.now() == 1_002_000
    assert clock.monotonic() == 7_000
    clock.measured(None)
    assert clock.now() == 86_402_000, "a database without a clock has the machine's"


def test_a_clock_moved_by_hand_is_the_only_one_there_is() -> None:
    base = FakeClock()
    clock = StoreClock(base)
    clock.measured(1_000_000)
    assert clock.now() == base.now()


@given(some.integers(0, (1 << 48) - 2), some.integers(1, 10**9))
def test_a_later_uuid_is_a_greater_uuid(now: int, gap: int) -> None:
    later = min(now + gap, (1 << 48) - 1)
    first, second = uuid7(now), uuid7(later)
    assert first < second
    assert first.bytes < second.bytes
    assert (first.version, first.variant) == (7, "specified in RFC 4122")
    assert first.int >> 80 == now


def test_uuids_of_one_moment_differ() -> None:
    assert len({uuid7(1_767_225_600_000) for _ in range(1_000)}) == 1_000


def test_many_uuids_of_one_moment_are_in_order_and_as_one_alone() -> None:
    now = 1_767_225_600_000
    many = [uuid.UUID(bytes=one) for one in uuids7(now, 2_000)]
    assert many == sorted(set(many))
    assert {(one.version, one.variant, one.int >> 80) for one in many} == {(7, uuid.RFC_4122, now)}
    assert uuids7(now, 0) == []


def test_more_uuids_than_can_be_counted_are_in_order_too() -> None:
    many = uuids7(1_767_225_600_000, 10_000)
    assert many == sorted(set(many))
    assert len(many) == 10_000


def test_a_forked_process_draws_uuids_of_its_own() -> None:
    uuid7(1_767_225_600_000)  # more are drawn ahead, and left
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        os.write(writes, b"".join(uuid7(1_767_225_600_000).bytes for _ in range(100)))
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(reads, 1_600)
    os.close(reads)
    os.close(writes)
    ours = {uuid7(1_767_225_600_000).bytes for _ in range(100)}
    assert len(theirs) == 1_600
    assert not ours & {theirs[at : at + 16] for at in range(0, 1_600, 16)}
