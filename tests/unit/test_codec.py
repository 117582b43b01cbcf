"""Values as bytes: what is stored comes back equal, and what could not is refused by name before it is written."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from onceward import PayloadError
from onceward.model import codec
from onceward.model.codec import LARGEST_VALUE, decoder, digest128, encoded


class Point(msgspec.Struct):
    x: Any
    y: Any = None


@dataclass
class Pair:
    left: Any
    right: Any = None


class Colour(Enum):
    RED = "red"


values = some.recursive(
    some.none()
    | some.booleans()
    | some.integers(-(10**20), 10**20)
    | some.floats(allow_nan=False, allow_infinity=False)
    | some.text(some.characters(exclude_categories=["Cs"])),
    lambda inner: (
        some.lists(inner, max_size=4) | some.dictionaries(some.text("ab\x00ü", max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(values)
def test_what_json_can_say_comes_back_equal(value: Any) -> None:
    assert decoder(Any)(encoded(value, "it")) == value


@pytest.mark.parametrize(
    ("value", "type"),
    [
        ("a\x00b", str),
        (10**20, int),
        (-(10**20), int),
        (2**63, int),
        (1e308, float),
        (b"\x00\xff", bytes),
        (datetime(2026, 1, 1, tzinfo=UTC), datetime),
        (date(2026, 1, 1), date),
        (UUID(int=7), UUID),
        (Decimal("1.10"), Decimal),
        (Colour.RED, Colour),
        ({1: "one", 20: "twenty"}, dict[int, str]),
        ({date(2026, 1, 1): [1]}, dict[date, list[int]]),
        ({3, 1, 2}, set[int]),
        ((1, "a"), tuple[int, str]),
        (Point(1, {2: Pair(3)}), None),
        (None, type(None)),
    ],
)
def test_a_value_comes_back_as_its_type(value: Any, type: Any) -> None:
    data = encoded(value, "it")
    if type is not None:
        assert decoder(type)(data) == value


@given(some.dictionaries(some.text(some.characters(exclude_categories=["Cs"]), max_size=3), some.integers()))
def test_the_order_in_which_a_dict_was_filled_does_not_matter(value: dict[str, int]) -> None:
    backwards = dict(reversed(value.items()))
    assert encoded(value, "it") == encoded(backwards, "it")


def test_keys_that_are_numbers_are_in_a_fixed_order_too() -> None:
    assert encoded({2: "b", 10: "a"}, "it") == encoded({10: "a", 2: "b"}, "it")


HIDDEN: list[Any] = [
    lambda value: value,
    lambda value: [1, [2, [value]]],
    lambda value: (value,),
    lambda value: {value},
    lambda value: {"a": {"b": value}},
    lambda value: {value: "as a key"},
    lambda value: {1: value},
    lambda value: Point(value),
    lambda value: Pair(1, value),
    lambda value: Point([Pair({"deep": (Point(1, value),)})]),
    lambda value: [None, "null", {"nan": 1}, value],
]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("hide", HIDDEN)
def test_nan_and_infinities_are_found_wherever_they_hide(number: float, hide: Any) -> None:
    with pytest.raises(PayloadError, match="the payload Listing holds NaN or an infinity"):
        encoded(hide(number), "the payload Listing")


@pytest.mark.parametrize(
    "value", [None, [None], {"nan": None}, "null", {"null": "nan"}, Point(None), Pair("inf"), {"inf": 1}, {"nan": 2}]
)
def test_what_only_looks_like_one_is_taken(value: Any) -> None:
    assert encoded(value, "it")


@pytest.mark.parametrize("value", ["\ud800", "tail \udfff", ["\ud800"], {"\udc00": 1}, Point("\ud83d"), {1: "\ud800"}])
def test_a_lone_surrogate_is_refused_with_a_way_to_clean_it(value: Any) -> None:
    with pytest.raises(PayloadError, match=r"the result holds a lone surrogate .*encode\('utf-8', 'replace'\)"):
        encoded(value, "the result")


@pytest.mark.parametrize("value", [object(), [object()], {(1, 2): 3}, {None: 1}, 1j, print, Point(object())])
def test_what_cannot_be_stored_is_refused_by_name(value: Any) -> None:
    with pytest.raises(PayloadError, match="the cursor cannot be stored"):
        encoded(value, "the cursor")


def test_keys_that_are_small_numbers_are_taken() -> None:
    assert encoded({1e-5: {2: 1}}, "this") == b'{"1e-05":{"2":1}}'


@pytest.mark.parametrize(
    "value",
    [{1: "a", "1": "b"}, [{"x": {2.5: 1, "2.5": 2}}], {date(2026, 1, 2): 1, "2026-01-02": 2}, {1e-5: 1, "1e-05": 2}],
)
def test_keys_that_would_be_the_same_text_are_refused(value: Any) -> None:
    """One of the values would be gone, and nobody would know."""
    with pytest.raises(PayloadError, match="the same when written as text"):
        encoded(value, "this")


@pytest.mark.parametrize("depth", [500, 3_000, 50_000])
def test_what_is_nested_too_deeply_is_refused_or_comes_back(depth: int) -> None:
    value: Any = None
    for _ in range(depth):
        value = [value]
    try:
        data = encoded(value, "it")
    except PayloadError:
        assert depth > 500
    else:
        assert data == b"[" * depth + b"null" + b"]" * depth


def test_sixteen_mebibytes_are_taken_and_one_byte_more_is_not() -> None:
    fits = "x" * (LARGEST_VALUE - 2)
    assert len(encoded(fits, "it")) == LARGEST_VALUE == 16 * 1024 * 1024
    with pytest.raises(PayloadError, match=r"it takes 16,777,217 bytes, the limit is 16,777,216; store it elsewhere"):
        encoded(fits + "x", "it")


def test_a_hash_of_parts_depends_on_where_they_are_parted() -> None:
    assert digest128(b"ab", b"c") != digest128(b"a", b"bc") != digest128(b"abc")
    assert len(digest128()) == 16


def test_many_digests_are_those_of_one_by_one() -> None:
    seconds = [b"", b"a", b"b" * 300]
    one_by_one = [codec.digest128(b"note", second) for second in seconds]
    assert codec.digests128(b"note", seconds) == one_by_one
    assert [codec.digest128_of("note", second) for second in seconds] == one_by_one


@pytest.mark.parametrize("odd", [math.nan, math.inf, "\ud800"])
def test_many_values_are_refused_as_one_is(odd: object) -> None:
    class Some(msgspec.Struct):
        value: float | str

    with pytest.raises(PayloadError) as one:
        codec.encoded_as_itself(Some(odd), "it")  # type: ignore[arg-type]
    with pytest.raises(PayloadError) as many:
        codec.encoded_like([Some(1.0), Some(odd)], "it")  # type: ignore[arg-type]
    assert str(many.value) == str(one.value)


class Part(msgspec.Struct, frozen=True):
    share: float


class Whole(msgspec.Struct):
    share: float = 1.0
    most: int | None = None
    shares: list[float] = []
    pair: tuple[float, str] = (1.0, "")
    by_name: dict[str, int] = {}
    part: Part | None = None
    other: object = None


class Plain(msgspec.Struct):
    share: float = 1.0
    count: int = 1
    shares: list[float] = []
    pair: tuple[float, str] = (1.0, "")
    part: Part = Part(1.0)
    text: str = 'nan": null'
    above: list[Plain] = []


@pytest.mark.parametrize("odd", [math.nan, math.inf])
@pytest.mark.parametrize("kind", [Whole, Plain])
def test_what_json_cannot_express_is_found_among_many_wherever_it_hides(
    kind: type[Whole] | type[Plain], odd: float
) -> None:
    hidden: list[dict[str, Any]] = [
        {"share": odd}, {"most": odd}, {"count": odd}, {"shares": [1.0, odd]}, {"pair": (odd, "")},
        {"by_name": {odd: 1}}, {"part": Part(odd)}, {"other": {"a": [odd]}}, {"text": odd}, {"above": [Plain(odd)]},
    ]  # fmt: skip
    fields = set(kind.__struct_fields__)
    assert codec.encoded_like([kind(), kind()], "it") == [msgspec.json.encode(kind(), order="deterministic")] * 2
    for changed in hidden:
        if fields >= set(changed):
            with pytest.raises(PayloadError, match="NaN or an infinity"):
                codec.encoded_like([kind(), kind(**changed)], "it")


def test_a_value_of_another_type_among_many_is_refused() -> None:
    class Some(msgspec.Struct):
        value: int

    with pytest.raises(PayloadError, match="does not fit its own types"):
        codec.encoded_like([Some(1), Some("x")], "it")  # type: ignore[arg-type]


def test_the_word_null_among_many_is_no_reason_to_refuse() -> None:
    class Some(msgspec.Struct):
        value: str | None

    assert codec.encoded_like([Some(None), Some("null")], "it") == [b'{"value":null}', b'{"value":"null"}']
