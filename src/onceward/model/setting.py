"""Settings: values with a name, a type and a sentence on what they are for.

A value is said in a file, in the environment or in the database. There it is a text; here is what the text means.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from onceward.errors import ConfigError, PayloadError
from onceward.model import codec
from onceward.model.arguments import is_held, shown
from onceward.model.times import milliseconds

Where = Literal["code", "file", "environment", "live"]
"""Where a value was said, the last of which has the last word."""

RESERVED = frozenset({"app", "db", "debug", "log", "crash_point", "demo_db"})
"""Names whose variables mean something else already: ONCEWARD_APP, ONCEWARD_DB, …"""

_NAME = re.compile(r"(?=.{1,100}\Z)[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*")
_WORDS = {
    "1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False,
}  # fmt: skip
_NOT_ONE = (ValueError, TypeError, OverflowError, ConfigError, PayloadError)
"""What is raised where a value is not of the type that a setting has."""
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of settings: from a text to what it means, and from a value to its text."""

    word: str
    what: str
    _read: Callable[[str], Any]
    _written: Callable[[Any], str]

    def value(self, text: str, name: str) -> Any:
        """What a text means; refused under `name` where it means nothing."""
        try:
            value = self._read(text)
            self._written(value)
        except (*_NOT_ONE, KeyError, msgspec.DecodeError) as error:
            raise ConfigError(f"{name}={shown(text)}: it is {self.what}") from error
        return value

    def text(self, value: Any, name: str) -> str:
        """A value as a text; refused under `name` where it is of another type."""
        try:
            return self._written(value)
        except _NOT_ONE as error:
            raise ConfigError(f"{name}={shown(value)}: it is {self.what}") from error


def exact_duration_text(length_ms: int) -> str:
    """A duration to the millisecond, as short as it can be: `5_400_000` is "1h30m"."""
    parts = []
    for unit, size in _UNITS:
        count, length_ms = divmod(length_ms, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def _whole(value: Any) -> str:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    return str(value)


def _real(value: Any) -> str:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise TypeError
    return repr(float(value))


def _plain(value: Any) -> str:
    if not isinstance(value, str) or "\x00" in value:
        raise TypeError
    value.encode()  # half a character is none
    return value


def _truth(value: Any) -> str:
    if not isinstance(value, bool):
        raise TypeError
    return "true" if value else "false"


INT = Kind("int", "a whole number", int, _whole)
FLOAT = Kind("float", "a number", float, _real)
STR = Kind("str", "a text", str, _plain)
DURATION = Kind(
    "duration",
    "a duration like '90s', '5m' or '1h30m'",
    lambda text: timedelta(milliseconds=milliseconds(text)),
    lambda value: exact_duration_text(milliseconds(value)),
)
BOOL = Kind("bool", "true or false", lambda text: _WORDS[text.strip().lower()], _truth)
JSON = Kind(
    "json",
    "a value in JSON",
    lambda text: msgspec.json.decode(text.encode()),
    lambda value: codec.encoded(value, "a setting").decode(),
)
KINDS: Mapping[Any, Kind] = {
    int: INT, float: FLOAT, str: STR, bool: BOOL,
    **{kind.word: kind for kind in (INT, FLOAT, STR, DURATION, BOOL, JSON)},
}  # fmt: skip


def as_variable(name: str) -> str:
    """A name as it stands in the environment, behind the prefix: `match.min_score` is MATCH_MIN_SCORE."""
    return name.upper().replace(".", "_")


def kind_of_annotation(annotation: str) -> Kind:
    """The kind of a field by how it is annotated: `int`, `Duration | None`, …"""
    if "Duration" in annotation:
        return DURATION
    return KINDS.get(annotation.removesuffix(" | None"), STR)


@dataclass(frozen=True, slots=True)
class Setting:
    """A value that an application lets be changed from outside: `Setting("page_size", 50, int, "Rows read at once.")`.

    Types are int, float, str, bool, "duration" (read as a `timedelta`) and "json".
    """

    name: str
    default: Any
    type: type[Any] | Literal["int", "float", "str", "bool", "duration", "json"]
    about: str
    kind: Kind = field(init=False, repr=False)
    text: str = field(init=False, repr=False)
    """Its default, as a text."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"{shown(self.name)} is no name for a setting; take small letters, digits and underscores, and "
                "dots between words"
            )
        if as_variable(self.name) in map(as_variable, RESERVED):
            raise ConfigError(f"a setting cannot be called {self.name!r}: ONCEWARD_{as_variable(self.name)} is taken")
        try:
            kind = KINDS[self.type]
        except (KeyError, TypeError):
            raise ConfigError(
                f"setting {self.name!r}: type={shown(self.type)}; it is int, float, str, bool, 'duration' or 'json'"
            ) from None
        if not isinstance(self.about, str) or not self.about.strip() or not is_held(self.about):
            raise ConfigError(f"setting {self.name!r}: say in a sentence what it is for")
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "text", kind.text(self.default, f"setting {self.name!r}: default"))


@dataclass(frozen=True, slots=True)
class SettingValue:
    """A setting as it is in force: its value, where that was said, and who has changed it live and when."""

    name: str
    value: Any
    default: Any
    type: str
    about: str
    where: Where
    changed_at: datetime | None
    changed_by: str | None
    why_fixed: str | None
    """Why it cannot be changed live, if it cannot."""
    is_secret: bool = False
    """Whether its value is for those who know it already: screens do not show it."""
