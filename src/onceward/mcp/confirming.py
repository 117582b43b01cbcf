"""Confirmations: an action is previewed first, and carried out by a second call with the token of that preview.

A token is bound to the action, its arguments and the facts that the preview has shown. It is good once, and for five
minutes; when the facts have changed since, the action is refused and previewed anew.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from onceward.errors import ConfigError

GOOD_FOR_MS = 300_000
MOST_OPEN = 100
"""How many previews wait for their confirmation; the oldest give way."""


class NotConfirmed(ConfigError):
    """A token that confirms nothing: unknown, used, expired, or of another preview."""


@dataclass(frozen=True, slots=True)
class _Preview:
    action: str
    arguments: Mapping[str, Any]
    facts: object
    expires_at: int


class Confirmations:
    """The previews of one server that wait for their confirmation."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._open: dict[str, _Preview] = {}

    def offer(self, action: str, arguments: Mapping[str, Any], facts: object) -> str:
        """Keep a preview and return the token that confirms it."""
        while len(self._open) >= MOST_OPEN:
            del self._open[next(iter(self._open))]
        token = secrets.token_hex(6)
        self._open[token] = _Preview(action, arguments, facts, self._now() + GOOD_FOR_MS)
        return token

    def take(self, token: str, action: str, arguments: Mapping[str, Any], facts: object) -> None:
        """Use up a token; refuse one that does not confirm this action on these facts."""
        preview = self._open.pop(token, None)
        if preview is None:
            raise NotConfirmed("this token is not known or was used; call without `confirm` for a new preview")
        if self._now() > preview.expires_at:
            raise NotConfirmed("this token has expired after five minutes; call without `confirm` for a new preview")
        if (preview.action, preview.arguments) != (action, arguments):
            raise NotConfirmed("this token belongs to another preview; repeat its action with the same arguments")
        if preview.facts != facts:
            raise NotConfirmed("what the preview showed has changed since; call without `confirm` for a new preview")
