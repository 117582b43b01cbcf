"""Turns a page into HTML: templates that escape everything, with the words and the paths that all pages share."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from onceward.harmless import harmless_lines
from onceward.web import words
from onceward.web.answers import Page
from onceward.web.roles import Role
from onceward.web.shell import NAVIGATION, Shell
from onceward.web.shown import shown_key_of
from onceward.web.view import View

_templates = Environment(
    loader=PackageLoader("onceward.web", "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=lambda value: harmless_lines(value) if type(value) is str else value,  # also what a reader would obey
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters.update(words.FILTERS)


def rendered(page: Page, view: View, shell: Shell, toast: dict[str, Any] | None = None) -> str:
    """Return the HTML of a page, with what stands around every page."""
    now = view.now
    return _templates.get_template(page.template).render(
        **page.values,
        view=view,
        caller=view.caller,
        frame=shell,
        toast=toast,
        navigation=NAVIGATION,
        here=page.here,
        title=page.title,
        refresh_s=page.refresh_s,
        now=now,
        path=partial(path, view.base),
        since=lambda at: words.since(at, now),
        until=lambda at: words.until(at, now),
        may=lambda role: view.caller.may(Role[role.upper()]),
        seen_key=lambda kind, key: shown_key_of(kind, key, view.caller, view.secret),
        is_time=lambda value: isinstance(value, datetime),
    )


def path(base: str, to: str, /, **query: object) -> str:
    """Return the address of a page below the base path, with the words of a question that are not None."""
    words_of = {name: str(value) for name, value in query.items() if value is not None}
    return base + quote(to, safe="/:~@!$&'()*+,;=-._%") + (f"?{urlencode(words_of)}" if words_of else "")
