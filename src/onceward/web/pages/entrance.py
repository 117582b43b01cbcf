"""Signing in with a token, and out."""

from __future__ import annotations

from starlette.responses import RedirectResponse

from onceward.web.answers import Page
from onceward.web.guard import COOKIE
from onceward.web.rendering import path
from onceward.web.roles import Role
from onceward.web.route import Answer, Route
from onceward.web.view import View


async def ask(view: View) -> Answer:
    """Show the field for a token."""
    return Page("login.html", {"back": _below(view.query.get("back", "/")), "wrong": False}, "Sign in", refresh_s=None)


async def enter(view: View) -> Answer:
    """Leave a valid token with the browser; say that another one is wrong."""
    from onceward.web.site import sign_in

    form = await view.form()
    back, secret = _below(form.get("back", "/")), form.get("token", "").strip()
    if secret and await view.app.tokens.acheck(secret) is not None:
        return sign_in(view, secret, back)
    return Page("login.html", {"back": back, "wrong": True}, "Sign in", status=401, refresh_s=None)


async def leave(view: View) -> Answer:
    """Take the token from the browser."""
    answer = RedirectResponse(path(view.base, "/login"), status_code=303)
    answer.delete_cookie(COOKIE)
    return answer


def _below(back: str) -> str:
    """Return a path of this site: never an address elsewhere to which a link could lead a person who signs in."""
    return back if back.startswith("/") and not back.startswith(("//", "/\\")) else "/"


ROUTES = [
    Route("GET", "/login", ask, Role.NONE),
    Route("POST", "/login", enter, Role.NONE, "page", "Sign in with a token."),
    Route("POST", "/logout", leave, Role.NONE, "page", "Sign out."),
]
