"""The times of schedules beside those of a calendar: a table of odd days, and random zones and days."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

import pytest

from onceward import Cron, Payload
from onceward.model.schedule import GRACE_MS, Missed
from onceward.model.times import instant, moment
from tests.proof.tally import SEED, Tally
from tests.unit.calendar_oracle import times

TABLE = Path(__file__).with_name("schedule_times.txt")
MINUTES = ("*", "*/5", "*/20", "*/7", "0", "30", "5", "59", "0,30", "10-12")
HOURS = ("*", "*/2", "*/5", "0", "2", "1-3", "23", "0,2,23")
DAYS = (("*", "*", "*"), ("*", "*", "1-5"), ("28-31", "*", "*"), ("L", "*", "*"), ("1,15", "*", "0"), ("29", "2", "*"))


class Chime(Payload, kind="chime"):
    """What is to be done does not matter here."""


def test_the_next_time_is_that_of_the_table() -> None:
    """Changes of the clock by an hour, by half of one, by two, at midnight and over a whole day; leap days, ends of
    months. In the table are zone, expression, an instant and the next time after it, in UTC."""
    rows = [line.split(" | ") for line in TABLE.read_text().splitlines()]
    wrong = [
        row
        for tz, expression, after, expected in rows
        if (row := (tz, expression, after, _next(tz, expression, after))) != (tz, expression, after, expected)
    ]
    assert not wrong
    assert len(rows) >= 200
    Tally(matrix="F13", fault="odd days in a table", store="model", faults=len(rows)).keep()


def _next(tz: str, expression: str, after: str) -> str:
    found = Cron(expression, Chime(), tz=tz).next_after(instant(datetime.fromisoformat(after)))
    return f"{moment(found):%Y-%m-%dT%H:%MZ}"


def test_the_table_is_that_of_the_calendar() -> None:
    for line in TABLE.read_text().splitlines():
        tz, expression, after, expected = line.split(" | ")
        end = datetime.fromisoformat(expected)
        assert times(expression, tz, datetime.fromisoformat(after), end) == [end], line


def test_times_in_random_zones_are_those_of_the_calendar_strictly_increasing_and_each_once() -> None:
    try_random_days(60)


@pytest.mark.torture
def test_times_in_random_zones_are_those_of_the_calendar_for_thousands_of_days() -> None:
    try_random_days(3_000)


def try_random_days(cases: int) -> None:
    """Two days in some zone, more often than not around a change of its clock."""
    dice = random.Random(SEED)
    zones = sorted(available_timezones())
    fired = 0
    for _ in range(cases):
        tz, year = dice.choice(zones), dice.randint(1995, 2037)
        expression = " ".join((dice.choice(MINUTES), dice.choice(HOURS), *dice.choice(DAYS)))
        middle = datetime(year, 1, 1, tzinfo=UTC) + timedelta(minutes=dice.randrange(365 * 1_440))
        if changes := _changes(tz, year):
            middle = dice.choice([*changes, *changes, middle])
        start = middle - timedelta(minutes=dice.randrange(1_440))
        fired += compare(expression, tz, start, start + timedelta(days=2))
    Tally(matrix="F13", fault=f"random days in {len(zones)} zones", store="model", faults=cases, accepted=fired).keep()


def compare(expression: str, tz: str, start: datetime, end: datetime) -> int:
    """What is due in that time, by each policy for what was missed, is what the calendar says."""
    case = f"{expression} in {tz} from {start}"
    expected = [instant(at) for at in times(expression, tz, start, end)]
    schedule = Cron(expression, Chime(), tz=tz)
    one_by_one = []
    at = first = schedule.next_after(instant(start))
    while at <= instant(end):
        one_by_one.append(at)
        at = schedule.next_after(at)
    assert one_by_one == expected, case
    assert all(earlier < later for earlier, later in pairwise(one_by_one)), case
    all_of_them = _missed(expression, tz, first, instant(end), "all")
    assert all_of_them == expected, case
    last = expected[-1:]
    assert _missed(expression, tz, first, instant(end), "once") == last, case
    is_late = bool(last) and instant(end) - last[0] > GRACE_MS
    assert _missed(expression, tz, first, instant(end), "skip") == ([] if is_late else last), case
    return len(expected)


def _missed(expression: str, tz: str, first: int, now: int, missed: Missed) -> list[int]:
    schedule = Cron(expression, Chime(), tz=tz, missed=missed)
    found: list[int] = []
    next_at = first
    while next_at <= now:
        some, next_at = schedule.due(next_at, now)
        found += some
    return found


def _changes(tz: str, year: int) -> list[datetime]:
    """When the clock of a zone is changed in a year, to the day."""
    zone = ZoneInfo(tz)
    days = [datetime(year, 1, 1, tzinfo=UTC) + timedelta(days=number) for number in range(365)]
    return [
        day
        for day in days
        if day.astimezone(zone).utcoffset() != (day + timedelta(days=1)).astimezone(zone).utcoffset()
    ]


# What CronSim makes of changes that are not by whole hours


def test_a_change_by_half_an_hour_costs_no_time() -> None:
    """At 2:00 the clock of Lord Howe goes back to 1:30, and five past two comes half an hour later."""
    assert _next("Australia/Lord_Howe", "5 */2 * * *", "2025-04-05T13:59Z") == "2025-04-05T15:35Z"


def test_a_change_by_half_an_hour_for_good_costs_no_time() -> None:
    """In 2018 Pyongyang went from +8:30 to +9:00 at half past eleven at night."""
    after, until = datetime(2018, 5, 4, 12, tzinfo=UTC), datetime(2018, 5, 5, 12, tzinfo=UTC)
    assert compare("5 */2 * * *", "Asia/Pyongyang", after, until) == 12


@pytest.mark.timeout(20)
def test_a_change_at_a_minute_past_midnight_is_passed() -> None:
    """The clock of Newfoundland used to be changed at 0:01; looking for a time across that did not end."""
    assert _next("America/St_Johns", "5 */2 * * *", "2010-11-07T01:30Z") == "2010-11-07T03:35Z"
