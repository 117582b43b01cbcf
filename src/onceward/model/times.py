"""Durations as people write them, instants as milliseconds since 1970, and the one clock.

Inside the engine every instant is an `int` of milliseconds (`…_at`) and every span an `int` of milliseconds (`…_ms`).
"""

from __future__ import annotations

import os
import re
import secrets
import struct
import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import Protocol

from onceward.errors import BadDuration, ConfigError
from onceward.model.arguments import shown

Duration = str | int | float | timedelta
"""`"90s"`, `"1h30m"`, a `timedelta`, or a number of seconds."""

NEVER = 1 << 62
"""The due time of what waits for something other than time."""

LATEST = 253_402_300_799_999
"""The last instant that a datetime can name: whatever is asked for after it is asked for then."""

_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
HUNDRED_YEARS_MS = 100 * 365 * 86_400_000
_LONGEST_WRITTEN = 100
"""How many characters a duration may have."""


def milliseconds(duration: Duration) -> int:
    """The length of a duration; what is not one, negative or beyond a hundred years is refused."""
    if isinstance(duration, timedelta):
        length = duration.total_seconds() * 1_000
    elif isinstance(duration, bool) or not isinstance(duration, int | float | str):
        raise BadDuration(f"{shown(duration)} is not a duration; write it like '90s', '5m' or '1h30m'")
    elif isinstance(duration, int | float):
        length = duration * 1_000
    else:
        text = duration.strip().replace(" ", "")
        parts = _PART.findall(text) if len(text) <= _LONGEST_WRITTEN else ()  # or digits alone would take very long
        if not parts or "".join(number + unit for number, unit in parts) != text:
            raise BadDuration(f"{shown(duration)} is not a duration; write it like '90s', '5m', '1h30m' or '2d'")
        length = sum(float(number) * _UNIT_MS[unit] for number, unit in parts)
    if not 0 <= length <= HUNDRED_YEARS_MS:
        raise BadDuration(f"{shown(duration)} is out of range; a duration lies between 0 and 100 years")
    return round(length)


def duration_text(length_ms: int) -> str:
    """A duration as a person would say it: `1500` is "1.5s", `5_400_000` is "1h30m"."""
    if length_ms < 60_000:
        return f"{length_ms / 1_000:g}s"
    parts = []
    rest = round(length_ms / 1_000)
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2])


def instant(moment: datetime) -> int:
    """The instant of an aware datetime; a naive one is refused, because it names a different moment everywhere."""
    if not isinstance(moment, datetime):
        raise ConfigError(f"at={shown(moment)}: it is a datetime with a time zone; a duration is said with after=")
    if moment.tzinfo is None:
        raise ConfigError(
            f"{moment.isoformat()} has no time zone; say which one, for example {moment.isoformat()}+00:00"
        )
    return min(round(moment.timestamp() * 1_000), LATEST)


def due(now: int, after: Duration | None, at: datetime | None) -> int:
    """When something is due that was asked for `after` a while, or `at` a time; now if neither was given."""
    if after is not None and at is not None:
        raise ConfigError("give after= or at=, not both")
    if at is not None:
        return max(now, instant(at))
    return now if after is None else now + milliseconds(after)


def moment(at: int) -> datetime:
    """The aware datetime (UTC) of an instant."""
    return datetime.fromtimestamp(min(at, LATEST) / 1_000, UTC)


class Clock(Protocol):
    """Where time comes from. Injected everywhere, so that tests and simulations own it."""

    def now(self) -> int:
        """The wall time in milliseconds since 1970."""

    def monotonic(self) -> int:
        """Milliseconds on a clock that is never set, shared by all processes of this machine."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> int:
        return time.monotonic_ns() // 1_000_000


A_STEP_MS = 60_000
"""By how much a clock may seem to go wrong between two looks before it counts as set."""


class StoreClock:
    """The database's clock, read through this machine's monotonic one.

    All workers of all machines that use one database share its time, and a step of a machine's wall clock moves
    nothing: between two measurements time is the monotonic clock plus an offset.
    """

    def __init__(self, base: Clock) -> None:
        self._base = base
        self.monotonic = base.monotonic
        self._offset = base.now() - base.monotonic()
        self._steady_since = base.monotonic()
        self._is_injected = not isinstance(base, SystemClock)

    def measured(self, store_now: int | None) -> None:
        """Take over what the database said its time is, just now; one without a clock of its own has the machine's.

        A clock that was given by hand is the only one there is.
        """
        if self._is_injected or store_now is None:
            store_now = self._base.now()
        offset = store_now - self._base.monotonic()
        if abs(offset - self._offset) > A_STEP_MS:
            self._steady_since = self._base.monotonic()
        self._offset = offset

    @property
    def steady_ms(self) -> int:
        """For how long it was not set, as far as it was watched."""
        return self.monotonic() - self._steady_since

    def now(self) -> int:
        return self.monotonic() + self._offset


_FIXED_BITS = 7 << 76 | 2 << 62
_RANDOM_BITS = (1 << 12) - 1 << 64 | (1 << 62) - 1
_COUNTED = 1 << 12
_COUNTER_HIGH = bytes(0x70 | number >> 8 for number in range(_COUNTED))
_COUNTER_LOW = bytes(number & 0xFF for number in range(_COUNTED))
_VARIANT = bytes(0x80 | byte & 0x3F for byte in range(256))
_DRAWN_AHEAD = 256
_drawn_ahead: list[bytes] = []
if hasattr(os, "register_at_fork"):  # a forked process would draw what its parent draws
    os.register_at_fork(after_in_child=_drawn_ahead.clear)


def uuid7(now: int) -> uuid.UUID:
    """A random UUID whose order is the order of time (RFC 9562, version 7)."""
    return uuid.UUID(bytes=uuids7(now, 1)[0])


def uuids7(now: int, count: int) -> list[bytes]:
    """So many of them for one moment, in order: an index takes them at its end.

    After the time they are counted, from a random number on; the 62 bits after that are random.
    """
    moment_bits = now & (1 << 48) - 1
    if count == 1:
        return [(moment_bits << 80 | int.from_bytes(_drawn(), "big") & _RANDOM_BITS | _FIXED_BITS).to_bytes(16, "big")]
    if count > _COUNTED:
        some = range(0, count, _COUNTED)
        return sorted([one for start in some for one in uuids7(now, min(_COUNTED, count - start))])
    drawn = bytearray(secrets.token_bytes(16 * count))
    for place, byte in enumerate(moment_bits.to_bytes(6, "big")):
        drawn[place::16] = bytes((byte,)) * count
    first = int.from_bytes(drawn[6:8], "big") % (_COUNTED - count + 1)
    drawn[6::16] = _COUNTER_HIGH[first : first + count]
    drawn[7::16] = _COUNTER_LOW[first : first + count]
    drawn[8::16] = drawn[8::16].translate(_VARIANT)
    return [one for (one,) in struct.iter_unpack("16s", drawn)]


def _drawn() -> bytes:
    """Sixteen random bytes, drawn many at a time: asking the system lets all other threads run first."""
    while True:
        try:
            return _drawn_ahead.pop()
        except IndexError:
            _drawn_ahead.extend(piece for (piece,) in struct.iter_unpack("16s", secrets.token_bytes(16 * _DRAWN_AHEAD)))
