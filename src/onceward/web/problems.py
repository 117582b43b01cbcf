"""Errors as answers: the status of each, and for the JSON API what RFC 9457 has: a type, a title, a sentence."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

from onceward.errors import (
    BatchNotFound,
    BudgetNotFound,
    BulkNotFound,
    ConfigError,
    FilterError,
    IllegalTransition,
    LineageNotFound,
    OncewardError,
    ScheduleNotFound,
    SourceNotFound,
    StoreError,
    TaskChanged,
    TaskNotFound,
)
from onceward.support.redaction import redacted
from onceward.web.view import NotThere, TooLarge, TooSlow

LONGEST_SENTENCE = 2_000


class BadRequest(ConfigError):
    """A request to the API that cannot be read: with the status of the answer, and the place of the mistake."""

    def __init__(self, sentence: str, *, status: int = 400, at: str | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.at = at


STATUSES: tuple[tuple[type[OncewardError], int], ...] = (
    (StoreError, 503),
    (TaskNotFound, 404),
    (LineageNotFound, 404),
    (BatchNotFound, 404),
    (BulkNotFound, 404),
    (BudgetNotFound, 404),
    (ScheduleNotFound, 404),
    (SourceNotFound, 404),
    (NotThere, 404),
    (TooLarge, 413),
    (TooSlow, 408),
    (IllegalTransition, 409),
    (TaskChanged, 412),
    (OncewardError, 400),
)
"""The status of an error: the first that fits."""


def status_of(error: OncewardError) -> int:
    """Return the status with which an error is answered."""
    if isinstance(error, BadRequest):
        return error.status
    return next(status for kind, status in STATUSES if isinstance(error, kind))


def problem(status: int, detail: str, **more: Any) -> Response:
    """Return an error as `application/problem+json`; `more` are members of its own, such as the place of a mistake."""
    sentence = redacted(detail)[:LONGEST_SENTENCE].encode("utf-8", "replace").decode()
    document = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": sentence}
    headers = {"Cache-Control": "no-store"}
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = "3"
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    encoded = msgspec.json.encode({**document, **more})
    return Response(encoded, status, headers, "application/problem+json")


def problem_of(error: OncewardError) -> Response:
    """Return an error as an answer of the API, with the place of the mistake where that is known."""
    more: dict[str, Any] = {}
    if isinstance(error, FilterError):
        more = {"at": "filter", "position": error.position, "length": error.length}
    elif isinstance(error, BadRequest) and error.at is not None:
        more = {"at": error.at}
    return problem(status_of(error), str(error), **more)
