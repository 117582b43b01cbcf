"""Secrets do not get into the database or the log by way of an error.

The texts of errors, reasons and log lines go through `redacted`. It takes out what looks like a secret wherever it
stands (passwords in addresses, keys of providers, headers), and what is known to be one in this process: the values of
environment variables that are called so, looked at when an app is made, and what it was told. What an application
stores itself, as payload or result, is its own and stays as it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, unquote

from onceward.support.secret_forms import GONE, HINTS, SECRET_NAME

SHORTEST_KNOWN = 6
"""A shorter value is not looked for: it would be found in words that have nothing to do with it."""

_SECRET_WORDS = frozenset({
    "KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "APIKEY", "CREDENTIAL", "CREDENTIALS", "PWD",
})  # fmt: skip
_SECRET_ENDS = ("PASSWORD", "PASSWD", "APIKEY", "TOKEN", "SECRET")
_PASSWORDS = re.compile(r"://[^/@:]*:(.+)@|(?:^|[?&\s])(?:ssl)?password\s?=\s?(?:'((?:\\.|[^'])+)'|([^&\s]+))")

_known: set[str] = set()
_known_pattern: re.Pattern[str] | None = None


def know_secret(value: str | None) -> None:
    """From now on this is taken out of every text of this process."""
    _know(_spellings(value or ""))


def know_address(address: str) -> None:
    """From now on the password in an address is taken out of every text of this process."""
    _know(_passwords(address))


def know_environment() -> None:
    """From now on what the environment calls a secret is taken out, and the passwords of addresses in it."""
    for name, value in os.environ.items():
        if "://" in value:
            know_address(value)
        elif name.upper().endswith(_SECRET_ENDS) or not _SECRET_WORDS.isdisjoint(name.upper().split("_")):
            know_secret(None if value.startswith(("/", "./", "~")) else value)


def _know(values: Iterable[str]) -> None:
    global _known_pattern
    before = len(_known)
    _known.update(values)
    if len(_known) > before:
        longest_first = sorted(_known, key=len, reverse=True)
        _known_pattern = re.compile("|".join(map(_as_pattern, longest_first)))


def redacted(text: str) -> str:
    """A text without secrets."""
    if _known_pattern is not None:
        text = _known_pattern.sub(GONE, text)
    small = text.lower()
    tried = None
    for hint, form in HINTS:
        if hint in small and form is not tried:
            text = re.sub(form.pattern, form.instead, text)  # compiled where first needed: few processes meet all
            tried = form
    return text


def redacted_value(value: Any, name: str = "") -> Any:
    """A value that is to be logged without secrets; one that would show some, as a text without them."""
    if isinstance(value, str):
        return GONE if value and _is_secret_name(name) else redacted(value)
    if isinstance(value, dict):
        return {key: redacted_value(one, str(key)) for key, one in value.items()}
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(redacted_value(one, name) for one in value)
    if value is None or isinstance(value, bool | int | float):
        return value
    shown = repr(value)
    without = redacted(shown)
    return value if without == shown else without


def _is_secret_name(name: str) -> bool:
    return re.search(rf"(?:{SECRET_NAME}|(?:set-)?cookie)\Z", name, re.I) is not None


def _passwords(address: str) -> Iterator[str]:
    for found in _PASSWORDS.finditer(address):
        yield from _spellings(found[1] or found[2] or found[3])


def _spellings(value: str) -> Iterator[str]:
    """A secret as it is, and as it is written in an address."""
    for one in (value, unquote(value), quote(value, safe="")):
        if len(one) >= SHORTEST_KNOWN:
            yield one


def _as_pattern(value: str) -> str:
    """What finds a secret; one that is a plain word is not looked for in longer words."""
    return rf"(?<![A-Za-z]){value}(?![A-Za-z])" if value.isascii() and value.isalpha() else re.escape(value)
