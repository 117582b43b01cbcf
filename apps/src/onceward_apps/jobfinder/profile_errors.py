"""Errors of a profile in words: where it is wrong, and what is allowed there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

_KINDS: Mapping[str, str] = MappingProxyType({
    "int": "a whole number", "float": "a number", "str": "a text in quotes", "bool": "true or false",
    "array": "a list in brackets", "object": "a table", "null": "nothing",
})  # fmt: skip
_TYPES = re.compile(r"Expected `([\w |]+)`, got `(\w+)`")
_VALUE = re.compile(r"Invalid enum value (.+)", re.DOTALL)
_FIELD = re.compile(r"Object contains unknown field `(.+)`", re.DOTALL)


def explained(error: msgspec.ValidationError, shape: type[msgspec.Struct], data: dict[str, Any]) -> str:
    """What is wrong with the data of a shape, and what is allowed there."""
    said, _, at = str(error).partition(" - at `$")
    path = re.sub(r"\[.*?\]", "", at.rstrip("`")).strip(".")
    where = path or "the profile"
    if found := _VALUE.match(said):
        return f"{where}: {found[1]} is none of {', '.join(map(str, _allowed(shape, path)))}"
    if found := _FIELD.match(said):
        return f"{where} has no {found[1]!r}; it may have {', '.join(_allowed(shape, path))}"
    if found := _TYPES.match(said):
        expected = " or ".join(_KINDS.get(word, word) for word in found[1].split(" | "))
        key = _wrong_key(data.get(path)) if at.endswith("[...]`") else None
        place = f"{where}.{key}" if key else where
        return f"{place}: {expected} is expected, not {_KINDS.get(found[2], found[2])}"
    return f"{where}: {said}"


def _allowed(shape: Any, path: str) -> tuple[Any, ...]:
    """The names or values that are allowed at a path: of a table its keys, of a choice its words."""
    for name in filter(None, path.split(".")):
        shape = get_type_hints(shape).get(name)
    while get_origin(shape) is tuple:
        shape = get_args(shape)[0]
    if get_origin(shape) is Literal:
        return get_args(shape)
    return tuple(getattr(shape, "__struct_fields__", ()))


def _wrong_key(table: Any) -> str | None:
    """The first key of a table of numbers that holds none."""
    pairs = table.items() if isinstance(table, dict) else ()
    return next((key for key, value in pairs if not isinstance(value, int) or isinstance(value, bool)), None)
