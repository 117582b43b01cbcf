"""Feeds, however broken."""

from __future__ import annotations

import contextlib
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from onceward_apps.jobfinder.boards.board import SoFar
from onceward_apps.jobfinder.errors import Drifted
from tests.apps.jobfinder.reading_pages import read_all, read_one
from tests.apps.jobfinder.shared_data import shared_files

JSON_FEEDS = {"json_feed.json": 20, "json_feed_with_escaped_uris.json": 30}
NO_FEEDS = {"AmazonWebServicesBlogFirstEntryContent.xml", "PaulDixExplainsNothingFirstEntryContent.xml",
            "TenderLovemakingFirstEntry.xml"}  # fmt: skip


def test_real_feeds_give_all_their_entries() -> None:
    files = shared_files("feeds/feedjira")
    assert len(files) == 23
    for path in files:
        body = path.read_bytes()
        if path.name in NO_FEEDS:
            with pytest.raises(Drifted):
                read_one("feed", body)
            continue
        items = JSON_FEEDS.get(path.name) or len(re.findall(rb"<(?:\w+:)?(?:item|entry)[\s>]", body))
        listings = read_one("feed", body).listings
        assert len(listings) == items, path.name
        assert all(listing.url.startswith("http") and listing.title for listing in listings)


def test_no_feed_of_the_conformance_cases_is_a_crash() -> None:
    files = shared_files("feeds/feedparser")
    assert len(files) == 58
    for path in files:
        with contextlib.suppress(Drifted):  # most have one element alone, and a listing needs a title and a link
            assert all(listing.title for listing in read_one("feed", path.read_bytes()).listings)


def rss(*items: str) -> str:
    return f'<rss version="2.0"><channel><title>Acme</title>{"".join(items)}</channel></rss>'


def test_an_item_is_read_whatever_is_missing() -> None:
    feed = rss(
        "<item><title>A &amp;amp; B</title><link>/1</link><description>&lt;p&gt;Cook&lt;/p&gt;</description>"
        "<pubDate>Wed, 19 Aug 2026 23:10:38 GMT</pubDate></item>",
        "<item><title>C</title><guid>https://acme.example/2</guid></item>",
        "<item><title>no link</title></item>",
        "<item><link>https://acme.example/3</link></item>",
        "<item><title>bad link</title><link>javascript:alert(1)</link></item>",
    )
    step = read_one("feed", feed)
    assert [(one.title, one.url, one.posted, one.description) for one in step.listings] == [
        ("A & B", "https://acme.example/1", date(2026, 8, 19), "Cook"),
        ("C", "https://acme.example/2", None, None),
    ]
    assert step.so_far.company_name == "Acme"
    assert "3 items" in step.so_far.warnings[0]


def test_a_feed_that_names_a_file_of_this_machine_opens_none(tmp_path: Path) -> None:
    secret = tmp_path / "feed.xml"
    secret.write_text(rss("<item><title>secret</title><link>https://acme.example/</link></item>"))
    with pytest.raises(Drifted):
        read_one("feed", str(secret))
    entity = f'<!DOCTYPE x [<!ENTITY e SYSTEM "file://{secret}">]>' + rss(
        "<item><title>T</title><link>https://acme.example/1</link><description>&e;</description></item>"
    )
    assert "secret" not in str(read_one("feed", entity).listings)


def test_entities_that_multiply_do_not() -> None:
    lines = ['<!ENTITY a0 "lol">'] + [f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10)]
    bomb = f"<?xml version='1.0'?><!DOCTYPE x [{''.join(lines)}]>" + rss(
        "<item><title>&a9;</title><link>https://acme.example/1</link></item>"
    )
    with pytest.raises(Drifted, match="grow"):
        read_one("feed", bomb)


def test_a_broken_feed_is_guessed_at_only_while_it_is_small() -> None:
    item = "<item><title>A & B</title><link>https://acme.example/{}</link><description>{}</description>"
    assert len(read_one("feed", rss(item.format(1, "x"), item.format(2, "x"))).listings) == 2
    with pytest.raises(Drifted, match="well-formed"):
        read_one("feed", rss(item.format(1, "x" * 300_000)))


def test_a_paged_feed_is_followed_on_its_own_site_and_no_further() -> None:
    def page(number: int, following: str) -> dict[str, Any]:
        items = [
            {"id": f"{number}-{n}", "url": f"https://acme.example/{number}/{n}", "title": "Cook"} for n in range(3)
        ]
        return {"version": "https://jsonfeed.org/version/1.1", "title": "Acme", "items": items, "next_url": following}

    def serve(request: Any) -> Any:
        last = request.url.endswith("2")
        return page(2, "https://evil.example/3") if last else page(1, "https://acme.example/jobs.rss?page=2")

    board, asked = read_all("feed", serve)
    assert len(board.listings) == 6
    assert [request.url for request in asked] == [
        "https://acme.example/jobs.rss", "https://acme.example/jobs.rss?page=2",
    ]  # fmt: skip


def test_a_feed_that_brings_nothing_new_is_not_followed() -> None:
    item = {"id": "1", "url": "https://acme.example/1", "title": "Cook"}
    feed = {"version": "https://jsonfeed.org/version/1", "items": [item], "next_url": "/jobs.rss?page=2"}
    assert read_one("feed", feed, SoFar(pages=1, seen=frozenset({"1"}))).next is None


def test_json_that_is_no_feed_has_drifted() -> None:
    for body in ({}, {"version": 1, "items": []}, {"version": "https://jsonfeed.org/version/1", "items": {}}, "{"):
        with pytest.raises(Drifted):
            read_one("feed", body)
