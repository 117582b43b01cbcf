"""The audit log: what callers of the pages and of the HTTP API have changed, or were not allowed to."""

from __future__ import annotations

from onceward.errors import ConfigError
from onceward.web.answers import Page
from onceward.web.roles import Role
from onceward.web.route import Answer, Route
from onceward.web.view import View

PAGE = 100


async def show(view: View) -> Answer:
    """Show the newest entries, or those before one."""
    text = view.query.get("before", "")
    if text and not (text.isdecimal() and len(text) < 19):
        raise ConfigError(f"before={text[:40]!r} is no number of an entry")
    found = await view.app.audit.alist(before=int(text) if text else None, limit=PAGE + 1)
    older = found[PAGE - 1].id if len(found) > PAGE else None
    values = {"entries": found[:PAGE], "older": older, "before": text}
    return Page("audit.html", values, "Audit log", "audit")


ROUTES: list[Route] = [Route("GET", "/audit", show, Role.ADMIN)]
