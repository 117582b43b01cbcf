"""Telling a webhook: one POST with a time limit. Whatever goes wrong is an answer, never an error of the engine.

No redirect is followed: what an alert says goes to the address that was configured, and nowhere else.
"""

from __future__ import annotations

from http.client import HTTPException
from typing import NamedTuple
from urllib.error import HTTPError

from onceward.support import http_post
from onceward.views.alerts import Alert, json_body, slack_body

TIME_LIMIT_S = 10.0
HEADERS = {"Content-Type": "application/json; charset=utf-8"}


class Delivery(NamedTuple):
    """What came of it."""

    is_delivered: bool
    is_away: bool = False
    """No answer came, so none will come to the next one either."""
    why: str = ""


def post(url: str, form: str, alert: Alert, *, time_limit_s: float = TIME_LIMIT_S) -> Delivery:
    """Tell a webhook of an alert."""
    body = slack_body(alert) if form == "slack" else json_body(alert)
    try:
        http_post.post(url, body, HEADERS, time_limit_s=time_limit_s)
        return Delivery(True)
    except HTTPError as error:
        return Delivery(False, why=f"it answered {error.code}")
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        return Delivery(False, is_away=True, why=f"{type(error).__name__}: {reason}")
