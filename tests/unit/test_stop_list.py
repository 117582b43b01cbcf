"""Stop lists: what they stop, what only looks like it, and that no text makes them slow."""

from __future__ import annotations

import pickle
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward import ConfigError
from onceward.model.stop_list import StopList


def test_an_empty_list_stops_nothing() -> None:
    assert StopList().match("https://example.com/", "Anything") is None


@pytest.mark.parametrize("text", ["Acme Corp", "ACME  CORP", " acme\tcorp\n"])
def test_a_name_is_the_whole_key_or_title(text: str) -> None:
    stop_list = StopList(names=["Acme  Corp"])
    assert stop_list.match(text) == "its key 'Acme  Corp' is on the stop list"
    assert stop_list.match("7", text) == "its title 'Acme  Corp' is on the stop list"
    assert stop_list.match(f"{text}oration", f"The {text}") is None


def test_a_name_may_hold_any_character() -> None:
    assert StopList(names=["Who? (US) [*]"]).match("who? (us) [*]")
    assert StopList(names=["Straße"]).match("STRASSE")


@pytest.mark.parametrize(
    "key",
    [
        "https://example.com/jobs",
        "http://Jobs.EXAMPLE.com:8080/",
        "https://a.b.c.example.com",
        "https://example.com./",
        "https://user@example.com/",
        "https:\\\\example.com\\",
        " https://exa\nmple.com/",
        "ftp://example.com/file",
        f"https://{'a.' * 300}example.com/",
    ],
)
def test_a_domain_stops_itself_and_its_subdomains(key: str) -> None:
    assert StopList(domains=["Example.com"]).match(key) == "its domain Example.com is on the stop list"


@pytest.mark.parametrize(
    "key",
    [
        "https://notexample.com/",
        "https://example.com.evil.org/",
        "https://example.org/?u=https://example.com/",
        "https://example.com@evil.org/",
        "https://com/",
        "example.com",
        "company:example.com",
    ],
)
def test_a_domain_ends_at_a_dot(key: str) -> None:
    assert StopList(domains=["example.com"]).match(key, "example.com") is None


def test_a_domain_may_be_written_in_any_script() -> None:
    stop_list = StopList(domains=["Bücher.example", "jobs.example.org", "ru"])
    assert stop_list.match("https://shop.xn--bcher-kva.example/") == "its domain Bücher.example is on the stop list"
    assert stop_list.match("https://eu.jobs.example.org/")
    assert stop_list.match("https://example.org/") is None
    assert stop_list.match("https://anything.ru/")


@pytest.mark.parametrize(
    "text",
    ["Casino manager", "the CASINO", "(casino)", "online_casino", "casino-jobs", "casino's", "casino+jobs", "a/casino"],
)
def test_a_keyword_is_a_whole_word_anywhere(text: str) -> None:
    stop_list = StopList(keywords=["Casino"])
    assert stop_list.match("7", text) == "the keyword 'Casino' in its title is on the stop list"
    assert stop_list.match(text) == "the keyword 'Casino' in its key is on the stop list"
    assert stop_list.match("7", text.replace("asino", "asinos").replace("ASINO", "ASINOS")) is None


def test_a_keyword_is_read_through_percent_encoding() -> None:
    stop_list = StopList(keywords=["Büro", "C++"])
    assert stop_list.match("https://example.com/b%C3%BCro-jobs")
    assert stop_list.match("https://example.com/?q=c%2B%2B")
    assert stop_list.match("b%C3%BCro") is None, "only a URL is encoded like that"


def test_several_words_stand_in_a_row() -> None:
    stop_list = StopList(keywords=["night shift", "e-commerce", "Node.js"])
    assert stop_list.match("https://example.com/night-shift-nurse")
    assert stop_list.match("7", "Nurse, Night   Shift")
    assert stop_list.match("7", "E Commerce lead")
    assert stop_list.match("7", "node.js developer")
    assert stop_list.match("7", "shift at night") is None
    assert stop_list.match("7", "nights, shift") is None


@pytest.mark.parametrize(
    ("keyword", "stopped", "not_stopped"),
    [
        ("C", "C developer", "C++ developer"),
        ("C", "C, Go", "C# developer"),
        ("C++", "C/C++", "C+ grade"),
        ("C++", "C++17", "CC"),
        ("C#", "C#, F#", "page C#section"),
        (".NET", "Senior .NET engineer", "https://example.net/"),
        ("Java", "q=java+spring", "JavaScript"),
    ],
)
def test_the_names_of_languages_are_words(keyword: str, stopped: str, not_stopped: str) -> None:
    assert StopList(keywords=[keyword]).match("7", stopped)
    assert StopList(keywords=[keyword]).match("7", not_stopped) is None


