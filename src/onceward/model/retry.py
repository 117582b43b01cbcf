"""When a failed stage is tried again, and when it has failed for good."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

from onceward.errors import ConfigError, SpawnRefused
from onceward.model.times import HUNDRED_YEARS_MS, Duration, milliseconds
from onceward.redaction import redacted

LONGEST_READ = 10_000
"""How much of the text of an error is looked at."""
LONGEST_WISH_MS = 86_400_000
"""A server's wish wins over the policy of the pipeline, but it cannot put a task, or its source, off for ever."""

Errors = tuple[type[BaseException], ...]


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how soon a stage is tried again after an error.

    The n-th retry waits a random time up to `base × factor^(n-1)`, never more than `cap`; a server's Retry-After wins.
    Errors named in `permanent` are not retried; one also named in `transient` (a subclass, say) is. `retries=None` is
    until the time limit of the task: what ends it then is time alone, or a permanent error.

    `same_errors=n` gives up when an error that is not named in `transient` came n times in a row; `storm_brake=n` when
    n tasks of this pipeline in the same lineage have failed for good with that error.
    """

    retries: int | None = 3
    base: Duration = "1s"
    factor: float = 2.0
    cap: Duration = "24h"
    jitter: bool = True
    permanent: Errors = ()
    transient: Errors = ()
    same_errors: int | None = None
    storm_brake: int | None = None
    base_ms: int = field(init=False, repr=False)
    cap_ms: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.retries is not None and self.retries < 0:
            raise ConfigError(
                f"retries={self.retries}: it cannot be negative; 0 means never, None until the time limit"
            )
        if not 1 <= self.factor <= 100:
            raise ConfigError(f"factor={self.factor}: it lies between 1 (delays stay the same) and 100")
        object.__setattr__(self, "base_ms", milliseconds(self.base))
        object.__setattr__(self, "cap_ms", milliseconds(self.cap))
        if self.cap_ms < self.base_ms:
            raise ConfigError(f"cap {self.cap!r} is shorter than base {self.base!r}")
        for name, count in (("same_errors", self.same_errors), ("storm_brake", self.storm_brake)):
            if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
                raise ConfigError(f"{name}={count!r}: it is a whole number from 1, or None for never")
        for name, errors in (("permanent", self.permanent), ("transient", self.transient)):
            if not isinstance(errors, tuple) or not all(
                isinstance(one, type) and issubclass(one, BaseException) for one in errors
            ):
                raise ConfigError(f"{name}={errors!r}: it is a tuple of classes of errors, as in (ValueError,)")

    def is_permanent(self, error: BaseException) -> bool:
        """Whether trying again cannot help."""
        if isinstance(error, self.transient):
            return False
        return isinstance(error, (SpawnRefused, *self.permanent))


_TRANSIENT_STATUSES = frozenset({408, 425, 429, *range(500, 600)})
_TRANSIENT_NAMES = frozenset({
    "TransportError", "TimeoutException", "Timeout", "ConnectTimeout", "ReadTimeout", "APIConnectionError",
    "APITimeoutError", "RateLimitError", "InternalServerError", "OverloadedError", "ServiceUnavailableError",
    "ClientConnectionError", "ServerDisconnectedError", "IncompleteRead", "RemoteDisconnected", "NewConnectionError",
})  # fmt: skip
"""What clients call an error of the way to a server, or of a server that has too much to do."""


def is_transient(error: BaseException, retry: Retry) -> bool:
    """Whether the same call may well succeed soon: time-outs, connections, HTTP 408, 425, 429 and 5xx, overload."""
    if retry.is_permanent(error):
        return False
    if isinstance(error, (TimeoutError, ConnectionError, *retry.transient)):
        return True
    status = _attribute(error, "status_code")
    if status is None:
        status = _attribute(_attribute(error, "response"), "status_code")
    if status is None:
        status = _attribute(error, "code")  # urllib
    if isinstance(status, int):
        return status in _TRANSIENT_STATUSES
    return any(parent.__name__ in _TRANSIENT_NAMES for parent in type(error).__mro__)


def backoff_ms(retry: Retry, failures: int, dice: random.Random) -> int:
    """How long to wait after the n-th failure of a stage (n from 1): full jitter, capped."""
    longest = min(retry.cap_ms, retry.base_ms * retry.factor ** min(failures - 1, 64))
    return round(dice.uniform(0, longest) if retry.jitter else longest)


def retry_after_ms(error: BaseException, now: int) -> int | None:
    """How long a server asked us to wait, if the error carries its answer (httpx, requests, urllib and SDKs). Of an
    absurd length a hundred years are heard."""
    asked_ms = _asked_ms(error, now)
    return None if asked_ms is None else round(min(max(asked_ms, 0), HUNDRED_YEARS_MS))


def _asked_ms(error: BaseException, now: int) -> float | None:
    own = _attribute(error, "retry_after")
    if isinstance(own, int | float) and not isinstance(own, bool) and -math.inf < own < math.inf:
        return own * 1_000
    headers = _attribute(_attribute(error, "response"), "headers")
    if headers is None:
        headers = _attribute(error, "headers")  # urllib and aiohttp
    precise = _number(_header(headers, "retry-after-ms"))
    if precise is not None:
        return precise
    asked: Any = _header(headers, "retry-after") or _header(headers, "Retry-After")
    seconds = _number(asked)
    if seconds is not None:
        return seconds * 1_000
    if not isinstance(asked, str):
        return None
    from email.utils import parsedate_to_datetime  # half of the email package, for one way to write a time

    try:
        until = parsedate_to_datetime(asked)
    except (ValueError, OverflowError):
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return until.timestamp() * 1_000 - now


def _attribute(thing: Any, name: str) -> Any:
    try:
        return getattr(thing, name, None)
    except Exception:  # a property of somebody's error may raise, and the task must be judged all the same
        return None


def _header(headers: Any, name: str) -> Any:
    """A header, of a mapping or of a message of the email package, which is none; None if it is not there."""
    try:
        return headers.get(name)
    except Exception:  # whatever it is that somebody calls headers
        return None


def _number(text: Any) -> float | None:
    try:
        number = float(text)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def described(error: BaseException) -> str:
    """An error in one line, as a reason that a person reads; without secrets, because it is stored and logged."""
    name = type(error).__name__
    try:
        text = redacted(" ".join(str(error)[:LONGEST_READ].split()))
    except Exception:  # an error that cannot even say what it is must not keep its task from being judged
        return name
    return f"{name}: {text}"[:1_000] if text else name
