"""Secrets do not get into the database or the log by way of an error.

The texts of errors, reasons and log lines go through `redacted`. It takes out what looks like a secret wherever it
stands (passwords in addresses, keys of providers, headers), and what is known to be one in this process: the values of
environment variables that are called so, looked at when an app is made, and what it was told. What an application
stores itself, as payload or result, is its own and stays as it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import quote, unquote

GONE = "[redacted]"
SHORTEST_KNOWN = 6
"""A shorter value is not looked for: it would be found in words that have nothing to do with it."""

_SECRET_WORDS = frozenset({
    "KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "APIKEY", "CREDENTIAL", "CREDENTIALS",
})  # fmt: skip
_PASSWORDS = re.compile(r"://[^\s/@:'\"<>]*:([^\s/'\"<>]+)@|[?& ]password=([^&\s]+)")
_NAMES = (
    r"api[_-]?key|apikey|access[_-]?key(?:[_-]?id)?|secret[_-]?(?:access[_-]?)?key|private[_-]?key|client[_-]?secret"
    r"|(?:access|refresh|auth|id|session|bearer|api)[_-]?token|x-[\w-]{0,40}(?:key|token)|authorization|passw(?:or)?d"
    r"|passphrase|pwd|secret|credentials?|signature|sig"
)
_IS = r"(\\?['\"]?\s{0,3}[:=]\s{0,3}(?:b(?=['\"]))?\\?['\"]?)"
"""What stands between a name and its value, in headers, addresses, JSON and as Python shows it."""
_NO_VALUE = (
    r"(?!\s{0,3}b?\\?['\"]?\[redacted|(?:is|was|are|has|have|must|may|can|cannot|should|not|no|too|the|an?|and|or|for|of|in|required"
    r"|missing|invalid|expired|empty|none|null|true|false|unknown|wrong|field|value)\b)"
)
"""What follows a name in a sentence about it, or in a text that has been looked through already."""


def _gone_if_dotted(found: re.Match[str]) -> str:
    return GONE if "." in found[0] else found[0]


_PATTERNS: tuple[tuple[tuple[str, ...], str, str | Callable[[re.Match[str]], str]], ...] = (
    (
        ("private key",),
        r"(?s)-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|$)",
        GONE,
    ),
    (("://",), r"(?<=://)[^\s/'\"<>]{1,500}@", f"{GONE}@"),
    (("cookie",), rf"(?i)\b((?:set-)?cookie){_IS}[^\n'\"]+", rf"\1\2{GONE}"),
    (
        ("key", "token", "auth", "pass", "pwd", "secret", "credential", "sig"),
        rf"(?i)\b({_NAMES}){_IS}{_NO_VALUE}(?:(?:bearer|basic|token|digest)\s+)?[^\s'\"\\,;&)}}\]]+",
        rf"\1\2{GONE}",
    ),
    (("?", "&"), r"(?i)([?&](?:key|token|auth|jwt)=)(?!\[redacted)[^&#\s'\"<>]+", rf"\1{GONE}"),
    (
        ("token", "auth"),
        rf"(?i)\b(token|auth){_IS}(?=[\w.~+/=-]{{0,60}}\d)[\w.~+/=-]{{12,}}",
        rf"\1\2{GONE}",
    ),
    (
        ("bearer", "basic", "token"),
        r"(?i)\b(bearer|basic|token)\s{1,3}(?=[\w.~+/-]{0,60}[\d=])[\w.~+/=-]{8,}",
        rf"\1 {GONE}",
    ),
    (
        ("sk-", "k_", "gh", "pat", "xox", "hf_", "npm_", "pypi-", "whsec", "ia", "ya29", "sg."),
        (
            r"\b(?:sk-[\w-]{8,}|[rps]k_(?:live|test)_\w{8,}|gh[pousr]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}"
            r"|xox[abeoprs]-[\w-]{8,}|hf_\w{16,}|npm_\w{16,}|pypi-[\w-]{16,}|whsec_\w{8,}|A[KS]IA[0-9A-Z]{16}"
            r"|AIza[\w-]{30,}|ya29\.[\w-]{8,}|SG\.[\w-]{8,}\.[\w-]{8,})"
        ),
        GONE,
    ),
    # A JSON web token. What has no dot is none, but is taken as a whole, or each `eyJ` in it would be a beginning.
    (("eyj",), r"\beyJ[\w-]{8,}(?:\.[\w-]{4,}(?:\.[\w-]*)?)?", _gone_if_dotted),
)
"""What a secret looks like; and, in small letters, of what one must be there for it to be worth looking."""

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
        elif not _SECRET_WORDS.isdisjoint(name.upper().split("_")) and not value.startswith(("/", "./", "~")):
            know_secret(value)


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
    for hints, pattern, instead in _PATTERNS:
        if any(hint in small for hint in hints):
            text = re.sub(pattern, instead, text)  # compiled where one is first needed: few processes meet all
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
    return re.fullmatch(rf"{_NAMES}|(?:set-)?cookie", name, re.I) is not None


def _passwords(address: str) -> Iterator[str]:
    for found in _PASSWORDS.finditer(address):
        yield from _spellings(found[1] or found[2])


def _spellings(value: str) -> Iterator[str]:
    """A secret as it is, and as it is written in an address."""
    for one in (value, unquote(value), quote(value, safe="")):
        if len(one) >= SHORTEST_KNOWN:
            yield one


def _as_pattern(value: str) -> str:
    """What finds a secret; one that is a plain word is not looked for in longer words."""
    return rf"(?<![A-Za-z]){value}(?![A-Za-z])" if value.isascii() and value.isalpha() else re.escape(value)
