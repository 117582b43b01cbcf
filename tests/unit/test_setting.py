"""Settings: their types, what a text means, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward import ConfigError, Setting
from onceward.model.setting import DURATION, FLOAT, INT, JSON, KINDS, STR, Kind, exact_duration_text
from onceward.model.times import milliseconds

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=5,
)


@given(
    st.one_of(
        st.tuples(st.just(INT), st.integers()),
        st.tuples(st.just(FLOAT), st.floats(allow_nan=False, allow_infinity=False)),
        st.tuples(st.just(STR), st.text(st.characters(codec="utf-8", exclude_characters="\x00"))),
        st.tuples(st.just(KINDS[bool]), st.booleans()),
        st.tuples(st.just(JSON), JSON_VALUES),
    )
)
def test_a_value_comes_back_from_its_text(case: tuple[Kind, Any]) -> None:
    kind, value = case
    assert kind.value(kind.text(value, "it"), "it") == value


@given(st.integers(0, 10**12))
def test_a_duration_comes_back_to_the_millisecond(length_ms: int) -> None:
    assert milliseconds(exact_duration_text(length_ms)) == length_ms
    assert DURATION.value(exact_duration_text(length_ms), "it") == timedelta(milliseconds=length_ms)


@pytest.mark.parametrize(
    ("type", "value", "text"),
    [
        (int, 5, "5"),
        ("float", 5, "5.0"),
        (str, "a b", "a b"),
        (bool, True, "true"),
        ("duration", "90s", "1m30s"),
        ("duration", 0, "0s"),
        ("duration", timedelta(milliseconds=1_500), "1s500ms"),
        ("json", {"a": [1, None]}, '{"a":[1,null]}'),
    ],
)
def test_a_default_has_a_text(type: Any, value: Any, text: str) -> None:
    assert Setting("it", value, type, "What it is.").text == text


@pytest.mark.parametrize(
    ("type", "value"),
    [
        (int, True), (int, 5.0), (int, "5"), (int, None), (float, "5"), (float, float("nan")), (float, float("inf")),
        (str, 5), (str, "a\x00b"), (str, "\ud800"), (bool, 1), (bool, "true"), ("duration", "5 parsecs"),
        ("duration", -1), ("duration", None), ("json", object()), ("json", "\ud800"),
    ],
)  # fmt: skip
def test_a_default_of_another_type_is_refused(type: Any, value: Any) -> None:
    with pytest.raises(ConfigError, match=r"setting 'it': default=.*: it is "):
        Setting("it", value, type, "What it is.")


@pytest.mark.parametrize(
    ("type", "text"),
    [("int", "5.5"), ("int", ""), ("float", "nan"), ("bool", "perhaps"), ("duration", "soon"), ("json", "{")],
)
def test_a_text_that_means_nothing_is_refused(type: str, text: str) -> None:
    with pytest.raises(ConfigError, match=r"it=.*: it is "):
        KINDS[type].value(text, "it")


@pytest.mark.parametrize(
    ("text", "means"), [("yes", True), (" TRUE ", True), ("1", True), ("off", False), ("no", False)]
)
def test_true_and_false_have_many_words(text: str, means: bool) -> None:
    assert KINDS[bool].value(text, "it") is means


@pytest.mark.parametrize(
    ("name", "type", "about", "says"),
    [
        ("Page", int, "x", "no name for a setting"),
        ("page-size", int, "x", "no name for a setting"),
        ("", int, "x", "no name for a setting"),
        ("page..size", int, "x", "no name for a setting"),
        ("page.", int, "x", "no name for a setting"),
        (5, int, "x", "no name for a setting"),
        ("app", int, "x", "ONCEWARD_APP is taken"),
        ("db", int, "x", "ONCEWARD_DB is taken"),
        ("it", list, "x", "type=<class 'list'>; it is int, float, str, bool, 'duration' or 'json'"),
        ("it", [], "x", "it is int, float"),
        ("it", int, " ", "say in a sentence what it is for"),
    ],
)
def test_a_declaration_that_cannot_be_meant_is_refused(name: Any, type: Any, about: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Setting(name, 5, type, about)
