"""Errors of the JSON API, as RFC 9457 has them: a type, a title, a status and a sentence that says what is wrong."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response


def problem(status: int, detail: str, **more: Any) -> Response:
    """Return an error as `application/problem+json`; `more` are members of its own, such as the place of a mistake."""
    document = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail, **more}
    return Response(msgspec.json.encode(document), status_code=status, media_type="application/problem+json")
