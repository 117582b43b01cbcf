"""Plain text, days, pay and requirements."""

from __future__ import annotations

import time
from datetime import date
from typing import Any

import pytest

from onceward_apps.jobfinder.boards.places import is_remote
from onceward_apps.jobfinder.dates import day_of
from onceward_apps.jobfinder.plain_text import plain_text, unescaped_text
from onceward_apps.jobfinder.requirements import requirements_in
from onceward_apps.jobfinder.salaries import yearly

TODAY = date(2026, 8, 20)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("<p>One <b>two</b>\n three</p><p>Four</p>", "One two three\nFour"),
        ("<ul><li><p>One</p></li><li>Two<br>more</li><li></li></ul>", "- One\n- Two\nmore"),
        ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", "a b\nc"),
        ("a<script>b</script><style>c</style><noscript>d</noscript>e", "ae"),
        ("Fish &amp; chips&nbsp;&lt;3", "Fish & chips <3"),
        ("  just   words  ", "just words"),
        ("", ""),
        ("<!-- x -->", ""),
    ],
)
def test_html_becomes_text_in_lines(source: str, text: str) -> None:
    assert plain_text(source) == text


def test_html_that_was_escaped_once_more_is_unescaped_once() -> None:
    assert unescaped_text("&lt;p&gt;Fish &amp;amp; chips&lt;/p&gt;") == "Fish & chips"
    assert unescaped_text("<p>Write &lt;b&gt; for bold</p>") == "Write <b> for bold"
    assert unescaped_text("5 &lt; 7") == "5 < 7"


@pytest.mark.parametrize("tag", ["<div>", "<b>", "<ul><li>", "<p><i>", "<table><tr><td>", "<a><p>"])
def test_a_page_of_opening_tags_is_read_in_no_time(tag: str) -> None:
    began = time.monotonic()
    plain_text(tag * 500_000 + "x")
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("value", "day"),
    [
        ("2026-07-16T11:55:32-04:00", date(2026, 7, 16)),
        ("2026-07-16", date(2026, 7, 16)),
        (1_764_205_361_939, date(2025, 11, 27)),
        (1_764_205_361, date(2025, 11, 27)),
        ("Wed, 19 Aug 2026 23:10:38 GMT", date(2026, 8, 19)),
        ("Posted Today", TODAY),
        ("posted yesterday", date(2026, 8, 19)),
        ("2 weeks ago", date(2026, 8, 6)),
        ("Posted 30+ Days Ago", date(2026, 7, 21)),
        ("5 hours ago", TODAY),
        ("2026-13-45", None),
        ("0001-01-01", None),
        ("soon", None),
        ("99999999999 days ago", None),
        (10**30, None),
        (-(10**30), None),
        (float("nan"), None),
        (True, None),
        (None, None),
        ({}, None),
    ],
)
def test_a_day_is_read_however_it_is_written(value: Any, day: date | None) -> None:
    assert day_of(value, TODAY) == day


@pytest.mark.parametrize(
    ("amount", "interval", "a_year"),
    [
        (100_000, "1 YEAR", 100_000), (50, "per-hour-wage", 104_000), ("1,000.5", "MONTH", 12_006), (10, None, 10),
        (500, "daily", 130_000), (0, "YEAR", None), (-5, "YEAR", None), ("x", "YEAR", None), (True, "YEAR", None),
        (5, "ONE_TIME", None), (float("inf"), "YEAR", None), (None, "YEAR", None),
    ],
)  # fmt: skip
def test_pay_is_pay_for_a_year(amount: Any, interval: str | None, a_year: float | None) -> None:
    assert yearly(amount, interval) == a_year


def test_requirements_are_the_lists_below_headings_of_that_sense() -> None:
    text = (
        "About us\n- Fun\nRequirements:\n- A knife\n• A pan\n1. A pot\nWe offer\n- Pay\nNice to have\n- Salt\n- A knife"
    )
    assert requirements_in(text) == ("A knife", "A pan", "A pot", "Salt")
    assert requirements_in(None) == ()


@pytest.mark.parametrize(
    ("said", "remote"),
    [("Remote (US)", True), ("Anywhere", True), ("Hybrid remote, Oslo", False), ("On-site", False), ("Oslo", None),
     ("Remoteness Bay", None), (None, None)],
)  # fmt: skip
def test_places_say_whether_work_is_remote(said: str | None, remote: bool | None) -> None:
    assert is_remote(said) is remote


def test_line_breaks_that_are_written_out_are_line_breaks() -> None:
    written = r"<p>About us\n\nRequirements:\r\n- 5 years of Python\n- Go</p><p>Kept in C:\new</p>"
    text = plain_text(written)
    assert text.splitlines() == ["About us", "Requirements:", "- 5 years of Python", "- Go", r"Kept in C:\new"]
    assert requirements_in(text) == ("5 years of Python", "Go")
