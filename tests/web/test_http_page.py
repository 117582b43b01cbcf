"""The page of the HTTP API says what the table of operations does."""

from __future__ import annotations

from tests.docs.http_page import PAGE, page


def test_the_page_is_as_the_table_is() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "write it anew: python -m tests.docs.http_page"
