"""Schedules: work that is enqueued at set times, and which of those times are due.

    Cron("30 2 * * *", Cleanup(), tz="Europe/Berlin")

The times are those of Debian's cron. An expression with fixed hours and minutes fires once a day whatever the clocks
do: one that the clock jumps over in spring fires right after the jump, one that it shows twice in autumn the first
time. With a `*` in the minutes or the hours, real time counts: every quarter of an hour is just that.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Literal, NamedTuple, get_args

from cronsim import CronSim, CronSimError

from onceward.errors import ConfigError, PayloadError
from onceward.model import codec
from onceward.model.arguments import checked_word, shown
from onceward.model.payload import Payload, checked_key, stored_payload

Missed = Literal["once", "all", "skip"]

GRACE_MS = 300_000
"""How late a time may be fired that is skipped when it was missed: as late as a tick every five minutes finds it."""

MOST_AT_ONCE = 500
"""How many missed times are fired in one transaction."""

_ANY_TIME = 1_767_225_600_000
_FIRST_LOOK_MS, _WIDER = 120_000, 8
_SECOND = timedelta(seconds=1)
_SURELY_ONE_CHANGE_MS = 12 * 3_600_000
"""Within half a day the clocks of a zone are changed at most once."""


class Firing(NamedTuple):
    """What follows from looking at a schedule: the times to be fired, oldest first, and the next one."""

    times: tuple[int, ...]
    next_at: int


class Cron:
    """Work for certain times: the five fields of a crontab, a payload, and the time zone in which the fields are meant.

    `missed` says what becomes of times at which no worker could fire it: one task for all, one for each, or none.
    `name` is the one under which it is remembered; without one it has the kind, and a hash of all the rest.
    """

    __slots__ = ("_zone", "expression", "missed", "name", "payload", "tz")

    def __init__(
        self, expression: str, payload: Payload, *, tz: str = "UTC", missed: Missed = "once", name: str | None = None
    ) -> None:
        self.expression = " ".join(expression.split()) if isinstance(expression, str) else ""
        self.payload = payload
        self.tz = tz
        self.missed = missed
        self._zone = _zone(tz)
        checked_word("missed", missed, get_args(Missed))
        data = _stored(payload)
        if self.expression.count(" ") != 4:
            raise ConfigError(
                f"{shown(expression)} is no schedule: it has five fields, minute, hour, day, month and weekday, "
                "like '*/5 * * * *' or '30 2 * * MON-FRI'"
            )
        self._refuse_useless()
        hashed = codec.digest128(self.expression.encode(), tz.encode(), data).hex()[:8]
        self.name = f"{payload.__kind__}-{hashed}" if name is None else codec.checked_name(name, "a schedule")

    def __repr__(self) -> str:
        return f"<Cron {self.name}: {self.expression} {self.tz}>"

    def next_after(self, at: int) -> int:
        """The first of its times after an instant."""
        return next(self._times_after(at))

    def due(self, next_at: int, now: int) -> Firing:
        """What is to be fired now, if `next_at` is the first time that was not."""
        if next_at > now:
            return Firing((), next_at)
        if self.missed == "all":
            times = self._some(next_at - 1, now)
            return Firing(times, self.next_after(times[-1] if times else now))
        last = self._last(next_at, now)
        is_skipped = last is not None and self.missed == "skip" and now - last > GRACE_MS
        return Firing(() if last is None or is_skipped else (last,), self.next_after(now))

    def _some(self, after: int, now: int) -> tuple[int, ...]:
        times: list[int] = []
        for at in self._times_after(after):
            if at > now or len(times) == MOST_AT_ONCE:
                break
            times.append(at)
        return tuple(times)

    def _last(self, first: int, now: int) -> int | None:
        """The last of its times that is not before the first nor after now. Looked for from the end: after a year
        there may be half a million. Not backwards, because there an hour that comes twice has other times."""
        span_ms = _FIRST_LOOK_MS
        while True:
            start = max(first - 1, now - span_ms)
            last = None
            for at in self._times_after(start):
                if at > now:
                    break
                last = at
            if last is not None or start < first:
                return last
            span_ms *= _WIDER

    def _times_after(self, at: int) -> Iterator[int]:
        """Its times after an instant, in order."""
        if self._zone is not UTC and not self._is_fixed:
            yield from self._times_by_the_wall(at)
            return
        for moment in CronSim(self.expression, datetime.fromtimestamp(at / 1_000, self._zone)):
            time = round(moment.timestamp() * 1_000)
            if time > at:  # asked in an hour that comes twice, a fixed time is answered as of the first of the two
                at = time
                yield time

    @property
    def _is_fixed(self) -> bool:
        """Whether its hours and minutes are, so that it fires once a day whatever the clocks do."""
        minute, hour, *_ = self.expression.split()
        return not minute.startswith("*") and not hour.startswith("*")

    def _times_by_the_wall(self, at: int) -> Iterator[int]:
        """The same where real time counts: whenever the clock shows one. Between two changes it runs evenly.
        CronSim, asked across them, misses times or never ends where one is not of a whole hour, or not at one."""
        offset = self._offset(at)
        wall = datetime.fromtimestamp(at / 1_000, UTC).replace(tzinfo=None) + offset
        while True:
            for on_the_wall in CronSim(self.expression, wall):
                time = round((on_the_wall - offset).replace(tzinfo=UTC).timestamp() * 1_000)
                if (change := self._first_change(at, time, offset)) is not None:
                    offset = self._offset(change)
                    # What the clock shows at the change itself may be one of its times.
                    wall = datetime.fromtimestamp(change / 1_000, UTC).replace(tzinfo=None) + offset - _SECOND
                    at = change
                    break
                at = time
                yield time
            else:
                return

    def _first_change(self, at: int, until: int, offset: timedelta) -> int | None:
        """The first instant after one, and not after another, at which the clock has another offset."""
        while at < until:
            later = min(at + _SURELY_ONE_CHANGE_MS, until)
            if self._offset(later) != offset:
                while later - at > 1_000:
                    middle = (at + later) // 2_000 * 1_000
                    at, later = (at, middle) if self._offset(middle) != offset else (middle, later)
                return later
            at = later
        return None

    def _offset(self, at: int) -> timedelta:
        offset = datetime.fromtimestamp(at / 1_000, self._zone).utcoffset()
        assert offset is not None
        return offset

    def _refuse_useless(self) -> None:
        try:
            self.next_after(_ANY_TIME)
        except CronSimError as error:
            if "day-of-month" in str(error) and _is_legible(self.expression):
                raise ConfigError(
                    f"the schedule {self.expression!r} never fires: no such month has that day"
                ) from error
            raise ConfigError(f"{self.expression!r} is no schedule: {str(error).lower()}") from error
        except StopIteration as error:
            raise ConfigError(f"the schedule {self.expression!r} never fires within fifty years") from error


def _is_legible(expression: str) -> bool:
    """Whether an expression would do if every month had as many days as the longest."""
    minute, hour, day, _, weekday = expression.split()
    try:
        CronSim(f"{minute} {hour} {day} * {weekday}", datetime.fromtimestamp(0, UTC))
    except CronSimError:
        return False
    return True


def _zone(tz: str) -> tzinfo:
    if tz == "UTC":
        return UTC  # also where a machine has no time zones
    from zoneinfo import ZoneInfo  # not where nothing is scheduled

    try:
        return ZoneInfo(tz)
    except (ValueError, OSError, TypeError, LookupError) as error:
        raise ConfigError(
            f"tz={shown(tz)} is no time zone that this machine knows; write it like 'Europe/Berlin'"
        ) from error


def _stored(payload: Payload) -> bytes:
    if not isinstance(payload, Payload):
        raise ConfigError(f"a schedule takes a payload, made like Cleanup(…), not {shown(payload)}")
    try:
        checked_key(payload)
        return stored_payload(payload)
    except PayloadError as error:
        raise ConfigError(f"a schedule cannot have this payload: {error}") from error
