"""A route: a method, a path, the role that it needs, and the handler. The site asks for the role, no handler does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from starlette.responses import Response

from onceward.web.answers import Done, Page, Refused
from onceward.web.roles import Role

if TYPE_CHECKING:
    from onceward.web.view import View

Answer = Page | Done | Refused | Response
Handler = Callable[["View"], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Route:
    """One path of the site. A GET changes nothing; whatever changes something is a POST, PUT, PATCH or DELETE."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    handler: Handler
    role: Role
    kind: Literal["page", "action", "file", "api", "stream", "metrics"] = "page"
    about: str = ""
    """What it does, in one sentence, for the audit log and the API document."""

    @property
    def changes(self) -> bool:
        """Return whether it may change anything."""
        return self.method != "GET"


def page(path: str, handler: Handler) -> Route:
    """Return the route of a page, which every viewer may see."""
    return Route("GET", path, handler, Role.VIEWER)


def action(path: str, handler: Handler, about: str, *, role: Role = Role.OPERATOR) -> Route:
    """Return the route of a form that changes something."""
    return Route("POST", path, handler, role, "action", about)
