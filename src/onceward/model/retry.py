"""When a failed stage is tried again, and when it has failed for good."""

from __future__ import annotations

import errno
import math
import random
from dataclasses import dataclass, field, replace
from datetime import UTC
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from onceward.errors import CallsExceeded, ConfigError, SpawnRefused
from onceward.model.arguments import UNSET, checked_flag, checked_whole, shown
from onceward.model.times import HUNDRED_YEARS_MS, Duration, milliseconds
from onceward.support.redaction import redacted

LONGEST_READ = 10_000
"""How much of the text of an error is looked at."""
IN_WRITE = "in ctx.write("
"""How the note of an error begins that a function given to `ctx.write` has raised; after it stands its name."""
MOST_RETRIES = 1_000_000_000
LONGEST_WISH_MS = 86_400_000
"""A server's wish wins over the policy of the pipeline, but it cannot put a task, or its source, off for ever."""

Errors = tuple[type[BaseException], ...]


class UsualRetries(NamedTuple):
    """What holds where a `Retry` does not say it: the settings `retries`, `retry_base`, `retry_cap`, `same_errors`."""

    retries: int = 3
    base: Duration = "1s"
    cap: Duration = "24h"
    same_errors: int = 5
    """How often in a row the same unclassified error may come where time alone bounds the retries."""


USUAL_RETRIES = UsualRetries()
_USUAL_ONES = ("retries", "base", "cap")


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how soon a stage is tried again after an error.

    The n-th retry waits a random time up to `base × factor^(n-1)`, never more than `cap`; a server's Retry-After wins.
    Errors named in `permanent` are not retried; one also named in `transient` (a subclass, say) is. `retries=None` is
    until the time limit of the task: what ends it then is time, a permanent error, or `same_errors`.

    `same_errors=n` gives up when the same unclassified error came n times in a row; an error that is known to pass
    never counts. Where nothing is given it is 5 with `retries=None`, and never otherwise; `"off"` is never.
    `storm_brake=n` gives up when n tasks of this pipeline in the same lineage have failed for good with that error.

    What is not given of `retries`, `base`, `cap` and that 5 is as the settings `retries`, `retry_base`, `retry_cap` and
    `same_errors` say: 3 retries from 1 s up to 24 h where they were not changed.
    """

    retries: int | None = UNSET
    base: Duration = UNSET
    factor: float = 2.0
    cap: Duration = UNSET
    jitter: bool = True
    permanent: Errors = ()
    transient: Errors = ()
    same_errors: int | Literal["off"] | None = None
    storm_brake: int | None = None
    base_ms: int = field(init=False, repr=False)
    cap_ms: int = field(init=False, repr=False)
    most_same_errors: int | None = field(init=False, repr=False)
    """How often in a row the same unclassified error may come; None for no bound."""
    given: frozenset[str] = field(init=False, repr=False)
    """What does not come from the settings, of what may."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "given", frozenset(one for one in _USUAL_ONES if getattr(self, one) is not UNSET))
        for name in _USUAL_ONES:
            if name not in self.given:
                object.__setattr__(self, name, getattr(USUAL_RETRIES, name))
        checked_whole("retries", self.retries, 0, MOST_RETRIES, none="until the time limit")
        is_number = isinstance(self.factor, int | float) and not isinstance(self.factor, bool)
        if not is_number or not 1 <= self.factor <= 100:
            raise ConfigError(f"factor={shown(self.factor)}: it lies between 1 (delays stay the same) and 100")
        checked_flag("jitter", self.jitter)
        object.__setattr__(self, "base_ms", milliseconds(self.base))
        object.__setattr__(self, "cap_ms", milliseconds(self.cap))
        if self.cap_ms < self.base_ms and self.given >= {"base", "cap"}:
            raise ConfigError(f"cap {self.cap!r} is shorter than base {self.base!r}")
        same_errors, usual = self.same_errors, USUAL_RETRIES.same_errors if self.retries is None else None
        is_off = isinstance(same_errors, str) and same_errors == "off"
        most_same = None if is_off else usual if same_errors is None else same_errors
        object.__setattr__(self, "most_same_errors", most_same)
        if most_same is not None:
            checked_whole("same_errors", most_same, 1, MOST_RETRIES, none="as usual, or 'off' for never")
        checked_whole("storm_brake", self.storm_brake, 1, MOST_RETRIES, none="for never")
        for name, errors in (("permanent", self.permanent), ("transient", self.transient)):
            if not isinstance(errors, tuple) or not all(
                isinstance(one, type) and issubclass(one, BaseException) for one in errors
            ):
                raise ConfigError(f"{name}={shown(errors)}: it is a tuple of classes of errors, as in (ValueError,)")

    def is_permanent(self, error: BaseException) -> bool:
        """Whether trying again cannot help."""
        if isinstance(error, self.transient):
            return False
        return isinstance(error, (SpawnRefused, CallsExceeded, *self.permanent))