@pytest.mark.parametrize(
    "keyword", ["cas*", "casino?", "[ab]", "(a)", "a|b", r"\w", "^a", "a$", "a+", "(a+)+", "a{2}", "c+++"]
)
def test_a_keyword_that_is_a_pattern_is_refused(keyword: str) -> None:
    with pytest.raises(ConfigError, match=r"looks like a pattern; patterns are not taken, because one can backtrack"):
        StopList(keywords=[keyword])


@pytest.mark.parametrize("domain", ["*.example.com", "example.*", r"example\.com", "(a|b).com", "a+.com", "[::1]"])
def test_a_domain_that_is_a_pattern_is_refused(domain: str) -> None:
    with pytest.raises(ConfigError, match=r"looks like a pattern.*stops all of its subdomains by itself"):
        StopList(domains=[domain])


@pytest.mark.parametrize(
    "domain",
    [
        "https://example.com",
        "example.com/",
        "example.com:80",
        "a@b.com",
        ".example.com",
        "a b.com",
        "x." * 130,
        "\ud800",
    ],
)
def test_what_is_not_a_domain_is_refused(domain: str) -> None:
    with pytest.raises(ConfigError, match="is no domain; write it alone"):
        StopList(domains=[domain])


@pytest.mark.parametrize("keyword", ["!", "Yahoo!", "#1", "-a", "..."])
def test_a_keyword_begins_and_ends_with_a_word(keyword: str) -> None:
    with pytest.raises(ConfigError, match="must begin and end with a letter or a digit"):
        StopList(keywords=[keyword])


def test_a_keyword_has_few_words() -> None:
    with pytest.raises(ConfigError, match="has more than 10 words; make it a name"):
        StopList(keywords=["a " * 11])


@pytest.mark.parametrize("which", ["names", "domains", "keywords"])
@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ([""], "is empty; take it out"),
        (["  \t"], "is empty; take it out"),
        ([7], "7 among the .* is int; it must be text"),
        ([None], "it must be text"),
        ("example.com", "are a list of texts, not 'example.com'"),
        (7, "are a list of texts, not 7"),
        (None, "are a list of texts, not None"),
    ],
)
def test_entries_are_texts_with_something_in_them(which: str, entries: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        StopList(**{which: entries})


def test_a_stop_list_is_a_value() -> None:
    one = StopList(["a"], ["example.com"], ["b"])
    assert one == StopList(("a",), ("example.com",), ("b",)) == pickle.loads(pickle.dumps(one))
    assert hash(one) == hash(StopList(("a",), ("example.com",), ("b",)))
    assert repr(one) == "StopList(names=('a',), domains=('example.com',), keywords=('b',))"
    with pytest.raises(AttributeError):
        one.names = ()  # type: ignore[misc]


@given(st.text(), st.none() | st.text())
def test_any_text_gets_an_answer(key: str, title: str | None) -> None:
    reason = StopList(["a"], ["example.com"], ["b c", "d"]).match(key, title)
    assert reason is None or reason.endswith("is on the stop list")


def test_a_long_list_is_as_fast_as_a_short_one() -> None:
    short, long = _list_of(10), _list_of(10_000)
    assert long.match("https://x.host9999.example/")
    ratio = min(_seconds(long) / _seconds(short) for _ in range(5))
    assert ratio < 5, f"a thousand times the entries took {ratio:.1f} times as long"


@pytest.mark.parametrize("piece", ["a.", "a ", ".", "+", "#", "a++", "%41", "\u0301", "é"])
def test_a_long_text_takes_linear_time(piece: str) -> None:
    stop_list = _list_of(100)

    def seconds(count: int) -> float:
        text = piece * count
        start = time.thread_time()  # of this thread alone: others may have the processor meanwhile
        assert stop_list.match(f"https://{text}/", text) is None
        assert stop_list.match(f"https://example.org/{text}", text) is None
        return time.thread_time() - start

    ratio = min(seconds(40_000) / seconds(4_000) for _ in range(3))
    assert ratio < 50, f"ten times the text took {ratio:.0f} times as long"


def _list_of(count: int) -> StopList:
    numbers = range(count)
    return StopList(
        names=[f"Company {number}" for number in numbers],
        domains=[f"host{number}.example" for number in numbers],
        keywords=[f"word{number} again" if number % 2 else f"word{number}" for number in numbers],
    )


def _seconds(stop_list: StopList) -> float:
    start = time.perf_counter()
    for number in range(300):
        assert stop_list.match(f"https://jobs.example.com/{number}/senior-engineer", "Senior engineer") is None
    return time.perf_counter() - start
