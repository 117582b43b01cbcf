"""The language of filters: what it reads, how it prints back, and where it says that something cannot be meant."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward.errors import FilterError
from onceward.model.error_shapes import shape_of
from onceward.model.filter_completion import complete
from onceward.model.status import Status
from onceward.model.task_filter import FIELDS, TaskFilter, Term, parse_filter
from onceward.model.task_match import Facts, Known, Matcher

NOW = 1_700_000_000_000
LINEAGE = uuid.UUID(int=7)


def facts(**changed: object) -> Facts:
    usual: dict[str, object] = {
        "id": 17,
        "kind": "page",
        "key": "https://Example.com/a",
        "status": Status.FAILED,
        "stage": "fetch",
        "queue": "default",
        "lineage": LINEAGE,
        "parent": 3,
        "batch": 5,
        "depth": 2,
        "attempts": 3,
        "cost": 150_000_000,
        "created_at": NOW - 3_600_000,
        "ended_at": NOW - 60_000,
        "reason": "failed after 2 retries: ReadTimeout: no answer from https://h1.example/x within 30s",
        "waiting_for": None,
        "is_paused": False,
        "payload": b'{"url":"https://Example.com/a","n":7,"tags":["new","hot"],"deep":{"ok":true},"none":null}',
    }
    return Facts(**{**usual, **changed})  # type: ignore[arg-type]


def checks_pass(text: str, one: Facts) -> bool:
    """Whether what SQL does not look at is so."""
    matcher = Matcher(parse_filter(text), NOW, Known({"nightly": 5}, {"3": LINEAGE}))
    return all(check(one) for _, check in matcher.checks)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", ""),
        ("  status:FAILED,failed   kind:page ", "status:failed kind:page"),
        ('error:"no answer"', 'error:"no answer"'),
        ('kind:"page"', "kind:page"),
        ('key:"a, b"', 'key:"a, b"'),
        (r'key:"say \"hi\" \\ "', r'key:"say \"hi\" \\ "'),
        ("cost>0.10 cost<=2", "cost>0.1 cost<=2"),
        ("created<120m ended>1d1h", "created<2h ended>1d1h"),
        ("-status:failed -key~x,y", "-status:failed -key~x,y"),
        ("id:0017", "id:17"),
        (f"lineage:{str(LINEAGE).upper()}", f"lineage:{LINEAGE}"),
        ("payload.Deep.n>=-3.50", "payload.Deep.n>=-3.5"),
        ("payload.url:https://x?a=1", "payload.url:https://x?a=1"),
        ("waiting:signal:approved paused:YES", "waiting:signal:approved paused:yes"),
        ("kind:page kind:page", "kind:page"),
        ("error:#" + "AB" * 16, "error:#" + "ab" * 16),
    ],
)
def test_a_filter_prints_back_in_one_form(text: str, printed: str) -> None:
    assert str(parse_filter(text)) == printed
    assert parse_filter(printed) == parse_filter(text)


@pytest.mark.parametrize(
    ("text", "position", "length", "says"),
    [
        ("status:faild", 7, 5, "did you mean failed?"),
        ("status:done", 7, 4, "there are: pending, running"),
        ("kind:page knd:x", 10, 3, "did you mean kind?"),
        ("colour:red", 0, 6, "there are: status, kind"),
        ("status", 6, 1, "after status stands :"),
        ("status>3", 6, 1, "after status stands :"),
        ("created:2h", 7, 1, "after created stands < or >"),
        ("depth:x", 6, 1, "is not a whole number"),
        ("depth>99999999999999999999", 6, 20, "is not a whole number"),
        ("cost>1e99", 5, 4, "is not an amount"),
        ("cost>nan", 5, 3, "is not an amount"),
        ("created<soon", 8, 4, "is not a duration"),
        ('key:"open', 4, 5, "a quotation has no end"),
        ("key:", 4, 1, "key needs a value"),
        ("kind:a,", 7, 1, "kind needs a value"),
        ("kind:a, b", 7, 1, "kind needs a value"),
        ("depth>1,2", 7, 1, "depth> takes one value"),
        ('kind:"a"b', 8, 1, "between values stands a comma"),
        ("lineage:abc", 8, 3, "neither the id of a lineage nor"),
        ("error:#12", 6, 3, "is no fingerprint"),
        ("payload:3", 0, 7, "payload.url"),
        ("payload.:3", 0, 8, "payload.url"),
        ("payload..a:3", 0, 10, "payload.url"),
        ("payload.n>x", 10, 1, "is not a number"),
        ("-", 1, 1, "here stands a field"),
        ("(status:failed)", 0, 1, "here stands a field"),
        ("paused:maybe", 7, 5, "neither yes nor no"),
        ("kind:a\0", 6, 1, "NUL"),
        ("kind:\ud800", 5, 1, "half of one"),
        ("x" * 5_000, 4_000, 1, "at most 4,000 characters"),
    ],
)
def test_what_cannot_be_meant_is_said_at_its_position(text: str, position: int, length: int, says: str) -> None:
    with pytest.raises(FilterError, match=f"at character {position + 1:,}".replace(",", "")) as raised:
        parse_filter(text)
    assert (raised.value.position, raised.value.length) == (position, length)
    assert says in str(raised.value)


@given(st.text(max_size=60))
def test_any_text_is_a_filter_or_a_clear_error(text: str) -> None:
    wanted, error = None, None
    try:
        wanted = parse_filter(text)
    except FilterError as raised:
        error = raised
    if wanted is not None:
        assert parse_filter(str(wanted)) == wanted
    else:
        assert error is not None
        assert 0 <= error.position <= len(text)


@given(
    st.lists(
        st.text(min_size=0, max_size=20).filter(lambda text: "\0" not in text and text.isascii()),
        min_size=1,
        max_size=4,
    )
)
def test_any_value_survives_printing(values: list[str]) -> None:
    wanted = TaskFilter((Term("key", ":", tuple(dict.fromkeys(values))),))
    assert parse_filter(str(wanted)) == wanted


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("key:https://Example.com/a", True),
        ("key:https://example.com/a", False),
        ("key:https://Example.com/*", True),
        ("key~EXAMPLE", True),
        ("-key~example", False),
        ("error:TIMEOUT", True),
        ("error:other,timeout", True),
        ("reason~robots", False),
        ("id:16,17 parent:3 lineage:3 batch:nightly", True),
        ("batch:weekly", False),
        ("-batch:weekly", True),
        ("lineage:4", False),
        ("depth:1,2", True),
        ("-depth:1,2", False),
        ("cost:0.15,1", True),
        ("payload.url~example", True),
        ("payload.n>6", True),
        ("payload.n>=7.5", False),
        ("payload.n:7", True),
        ("payload.tags:hot", True),
        ("payload.tags:cold", False),
        ("payload.deep.ok:true", True),
        ("payload.deep.ok>0", False),
        ("payload.none:null", True),
        ("payload.missing:x", False),
        ("-payload.missing:x", True),
        ("payload.url.deeper:x", False),
        ("waiting:signal", False),
        ("-ended<2m", False),
        ("-ended<30s", True),
    ],
)
def test_what_a_term_means(text: str, fits: bool) -> None:
    assert checks_pass(text, facts()) is fits


def test_what_waits_is_known_by_its_beginning() -> None:
    one = facts(status=Status.WAITING, waiting_for="signal:approved", ended_at=None)
    assert checks_pass("waiting:signal", one)
    assert checks_pass("waiting:signal:approved", one)
    assert not checks_pass("waiting:sig", one)
    assert checks_pass("waiting~appr", one)


def test_only_what_has_failed_or_is_tried_again_has_an_error() -> None:
    assert checks_pass("error:timeout", facts(status=Status.RETRYABLE))
    assert not checks_pass("error:timeout", facts(status=Status.CANCELLED))
    assert checks_pass("reason~timeout", facts(status=Status.CANCELLED))


@pytest.mark.parametrize("payload", [None, b"\xff", b"[" * 100_000, b"3", b'"text"', b'{"url":1' + b"0" * 5_000 + b"}"])
def test_a_payload_that_cannot_be_read_has_no_fields(payload: bytes | None) -> None:
    assert not checks_pass("payload.url>1", facts(payload=payload)) or payload == b'{"url":1' + b"0" * 5_000 + b"}"


def test_a_group_of_statuses_and_its_opposite_are_scanned() -> None:
    def statuses(text: str) -> frozenset[Status]:
        return Matcher(parse_filter(text), NOW, Known()).scan.statuses

    assert statuses("status:open") | statuses("status:ended") == frozenset(Status)
    assert statuses("-status:open,failed") == statuses("status:ended") - {Status.FAILED}
    assert statuses("status:failed status:pending") == frozenset()


def test_alike_errors_have_one_shape_whatever_differs() -> None:
    first = shape_of("failed after 3 retries: ReadTimeout: no answer from https://a.example/x?id=3 within 30s")
    second = shape_of("failed the same way before (task 7): ReadTimeout: no answer from http://b.example within 5s")
    assert first == second
    assert first.message == "ReadTimeout: no answer from ⟨url⟩ within ⟨#⟩s"
    assert [piece.text for piece in first.pieces if piece.is_hole] == ["url", "#"]
    assert shape_of("a ⟨#⟩ b") != shape_of("a 3 b"), "a hole is no text that looks like one"
    assert checks_pass(f"error:#{first.fingerprint}", facts())


def test_completion_begins_with_fields_and_goes_on_with_values() -> None:
    assert [one.text for one in complete("sta", 3, {})] == ["status:", "stage:"]
    [one] = complete("kind:page status:fai", 20, {})
    assert (one.text, one.start, one.end) == ("failed", 17, 20)
    assert [one.text for one in complete("status:failed,can", 17, {})] == ["cancelled"]
    assert [one.text for one in complete("kind:", 5, {"kind": ["page", "a b"]})] == ["page", '"a b"']
    assert [one.text for one in complete("-k", 2, {})] == ["-kind:", "-key:"]
    assert [one.text for one in complete("pay", 3, {})] == ["payload."]
    assert {one.text.rstrip(":<>~.") for one in complete("", 0, {})} == set(FIELDS)
    assert complete('key:"a b', 8, {}) == []