@lru_cache(maxsize=1_024)
def retry_in_force(retry: Retry, usual: UsualRetries) -> Retry:
    """A policy that says everything: where it says nothing itself, what the settings say."""
    said = {name: getattr(retry if name in retry.given else usual, name) for name in _USUAL_ONES}
    if said["retries"] is None and retry.same_errors is None:
        said["same_errors"] = usual.same_errors
    return replace(retry, **said)


_TRANSIENT_STATUSES = frozenset({408, 425, 429, *range(500, 600)})
_STATUS_NAMES = ("status_code", "status", "code", "http_status")
"""Where clients keep the HTTP status: httpx, requests and SDKs; aiohttp; urllib and Google; Stripe."""
_TRANSIENT_NAMES = frozenset({
    "APIConnectionError", "ChunkedEncodingError", "ClientConnectionError", "ClientPayloadError", "ConnectionError",
    "HTTPClientError", "IncompleteRead", "OverloadedError", "ProtocolError", "ProxyError", "RateLimitError",
    "SSLError", "ServiceUnavailableError", "Timeout", "TimeoutError", "TimeoutExpired", "TransportError", "gaierror",
})  # fmt: skip
"""What clients call an error of the way to a server, a timeout, or a server that has too much to do."""
_MISTAKE_NAMES = frozenset({"LocalProtocolError", "UnsupportedProtocol"})
"""Errors among those that are mistakes of the caller: nothing has been sent."""
_TRANSIENT_NUMBERS = frozenset({
    errno.ENETDOWN, errno.ENETRESET, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL,
})  # fmt: skip
"""Errors of a connection for which Python has no class."""
_TRANSIENT_TYPES = frozenset({
    "api_error", "overloaded_error", "rate_limit_error", "server_error", "timeout_error",
    "ProvisionedThroughputExceededException", "RequestLimitExceeded", "Throttling", "ThrottlingException",
    "TooManyRequestsException",
})  # fmt: skip
"""What a provider calls it in its answer where the status does not say: 200 in a stream, 400 of Amazon."""


def is_transient(error: BaseException, retry: Retry) -> bool:
    """Whether the same call may well succeed soon: time-outs, connections, HTTP 408, 425, 429 and 5xx, overload.

    So is an error with a Retry-After. What an error group or `error.reason` holds counts as the error itself.
    """
    if isinstance(error, retry.transient):
        return True
    if retry.is_permanent(error):
        return False
    if isinstance(error, BaseExceptionGroup):
        return all(is_transient(one, retry) for one in error.exceptions)
    if isinstance(error, (TimeoutError, ConnectionError)) or _asked_ms(error, 0) is not None:
        return True
    names = {parent.__name__ for parent in type(error).__mro__}
    if names & _MISTAKE_NAMES:
        return False
    if _answer_type(error) in _TRANSIENT_TYPES:
        return True
    status = _http_status(error)
    if status is not None and status >= 300:
        return status in _TRANSIENT_STATUSES
    if names & _TRANSIENT_NAMES or (isinstance(error, OSError) and error.errno in _TRANSIENT_NUMBERS):
        return True
    within = _attribute(error, "reason")  # urllib and urllib3
    return isinstance(within, BaseException) and within is not error and is_transient(within, retry)


def _answer_type(error: BaseException) -> str | None:
    """What a provider calls an error in its answer: Anthropic, OpenAI, Amazon."""
    body, response = _attribute(error, "body"), _attribute(error, "response")
    found = (
        _header(_header(body, "error"), "type"),
        _header(body, "type"),
        _header(_header(response, "Error"), "Code"),
    )
    return next((one for one in found if isinstance(one, str)), None)


def _http_status(error: BaseException) -> int | None:
    """The HTTP status that an error carries, if it does."""
    response = _attribute(error, "response")
    found = (
        *(_attribute(error, name) for name in _STATUS_NAMES),
        *(_attribute(response, name) for name in _STATUS_NAMES),
        _header(_header(response, "ResponseMetadata"), "HTTPStatusCode"),  # botocore
    )
    return next((one for one in found if isinstance(one, int) and 100 <= one < 600), None)


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
    except Exception:  # a property of the error may raise, and the task must be judged all the same
        return None


def _header(headers: Any, name: str) -> Any:
    """A header, of a mapping or of a message of the email package, which is none; None if it is not there."""
    try:
        return headers.get(name)
    except Exception:  # whatever it is that is called headers there
        return None


def _number(text: Any) -> float | None:
    try:
        number = float(text)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def error_text(error: BaseException) -> str:
    """An error in one line, as a reason that a person reads; without secrets, because it is stored and logged."""
    name = type(error).__name__
    try:
        text = redacted(" ".join(str(error)[:LONGEST_READ].split()))
    except Exception:  # an error that cannot even say what it is must not keep its task from being judged
        return name
    notes = getattr(error, "__notes__", ())
    where = next((note for note in notes if isinstance(note, str) and note.startswith(IN_WRITE)), "")
    return f"{name}{text and f': {text}'}"[: 1_000 - len(where)] + (where and f" ({where})")
