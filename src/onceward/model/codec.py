"""Values as bytes: what is stored comes back equal on both databases, or is refused before anything is written.

JSON by msgspec, in a bytes column, never the database's own JSON type: PostgreSQL's refuses NUL and lone surrogates
that SQLite takes. NaN and the infinities are refused here, because JSON would silently turn them into null.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import inspect

from onceward.errors import ConfigError, PayloadError
from onceward.model.arguments import shown

LARGEST_VALUE = 16 * 1024 * 1024
"""The most bytes that a payload, a result, a cursor or a part may take."""

LONGEST_NAME = 2_000
"""The most bytes of a name by which something is found: PostgreSQL has no room for much more in an index."""

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What is raised where stored bytes are not what they should be: of another type, no JSON, or endlessly deep."""

_MISSING = re.compile(r"missing required field `([^`]+)`")
_encode = msgspec.json.Encoder(order="deterministic").encode


def misfit(error: BaseException) -> str:
    """Why stored bytes are not read as a type, and what the code could do about a field that is new."""
    new = _MISSING.search(str(error))
    return f"{error}; give `{new[1]}` a default" if new else str(error)


def encoded(value: Any, what: str, largest: int | None = LARGEST_VALUE) -> bytes:
    """The stored form of a value; `what` names it in the error if it has none, or takes more bytes than `largest`."""
    try:
        try:
            data = _encode(value)
        except TypeError:
            data = _encoded_with_text_keys(value)
    except UnicodeEncodeError as error:
        raise PayloadError(
            f"{what} holds a lone surrogate ({error.object[error.start : error.end]!r}), which is not text; "
            "clean it with text.encode('utf-8', 'replace').decode()"
        ) from error
    except (TypeError, OverflowError, ValueError, RecursionError) as error:
        raise PayloadError(f"{what} cannot be stored: {error}") from error
    if largest is not None and len(data) > largest:
        raise PayloadError(
            f"{what} takes {len(data):,} bytes, the limit is {largest:,}; store it elsewhere and pass where it is"
        )
    if _may_be_left_behind(data) and _has_no_json(value, what):
        raise PayloadError(f"{what} holds NaN or an infinity, which JSON cannot express; use None or a text")
    return data


def encoded_like(values: Sequence[Any], what: str) -> list[bytes]:
    """The stored forms of values of one type, each checked to read back as that type."""
    kind: Any = type(values[0])
    try:
        stored = list(map(_encode, values))
        list(map(decoder(kind), stored))
    except Exception:  # one of them at least is not as it should be: who it is and why is found out one by one
        return [encoded_as_itself(value, what) for value in values]
    if sum(map(len, stored)) > LARGEST_VALUE or (_reads_null(kind) and _may_be_left_behind(b"".join(stored))):
        return [encoded_as_itself(value, what) for value in values]
    return stored


def encoded_plainly(value: Any) -> bytes | None:
    """The stored form of a value that reads back as its own type; None where that takes a closer look."""
    kind: Any = type(value)
    try:
        data = _encode(value)
        decoder(kind)(data)
    except Exception:
        return None
    return None if len(data) > LARGEST_VALUE or (_reads_null(kind) and _may_be_left_behind(data)) else data


def encoded_as_itself(value: Any, what: str) -> bytes:
    """The stored form of a value, checked to read back as its own type.

    msgspec checks types when it reads, not when an object is made: a wrong type must be the caller's error now,
    not a task that fails later.
    """
    data = encoded(value, what)
    try:
        decoder(type(value))(data)
    except msgspec.ValidationError as error:
        raise PayloadError(f"{what} does not fit its own types: {error}") from error
    except RecursionError as error:
        raise PayloadError(f"{what} cannot be stored: it is nested too deeply") from error
    return data


def _may_be_left_behind(data: bytes) -> bool:
    """Whether NaN or an infinity may have left this behind, as a value or as a key: only then is the value looked
    through."""
    return b"null" in data or b'nan":' in data or b'inf":' in data


_READ_NO_NULL = (
    inspect.BoolType, inspect.IntType, inspect.FloatType, inspect.StrType, inspect.BytesType, inspect.DecimalType,
    inspect.UUIDType, inspect.DateTimeType, inspect.DateType, inspect.TimeType, inspect.TimeDeltaType, inspect.EnumType,
)  # fmt: skip


