"""Telling a webhook: one POST with a time limit. Whatever goes wrong is an answer, never an error of the engine.

No redirect is followed: what an alert says goes to the address that was configured, and nowhere else.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from email.message import Message
from http.client import HTTPException
from typing import IO, NamedTuple

from onceward.alerts import Alert, json_body, slack_body

TIME_LIMIT_S = 10.0


class Told(NamedTuple):
    """What came of it."""

    is_told: bool
    is_away: bool = False
    """Nobody answered, so nobody will answer the next one either."""
    why: str = ""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirects)


def post(url: str, form: str, alert: Alert, *, time_limit_s: float = TIME_LIMIT_S) -> Told:
    """Tell a webhook of an alert."""
    body = slack_body(alert) if form == "slack" else json_body(alert)
    request = urllib.request.Request(
        url,
        data=json.dumps(body, ensure_ascii=False).encode(),
        headers={"Content-Type": "application/json; charset=utf-8", "User-Agent": "onceward"},
        method="POST",
    )
    try:
        with _opener.open(request, timeout=time_limit_s):
            return Told(True)
    except urllib.error.HTTPError as error:
        error.close()
        return Told(False, why=f"it answered {error.code}")
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        return Told(False, is_away=True, why=f"{type(error).__name__}: {reason}")
