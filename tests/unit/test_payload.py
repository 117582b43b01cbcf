"""Payloads: frozen, typed, with a durable name, and with a key that says what the work is about."""

from __future__ import annotations

from typing import Any

import pytest

from onceward import App, ConfigError, Context, Payload, PayloadError, Pipeline
from onceward.model.payload import checked_key, has_own_key, identity, stored_payload


class Listing(Payload, kind="listing"):
    url: str
    pages: int = 1


class Company(Payload, kind="company"):
    name: str
    site: str | None = None

    def key(self) -> str:
        return self.name.lower()


def test_a_payload_is_made_by_place_or_by_name() -> None:
    assert Listing("u") == Listing(url="u", pages=1)
    assert Listing.__kind__ == "listing"


def test_a_payload_is_frozen_and_can_be_a_key() -> None:
    listing: Any = Listing("u")
    with pytest.raises(AttributeError):
        listing.url = "v"
    assert {listing: 1}[Listing("u")] == 1


def test_a_payload_without_a_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match=r'class Nameless\(Payload, kind="…"\)'):

        class Nameless(Payload):  # type: ignore[call-arg]
            url: str


@pytest.mark.parametrize("kind", ["", "a:b", "a\nb", "a\x00b", "x" * 201, 7])
def test_a_kind_that_cannot_be_stored_is_refused(kind: Any) -> None:
    with pytest.raises(ConfigError, match="is no kind"):

        class Odd(Payload, kind=kind):
            url: str


def test_a_field_named_key_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Keyed\.key is a method of every payload; give the field another name"):

        class Keyed(Payload, kind="keyed"):
            key: str  # type: ignore[assignment]


def test_by_default_all_fields_are_the_key() -> None:
    assert Listing("u").key() == '{"url":"u","pages":1}'
    assert not has_own_key(Listing)
    assert Listing("u").key() != Listing("u", 2).key()


def test_a_class_may_say_itself_what_its_work_is_about() -> None:
    assert has_own_key(Company)
    assert checked_key(Company("ACME", "one")) == checked_key(Company("acme", "two")) == "acme"


def test_kind_and_key_are_the_identity() -> None:
    assert identity("listing", "x") == identity("listing", "x")
    assert identity("listing", "x") != identity("company", "x")
    assert identity("a", "bc") != identity("ab", "c")
    assert len(identity("listing", "x" * 1_000_000)) == 16


class Keyless(Payload, kind="keyless"):
    answer: Any

    def key(self) -> str:
        answer: str = self.answer
        return answer


@pytest.mark.parametrize(
    ("answer", "says"),
    [(7, "returned int, it must return text"), (None, "returned NoneType"), ("a\x00b", "NUL"), ("\ud800", "surrogate")],
)
def test_a_key_that_one_database_could_not_hold_is_refused(answer: Any, says: str) -> None:
    with pytest.raises(PayloadError, match=says):
        checked_key(Keyless(answer))


@pytest.mark.parametrize("payload", [Listing(7), Listing("u", "two"), Listing(None), Company("a", site=7)])  # type: ignore[arg-type]
def test_a_payload_of_the_wrong_types_is_the_callers_error(payload: Payload) -> None:
    with pytest.raises(PayloadError, match="does not fit its own types"):
        stored_payload(payload)


def test_a_wrong_payload_is_refused_at_enqueue_before_any_connection() -> None:
    pipeline = Pipeline(Listing)

    @pipeline.stage
    def look(ctx: Context[Listing]) -> None: ...

    app = App("sqlite:////nowhere/at/all.db", [pipeline])
    with pytest.raises(PayloadError, match="the payload Listing does not fit its own types"):
        app.enqueue(Listing(7))  # type: ignore[arg-type]
    with pytest.raises(PayloadError, match="lone surrogate"):
        app.enqueue_many([Listing("fine"), Listing("\ud800")])
    with pytest.raises(ConfigError, match="enqueue takes a payload, not str"):
        app.enqueue("listing")  # type: ignore[arg-type]
