"""One written form for each web address: what is the same, what is not, what is refused."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onceward import PayloadError
from onceward.urls import LONGEST, TRACKING, TRACKING_ON, TRACKING_PREFIXES, VERSION, canonical, host_of

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"

PINNED = {
    # scheme, host, port, userinfo
    "HTTP://Example.COM": "http://example.com/",
    "https://example.com:443/": "https://example.com/",
    "http://example.com:443/": "http://example.com:443/",
    "https://example.com:8443/a": "https://example.com:8443/a",
    "https://user:secret@example.com/": "https://example.com/",
    "https://example.com./jobs": "https://example.com/jobs",
    "https://Bücher.example/": "https://xn--bcher-kva.example/",
    "https://www.example.com/": "https://www.example.com/",
    "http://0x7f.1/": "http://127.0.0.1/",
    "http://[2001:DB8:0:0::1]:80/": "http://[2001:db8::1]/",
    "https:\\\\example.com\\a": "https://example.com/a",
    "  https://example.com/a b ": "https://example.com/a%20b",
    # path
    "https://example.com/a/./b/../c": "https://example.com/a/c",
    "https://example.com/a/%2e%2E/b": "https://example.com/b",
    "https://example.com/../..": "https://example.com/",
    "https://example.com/jobs": "https://example.com/jobs",
    "https://example.com/jobs/": "https://example.com/jobs/",
    "https://example.com//a//b": "https://example.com//a//b",
    "https://example.com/Jobs": "https://example.com/Jobs",
    "https://example.com/a#top": "https://example.com/a",
    "https://example.com/#!/jobs/7": "https://example.com/",
    # percent-encoding
    "https://example.com/%7euser/%41%2d%5F": "https://example.com/~user/A-_",
    "https://example.com/a%2fb": "https://example.com/a%2Fb",
    "https://example.com/é": "https://example.com/%C3%A9",
    "https://example.com/%c3%a9": "https://example.com/%C3%A9",
    "https://example.com/a|b[c]^{d}": "https://example.com/a%7Cb%5Bc%5D%5E%7Bd%7D",
    "https://example.com/100%": "https://example.com/100%25",
    "https://example.com/%%34%31": "https://example.com/%2541",
    # query
    "https://example.com/?": "https://example.com/",
    "https://example.com/?&&": "https://example.com/",
    "https://example.com?b=2&a=1": "https://example.com/?a=1&b=2",
    "https://example.com/?b=1&a=2&b=0&a=1": "https://example.com/?a=2&a=1&b=1&b=0",
    "https://example.com/?a&b=&c": "https://example.com/?a&b=&c",
    "https://example.com/?q=a+b": "https://example.com/?q=a+b",
    "https://example.com/?q=a%20b": "https://example.com/?q=a%20b",
    "https://example.com/?f[x]=1": "https://example.com/?f%5Bx%5D=1",
    "https://example.com/?next=https://a.example/?b=c": "https://example.com/?next=https://a.example/?b=c",
    # tracking, and what only looks like it
    "https://example.com/p?utm_source=rss&id=7&UTM_Medium=x&fbclid=y": "https://example.com/p?id=7",
    "https://example.com/p?utm%5Fsource=rss": "https://example.com/p",
    "https://example.com/p?lever-source[]=a&lever-source=b": "https://example.com/p",
    "https://boards.greenhouse.io/acme/jobs/1?gh_src=x&gh_jid=1": "https://boards.greenhouse.io/acme/jobs/1?gh_jid=1",
    "https://uk.indeed.com/viewjob?jk=a1&from=serp&tk=b": "https://uk.indeed.com/viewjob?jk=a1",
    "https://notindeed.com/?from=serp": "https://notindeed.com/?from=serp",
    "https://www.linkedin.com/jobs/view/7/?refId=a&trackingId=b&trk=c": "https://www.linkedin.com/jobs/view/7/",
    "https://www.youtube.com/watch?v=abc&si=x&t=10": "https://www.youtube.com/watch?t=10&v=abc",
    "https://github.com/o/r?ref=main&tab=readme": "https://github.com/o/r?ref=main&tab=readme",
    "https://example.com/?ref=a&source=b&from=c&cid=d&page=2&utm=e": (
        "https://example.com/?cid=d&from=c&page=2&ref=a&source=b&utm=e"
    ),
}
"""What version 1 makes of them. If one of these has to change, `VERSION` changes with it."""

_PIECES = ["%", "%2e", "%2E", "%41", "%4", "%25", "%zz", ".", "..", "/", "//", "\\", "?", "#", "&", "=", "+", ";", "@"]
_PIECES += [
    ":",
    "a",
    "B",
    "é",
    "ß",
    "İ",
    "漢",
    " ",
    "'",
    '"',
    "|",
    "[",
    "]",
    "utm_a=1",
    "gclid",
    "0x1",
    "7",
    "%00",
    "~",
]
_urls = st.builds(
    lambda scheme, host, rest: f"{scheme}{host}{''.join(rest)}",
    st.sampled_from(["http://", "https://", "HTTPS:", "http:///"]),
    st.sampled_from(["a.b", "A.b:443", "u:p@a.b", "[::1]", "1.2.3.4.", "ä.example", "0x1.", "0x1..", "x", ""]),
    st.lists(st.sampled_from(_PIECES) | st.text(max_size=3), max_size=12),
)


@pytest.mark.parametrize(("url", "form"), PINNED.items())
def test_the_rules_of_version_1(url: str, form: str) -> None:
    assert VERSION == 1
    assert canonical(url) == form
    assert canonical(form) == form


def test_http_and_www_are_other_addresses() -> None:
    forms = {
        canonical(f"{scheme}://{host}/a") for scheme in ("http", "https") for host in ("a.example", "www.a.example")
    }
    assert len(forms) == 4


@pytest.mark.parametrize("name", sorted(TRACKING) + [f"{prefix}anything" for prefix in TRACKING_PREFIXES])
def test_what_is_on_the_list_is_removed_everywhere(name: str) -> None:
    assert canonical(f"https://example.com/?id=7&{name}=x&{name.upper()}=y") == "https://example.com/?id=7"


@pytest.mark.parametrize(
    "name", ["gh_jid", "jk", "id", "page", "q", "ref", "source", "cid", "s", "spm", "token", "utm"]
)
def test_what_is_not_on_the_list_is_kept(name: str) -> None:
    assert canonical(f"https://example.com/?{name}=x") == f"https://example.com/?{name}=x"


@given(_urls)
@example("https://a.b/%%34%31")
@example("http://0x1../")
def test_the_canonical_form_is_its_own_canonical_form(url: str) -> None:
    try:
        form = canonical(url)
    except PayloadError:
        return
    assert canonical(form) == form
    assert host_of(form) == host_of(url)
    assert form.isascii()
    assert "#" not in form


@given(st.permutations(["b=2", "a=1", "a=1", "c", "utm_source=x", "z=%7e"]))
def test_the_order_of_parameters_does_not_matter(parameters: list[str]) -> None:
    assert canonical(f"https://a.b/?{'&'.join(parameters)}") == "https://a.b/?a=1&a=1&b=2&c&z=~"


@given(st.text())
def test_any_text_has_a_form_or_is_refused(text: str) -> None:
    try:
        canonical(text)
    except PayloadError as error:
        assert str(error)  # noqa: PT017 - either is right, anything else is not


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "the URL is empty"),
        ("   ", "the URL is empty"),
        (None, "a URL is text, not NoneType"),
        (b"https://example.com/", "a URL is text, not bytes"),
        ("example.com/jobs", "has no scheme; write https:// in front of it"),
        ("//example.com/jobs", "has no scheme"),
        ("/jobs/7", "has no scheme"),
        ("ftp://example.com/", "has the scheme ftp; only http and https are taken"),
        ("mailto:jobs@example.com", "has the scheme mailto"),
        ("javascript:void(0)", "has the scheme javascript"),
        ("localhost:8000/jobs", "has the scheme localhost"),
        ("https://example.com/a\nb", "holds a control character"),
        ("https://example.com/\x00", "holds a control character"),
        ("https://example.com/\x85", "holds a control character"),
        ("https://", "is not a URL that a browser could open"),
        ("https://exa mple.com/", "is not a URL that a browser could open"),
        ("https://example.com:99999/", "is not a URL that a browser could open"),
        ("https://a..example.com/", "is not a URL that a browser could open"),
        ("https://./", "is not a URL that a browser could open"),
        ("https://example.com/\ud800", "is not a URL that a browser could open"),
        (f"https://example.com/{'a' * LONGEST}", r"has 8020 characters; a URL may have up to 8000"),
        (f"https://example.com/{'é' * 2000}", r"has 12020 characters in its canonical form"),
    ],
)
def test_what_is_not_a_web_address_is_refused(url: Any, says: str) -> None:
    with pytest.raises(PayloadError, match=says) as refused:
        canonical(url)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    "url", ["https://me:secret@example.com:99999/", "https:me:secret@a..b", "ftp://me:secret@a.b/"]
)
def test_an_error_does_not_tell_a_password(url: str) -> None:
    with pytest.raises(PayloadError) as refused:
        canonical(url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Jobs.Example.com:8443/a?b#c", "jobs.example.com"),
        ("https://user:pass@example.com./", "example.com"),
        ("https://bücher.example/", "xn--bcher-kva.example"),
        ("http://[::1]:8000/", "[::1]"),
    ],
)
def test_the_host_of_an_address(url: str, host: str) -> None:
    assert host_of(url) == host


def test_the_host_of_what_is_not_an_address_is_refused() -> None:
    with pytest.raises(PayloadError, match="has no scheme"):
        host_of("example.com")


def test_the_reference_lists_what_is_removed() -> None:
    page = (ROOT / "docs" / "reference" / "urls.md").read_text(encoding="utf-8")
    section = page[page.index("## What is removed") : page.index("## What is kept")]
    named = {name.lower() for name in re.findall(r"`([^`]+)`", section)}
    names = {name.replace("%5b%5d", "[]") for name in TRACKING} | {f"{prefix}*" for prefix in TRACKING_PREFIXES}
    assert named == names.union(TRACKING_ON, *TRACKING_ON.values())
    assert f"version {VERSION}" in page


def test_the_examples_of_the_reference_hold() -> None:
    page = (ROOT / "docs" / "reference" / "urls.md").read_text(encoding="utf-8")
    rules = page[page.index("## Rules") : page.index("## What stays apart")]
    examples = re.findall(r"\| `(\S+)` \| `(\S+)` \|$", rules, re.M)
    assert len(examples) == 9
    assert [canonical(url) for url, _ in examples] == [form for _, form in examples]


def test_real_boards_and_companies_have_stable_forms() -> None:
    rows = [
        *_rows(_data("companies/jobseek_boards.csv"), "board_url"),
        *_rows(_data("companies/jobseek_companies.csv"), "website"),
    ]
    forms = {url: canonical(url) for url in rows}
    assert len(forms) > 1000
    assert all(canonical(form) == form for form in forms.values())
    # What is different there stays so, but for the fragment and the case of a host.
    distinct = {re.sub(r"#.*", "", url).rstrip("/").lower() for url in forms}
    assert len({form.rstrip("/").lower() for form in forms.values()}) == len(distinct)


def test_a_real_feed_of_jobs_is_freed_of_its_campaign() -> None:
    text = _data("ats/boards/cryptojobs_rss_sample.xml").read_text(encoding="utf-8")
    links = [link.replace("&amp;", "&") for link in re.findall(r"<link>\s*(https?://[^<\s]+)", text)]
    marked = [link for link in links if "utm_" in link]
    assert marked
    assert [canonical(link) for link in marked] == [link.partition("?")[0] for link in marked]


def test_the_cases_of_the_standard_are_stable_or_refused() -> None:
    taken = 0
    for case in json.loads(_data("urls/wpt/urltestdata.json").read_bytes()):
        if isinstance(case, str) or case["base"] is not None:
            continue  # a comment, or a case that is relative to a page
        try:
            form = canonical(case["input"])
        except PayloadError:
            continue
        taken += 1
        assert not case.get("failure")
        assert canonical(form) == form == canonical(case["href"])
    assert taken > 100


KEPT_ON_PURPOSE = {
    "ga_[a-z_]+", "action_(?:object|type|ref)_map", "gs_l", "hmb_(?:campaign|medium|source)", "otm_[a-z_]*", "cmpid",
    "os_ehash", "__twitter_impression", "wt_?z?mc", "wtrid", "[a-z]?mc", "Echobox", "spm", "vn(?:_[a-z]*)+",
    "tracking_source", "ceneo_spo", "itm_(?:campaign|medium|source)", "__s", "s_cid",
}  # fmt: skip
"""What a published list of tracking parameters removes everywhere and we do not: on some site it may mean a page."""


def test_of_a_published_list_what_is_certain_is_removed_and_the_rest_kept() -> None:
    everywhere = json.loads(_data("urls/data.min.json").read_bytes())["providers"]["globalRules"]
    rules = {rule.removeprefix("(?:%3F)?") for rule in everywhere["rules"]}
    ours = [*TRACKING, *(f"{prefix}source" for prefix in TRACKING_PREFIXES)]
    removed = {rule for rule in rules if any(re.fullmatch(rule, name, re.IGNORECASE) for name in ours)}
    assert rules - removed == KEPT_ON_PURPOSE
    bare = {rule for rule in removed if re.fullmatch(r"\w+", rule)}
    assert len(bare) > 20
    assert {canonical(f"https://example.com/a?{name}=1&id=2") for name in bare} == {"https://example.com/a?id=2"}
    for name in ("ref", "referrer"):  # of referral marketing, which the list treats apart
        assert any(re.fullmatch(rule.removeprefix("(?:%3F)?"), name) for rule in everywhere["referralMarketing"])
        assert canonical(f"https://example.com/?{name}=1") == f"https://example.com/?{name}=1"


def _data(name: str) -> Path:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{path} is not there: real addresses are not part of this repository")
    return path


def _rows(path: Path, column: str) -> list[str]:
    with path.open(encoding="utf-8", newline="") as file:
        return [row[column] for row in csv.DictReader(file) if row[column]]
