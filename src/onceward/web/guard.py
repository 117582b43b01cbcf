"""The one place that lets a request pass: its host, its origin, its caller and the role that its route needs."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from dataclasses import dataclass, field

from starlette.requests import Request

from onceward.web.roles import Role

COOKIE = "onceward_token"
"""The cookie in which a browser keeps its token: no script reads it, and no other site makes a browser send it."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
"""What every answer says, whatever it is."""
FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
"""Headers that a proxy adds."""
LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})


@dataclass(frozen=True, slots=True)
class Access:
    """Who may come in, as the site was started."""

    hosts: Collection[str] | None = field(default_factory=lambda: LOCAL_HOSTS)
    """The names under which the site may be asked for, without ports; None: any, where a program checks that itself."""
    open_role: Role = Role.NONE
    """What a caller without a token may do, as long as the database has no token: ADMIN on loopback, else nothing."""


@dataclass(frozen=True, slots=True)
class Barred:
    """Why a request does not pass."""

    status: int
    why: str


def host_barred(request: Request, hosts: Collection[str] | None) -> Barred | None:
    """Refuse a request under a foreign name: a page of another site may have pointed that name at this machine."""
    if hosts is None:
        return None
    host = request.headers.get("host", "").lower()
    name = host.rpartition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
    if name in hosts:
        return None
    return Barred(421, f"this dashboard is not served as {name or 'a site without a name'}; start it with --host-name")


def origin_barred(request: Request) -> Barred | None:
    """Refuse what would change something and comes from a page of another site."""
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        return Barred(403, "it was sent by a page of another site")
    origin = request.headers.get("origin")
    if origin is None:
        return None
    host = request.headers.get("host", "").lower()
    if origin.lower().partition("://")[2] != host:
        return Barred(403, "it was sent by a page of another site")
    return None


def bearer_of(request: Request) -> str | None:
    """Return the token that a program sends in its header. No page of another site can make a browser send one; the
    password that a proxy has asked for (`Basic`) a browser sends with every request, so that it proves nothing."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret.strip() or None if scheme.lower() == "bearer" else None


def secret_of(request: Request) -> str | None:
    """Return the token that a request brings: in its header, as programs do, or in its cookie, as browsers do."""
    return bearer_of(request) or request.cookies.get(COOKIE)


def is_forwarded(request: Request) -> bool:
    """Return whether a proxy has passed a request on: then it may come from anywhere, whatever address it came by."""
    return any(name in request.headers for name in FORWARDED)


def is_loopback(host: str) -> bool:
    """Return whether an address to listen on is reached from this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
