"""The times of a cron expression by looking at a calendar and a clock on the wall, one minute after the other.

Slow and simple, and it shares nothing with the library by which schedules are computed. By Debian's cron: with a `*` in
the minutes or the hours an expression fires whenever the clock on the wall matches; a fixed time fires once on each of
its dates, the first time that the clock shows it, or right after a jump over it.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Expression:
    """The fields of an expression: numbers, lists, ranges and steps; `L` for the last day of a month."""

    text: str

    @property
    def is_fixed(self) -> bool:
        """Whether it names its hours and minutes."""
        minute, hour, *_ = self.text.split()
        return "*" not in minute and "*" not in hour

    def has_date(self, day: date) -> bool:
        """Whether it fires on a date: where both days are restricted, either will do."""
        _, _, days, months, weekdays = self.text.split()
        by_day = day.day in _numbers(days.replace("L", str(calendar.monthrange(day.year, day.month)[1])), 1, 31)
        by_weekday = bool({day.isoweekday() % 7, day.isoweekday()} & _numbers(weekdays, 0, 7))
        either = not days.startswith("*") and not weekdays.startswith("*")
        return day.month in _numbers(months, 1, 12) and (by_day or by_weekday if either else by_day and by_weekday)

    def times_of_day(self) -> list[tuple[int, int]]:
        """What the clock shows when it fires."""
        minutes, hours, *_ = self.text.split()
        return [
            (hour, minute) for hour in sorted(_numbers(hours, 0, 23)) for minute in sorted(_numbers(minutes, 0, 59))
        ]


def _numbers(field: str, lowest: int, highest: int) -> set[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = (f"{lowest}-{highest}" if span == "*" else span).partition("-")
        found |= set(range(int(first), int(last or first) + 1, int(step or 1)))
    return found


def times(expression: str, tz: str, after: datetime, until: datetime) -> list[datetime]:
    """All its times after one instant, up to another, in UTC."""
    told, zone = Expression(expression), ZoneInfo(tz)
    found = _fixed(told, zone, after, until) if told.is_fixed else _by_the_wall(told, zone, after, until)
    return sorted({at for at in found if after < at <= until})


def _by_the_wall(told: Expression, zone: ZoneInfo, after: datetime, until: datetime) -> Iterator[datetime]:
    shown_at = set(told.times_of_day())
    at = after.replace(second=0, microsecond=0)
    while at <= until:
        shown = at.astimezone(zone)
        if (shown.hour, shown.minute) in shown_at and told.has_date(shown.date()):
            yield at
        at += MINUTE


def _fixed(told: Expression, zone: ZoneInfo, after: datetime, until: datetime) -> Iterator[datetime]:
    day = after.astimezone(zone).date() - DAY
    while day <= until.astimezone(zone).date() + DAY:
        if told.has_date(day):
            for hour, minute in told.times_of_day():
                yield _first_shown(datetime(day.year, day.month, day.day, hour, minute), zone)  # noqa: DTZ001
        day += DAY


def _first_shown(wall: datetime, zone: ZoneInfo) -> datetime:
    """When a clock on the wall first shows a time, or the first one after it that it does show."""
    while (at := wall.replace(tzinfo=zone).astimezone(UTC)).astimezone(zone).replace(tzinfo=None) != wall:
        wall += MINUTE
    return at