@lru_cache(maxsize=1_024)
def _reads_null(expected: Any) -> bool:
    """Whether what NaN or an infinity leaves behind, a null or a key, could be read back as a type; a struct of plain
    fields refuses it."""
    looked_at: set[int] = set()
    left: list[inspect.Type] = [inspect.type_info(expected)]
    while left:
        one = left.pop()
        if id(one) in looked_at or isinstance(one, _READ_NO_NULL):
            continue
        looked_at.add(id(one))
        match one:
            case inspect.StructType(fields=fields):
                left += [field.type for field in fields]
            case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
                left.append(item)
            case inspect.TupleType(item_types=items):
                left += items
            case _:
                return True
    return False


def checked_name(name: str, what: str, longest: int | None = LONGEST_NAME) -> str:
    """A name that both databases hold: of a signal, or of a part of a stage."""
    if not isinstance(name, str) or not name or not name.isprintable():
        raise ConfigError(f"{shown(name)} is no name of {what}; take a short printable one")
    if longest is not None and len(name.encode()) > longest:
        raise ConfigError(
            f"the name {name[:100]!r}… of {what} has more than {longest:,} bytes; take a shorter one, or a hash of it"
        )
    return name


def _encoded_with_text_keys(value: Any) -> bytes:
    """The stored form of a value with keys that are no text: to be in a fixed order they are written as text."""
    data = _encode(msgspec.to_builtins(value, str_keys=True))
    if _count_of_keys(data) < _count_of_keys(msgspec.json.encode(value)):  # which writes all, in whatever order
        raise ValueError("two keys of a dict are the same when written as text, as 1 and '1' are") from None
    return data


def _count_of_keys(data: bytes) -> int:
    """How many keys stand in the objects of a JSON document, also those that stand there twice."""
    count = 0

    def look_at(pairs: list[tuple[str, Any]]) -> None:
        nonlocal count
        count += len(pairs)

    json.loads(data, object_pairs_hook=look_at)
    return count


def _has_no_json(value: Any, what: str) -> bool:
    """Whether a float that JSON cannot express hides anywhere in a value."""
    try:
        left = [msgspec.to_builtins(value)]
    except RecursionError as error:
        raise PayloadError(f"{what} cannot be stored: it is nested too deeply") from error
    while left:
        one = left.pop()
        if isinstance(one, float):
            if not math.isfinite(one):
                return True
        elif isinstance(one, dict):
            left += one
            left += one.values()
        elif isinstance(one, list | tuple | set | frozenset):
            left += one
    return False


_decoders: dict[Any, Callable[[bytes], Any]] = {}


def decoder(expected: Any) -> Callable[[bytes], Any]:
    """The function that reads stored bytes as a type; it raises `msgspec.ValidationError` where they do not fit."""
    try:
        return _decoders[expected]
    except KeyError:
        _decoders[expected] = decode = msgspec.json.Decoder(expected).decode
        return decode


def digest128(*parts: bytes) -> bytes:
    """A 128-bit hash of byte strings, each with its length, so that no two lists of parts collide by concatenation."""
    whole = b"".join([len(part).to_bytes(8, "big") + part for part in parts])
    return hashlib.blake2b(whole, digest_size=16).digest()


@lru_cache(maxsize=1_024)
def _begun(first: str) -> hashlib.blake2b:
    name = first.encode()
    return hashlib.blake2b(len(name).to_bytes(8, "big") + name, digest_size=16)


def digest128_of(first: str, second: bytes) -> bytes:
    """`digest128(first, second)`, for a first part that comes often."""
    hashed = _begun(first).copy()
    hashed.update(len(second).to_bytes(8, "big") + second)
    return hashed.digest()


def digests128(first: bytes, seconds: Sequence[bytes]) -> list[bytes]:
    """`digest128(first, second)` for each of the second parts; what stands before is hashed once for each length."""
    before = len(first).to_bytes(8, "big") + first
    begun = {
        length: hashlib.blake2b(before + length.to_bytes(8, "big"), digest_size=16).copy
        for length in set(map(len, seconds))
    }
    digests = []
    for second in seconds:
        hashed = begun[len(second)]()
        hashed.update(second)
        digests.append(hashed.digest())
    return digests
