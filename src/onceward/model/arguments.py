"""What callers of an app may ask for: looked at once, before any database sees it, so that both answer alike.

What cannot be meant is a `ConfigError` that says what can. What can be meant and cannot be there, as a task with a
number of a hundred digits, is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from onceward.errors import ConfigError, TaskNotFound

LARGEST_ID = 2**63 - 1
MOST_LISTED = 2**31 - 1
"""How much any list holds; a request for more gets as much."""
_LONGEST_SHOWN = 200

T = TypeVar("T")


class _Unset:
    def __repr__(self) -> str:
        return "as the setting says"


UNSET: Any = _Unset()
"""The default of an argument that the settings say where a program does not."""


def shown(value: object) -> str:
    """A value as an error quotes it: never endless, and never an error of its own."""
    try:
        text = repr(value)
    except Exception:  # a number of thousands of digits has no text, and of other people's classes anything may come
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant; None if none is like it."""
    import difflib  # only mistakes need it

    return next(iter(difflib.get_close_matches(word, list(known), 1, 0.75)), None)


def unknown_names(names: Sequence[str], known: Sequence[str]) -> str:
    """Unknown names, each with what was probably meant, or else with all that are known."""
    meant = {name: closest(name, known) for name in names}
    if all(meant.values()):
        return ", ".join(f"{name}; did you mean {word}?" for name, word in meant.items())
    return f"{', '.join(names)}; known are {', '.join(known)}"


def task_number(given: Any) -> int:
    """The number of a task; `TaskNotFound` of one that no database holds."""
    number = _whole(given)
    if number is None or number.bit_length() > _LONGEST_SHOWN:
        raise ConfigError(f"{shown(given)} is not the number of a task, which is a whole number like 17")
    if not 0 <= number <= LARGEST_ID:
        raise TaskNotFound(number)
    return number


def most_of(limit: Any) -> int:
    """How many a list may hold at most."""
    number = _whole(limit)
    if number is None or number < 1:
        raise ConfigError(f"limit={shown(limit)}: it is a whole number from 1")
    return min(number, MOST_LISTED)


def depth_of(depth: Any) -> int | None:
    """A depth to look from; None if none is asked for."""
    if depth is None:
        return None
    number = _whole(depth)
    if number is None or number < 0:
        raise ConfigError(f"min_depth={shown(depth)}: it is a whole number from 0")
    return min(number, 2**15 - 1)


def text_of(text: Any, what: str) -> str:
    """A text that both databases can be asked about: the name or the key of something."""
    if not isinstance(text, str):
        raise ConfigError(f"{shown(text)} is no {what}, which is a text")
    if not is_held(text):
        raise ConfigError(f"{shown(text)} is no {what}: there is none with NUL or half a character in it")
    return text


def some_text_of(text: Any, what: str) -> str | None:
    """Such a text; None if nothing is asked for."""
    return None if text is None else text_of(text, what)


def count_of(count: Any, name: str) -> int:
    """How many there are of something, as a stage tells it; what it has counted in fractions is cut, and what no
    database holds is as much as one does."""
    try:
        number = None if isinstance(count, bool | str | bytes) else int(count)
    except Exception:  # infinite, or nothing to count with
        number = None
    if number is None:
        raise ConfigError(f"{name}={shown(count)}: it is a number that one can count to")
    return min(max(number, -LARGEST_ID), LARGEST_ID)


def checked_whole(name: str, value: Any, least: int, most: int, *, none: str = "") -> None:
    """Refuse what is no whole number of a range; `none` says what None means, where None may be given."""
    if value is None and none:
        return
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ConfigError(
            f"{name}={shown(value)}: it is a whole number from {least} to {most:,}{none and f', or None {none}'}"
        )


def checked_flag(name: str, value: Any) -> None:
    """Refuse what is neither true nor false."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name}={shown(value)}: it is true or false")


def checked_word(name: str, value: Any, words: Sequence[str]) -> None:
    """Refuse what is none of some words."""
    if not isinstance(value, str) or value not in words:
        allowed = ", ".join(map(repr, words[:-1]))
        raise ConfigError(f"{name}={shown(value)}: it is {allowed} or {words[-1]!r}")


def checked_value(name: str, value: Any, kind: type[Any], example: str) -> None:
    """Refuse what is not a value of one of our classes, and show how one is made."""
    if not isinstance(value, kind):
        raise ConfigError(f"{name}={shown(value)}: it is made like {example}")


def checked_values(name: str, values: Any, kind: type[T], example: str) -> tuple[T, ...]:
    """Values of one of our classes, of any iterable; refused where one of them is something else."""
    given = tuple(values) if isinstance(values, Iterable) and not isinstance(values, str | bytes) else None
    if given is None or not all(isinstance(one, kind) for one in given):
        raise ConfigError(f"{name}={shown(values)}: it is a list of what is made like {example}")
    return given


def checked_function(name: str, value: Any, of: str) -> None:
    """Refuse what cannot be called; `of` says with what it will be."""
    if not callable(value):
        raise ConfigError(f"{name}={shown(value)}: it is a function of {of}")


def reason_of(reason: Any) -> str:
    """Why an operator does something."""
    if not isinstance(reason, str):
        raise ConfigError(f"reason={shown(reason)}: it is a text that says why")
    return reason


def is_held(text: str) -> bool:
    """Whether both databases hold a text as it is."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in text


def _whole(value: Any) -> int | None:
    """A whole number as a plain one; None if it is something else. What counts as one by itself, as the integers of
    NumPy do, is one; true and false are none."""
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        return None
    try:
        return int(value.__index__())
    except Exception:  # an array of NumPy has it, and refuses
        return None
