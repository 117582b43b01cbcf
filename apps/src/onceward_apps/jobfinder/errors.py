"""What a fetch or a board may end with, other than an answer.

FetchError
├── Refused       never worth a retry: we will not, or the answer is of no use
├── Gone          the page is not there (404, 410)
└── Unavailable   worth a retry; the engine reads its `retry_after`
Drifted           an answer came, but not in the shape that we know: the source is to be marked
"""

from __future__ import annotations

from enum import StrEnum


class RefusedReason(StrEnum):
    """Why a fetch will not be tried again."""

    BAD_URL = "bad_url"
    SCHEME = "scheme"
    USERINFO = "userinfo"
    PORT = "port"
    NOT_PUBLIC = "not_public"
    UNKNOWN_HOST = "unknown_host"
    ROBOTS = "robots"
    WRONG_TYPE = "wrong_type"
    TOO_LARGE = "too_large"
    BAD_ENCODING = "bad_encoding"
    TOO_MANY_REDIRECTS = "too_many_redirects"
    REDIRECT_LOOP = "redirect_loop"
    BAD_REDIRECT = "bad_redirect"
    CERTIFICATE = "certificate"
    STATUS = "status"


class UnavailableReason(StrEnum):
    """Why a fetch may succeed later."""

    DNS = "dns"
    CONNECT = "connect"
    TIMEOUT = "timeout"
    BROKEN_OFF = "broken_off"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    REDIRECTED = "redirected"
    BOT_CHECK = "bot_check"
    ROBOTS_UNREACHABLE = "robots_unreachable"


class FetchError(Exception):
    """A fetch that gave no page."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class Refused(FetchError):
    """A fetch that is not worth a retry, and why."""

    def __init__(self, reason: RefusedReason, detail: str, *, status: int | None = None) -> None:
        super().__init__(detail)
        self.reason = reason
        self.status = status

    def __reduce__(self) -> tuple[object, ...]:
        return _refused, (self.reason, self.detail, self.status)


class Gone(FetchError):
    """There is no such page: it answered 404 or 410."""

    def __init__(self, detail: str, status: int = 404) -> None:
        super().__init__(detail)
        self.status = status

    def __reduce__(self) -> tuple[object, ...]:
        return Gone, (self.detail, self.status)


class Unavailable(FetchError, ConnectionError):
    """A fetch that may succeed later.

    It is a ConnectionError, so that the engine retries it and counts it against its source; `retry_after` is the time
    in seconds that the server asked for, and moves the source.
    """

    def __init__(
        self,
        reason: UnavailableReason,
        detail: str,
        *,
        retry_after_s: float | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.reason = reason
        self.retry_after_s = retry_after_s
        self.status = status

    @property
    def retry_after(self) -> float | None:
        """The name under which the engine looks for it."""
        return self.retry_after_s

    def __reduce__(self) -> tuple[object, ...]:
        return _unavailable, (self.reason, self.detail, self.retry_after_s, self.status)


class Drifted(Exception):
    """A board answered, but not in the shape that its reader knows."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class NoListFound(Drifted):
    """A page without an interface on which no list of jobs was recognised."""


def _refused(reason: RefusedReason, detail: str, status: int | None) -> Refused:
    return Refused(reason, detail, status=status)


def _unavailable(
    reason: UnavailableReason, detail: str, retry_after_s: float | None, status: int | None
) -> Unavailable:
    return Unavailable(reason, detail, retry_after_s=retry_after_s, status=status)
