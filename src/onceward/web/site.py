"""The site: every request passes the guard, reaches its handler, and is answered with a page, a redirect or JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, compile_path
from starlette.routing import Route as Path_
from starlette.staticfiles import StaticFiles

from onceward.app import App
from onceward.errors import OncewardError, StoreError
from onceward.support.logs import EngineLog
from onceward.web import problems
from onceward.web.answers import Done, Page, Refused
from onceward.web.guard import (
    COOKIE,
    HEADERS,
    Access,
    Barred,
    bearer_of,
    host_barred,
    is_forwarded,
    origin_barred,
    secret_of,
)
from onceward.web.metrics import MetricsReader
from onceward.web.pulse import Pulse
from onceward.web.rendering import path, rendered
from onceward.web.roles import NOT_KNOWN, Caller, Role
from onceward.web.route import Answer, Route
from onceward.web.routes import ROUTES
from onceward.web.shell import Shell, ShellReader
from onceward.web.shown import sees_secrets
from onceward.web.view import View

STATIC = Path(__file__).parent / "static"
TOAST = "onceward_toast"
PROGRAMS = ("api", "stream", "metrics")
"""Kinds of routes that programs ask: their errors are problems in JSON, not pages."""
DATABASE_WAIT = "2s"
"""How long a page insists while the database is away, before it says so."""

logger = EngineLog("onceward.web")


class Site:
    """An app as a site: what `onceward web` serves, and what a program mounts with `app.asgi()`."""

    def __init__(self, app: App, access: Access, *, name: str = "") -> None:
        self.app = app
        self._access = access
        self._shell = ShellReader(app, name)
        self._pulse = Pulse(app)
        self._metrics = MetricsReader(app)

    def asgi(self) -> Starlette:
        """Return the site as an ASGI application."""
        routes: list[Path_ | Mount] = [
            Path_(route.path, partial(self._serve, route), methods=[route.method]) for route in ROUTES
        ]
        routes.append(Mount("/static", _Static(directory=STATIC)))
        site = Starlette(routes=routes, exception_handlers={HTTPException: self._no_route})
        site.add_middleware(_Headers)
        return site

    async def _serve(self, route: Route, request: Request) -> Response:
        view = View(self.app, NOT_KNOWN, request, self._pulse, self._metrics)
        try:
            barred = host_barred(request, self._access.hosts)
            if barred is None and route.changes and bearer_of(request) is None:
                barred = origin_barred(request)
            if barred is not None:
                return await self._refused(view, route, barred)
            view.caller = await self._caller(request)
            if not view.caller.may(route.role):
                return await self._not_allowed(view, route)
            answer = await route.handler(view)
            return await self._answered(view, route, answer)
        except StoreError as error:
            return await self._away(view, route, error)
        except OncewardError as error:
            if route.kind in PROGRAMS:
                return problems.problem_of(error)
            return await self._refused(view, route, Barred(problems.status_of(error), str(error)))
        except ClientDisconnect:
            return Response(status_code=499)  # the caller has gone, and reads no answer
        except Exception:  # a mistake of ours: the trace is logged, the caller is told no more than that
            logger.exception("a request failed", method=route.method, path=route.path)
            return await self._refused(
                view, route, Barred(500, "this is a mistake of the dashboard; its log says more")
            )

    async def _caller(self, request: Request) -> Caller:
        secret = secret_of(request)
        if secret is not None:
            grant = await self.app.tokens.acheck(secret)
            if grant is not None:
                return Caller(grant.name, Role[grant.role.upper()])
        if self._access.open_role and not is_forwarded(request) and not await self.app.tokens.aany():
            return Caller("local", self._access.open_role)
        return NOT_KNOWN

    async def _not_allowed(self, view: View, route: Route) -> Response:
        """Answer a caller whose role is too low; an attempt to change something stands in the audit log."""
        if route.changes and view.caller.role:
            await self._record(view, route, "refused", 0, f"needs the role {route.role.word}")
        if view.caller.role or route.kind in PROGRAMS:
            status = HTTPStatus.FORBIDDEN if view.caller.role else HTTPStatus.UNAUTHORIZED
            why = f"this needs the role {route.role.word}"
            if view.caller.role:
                why += f"; you are {view.caller.role.word}"
            elif secret_of(view.request):
                why += "; this token is not known, has expired or was revoked"
            else:
                why += "; send a token as a bearer"
            return await self._refused(view, route, Barred(status, why))
        if route.kind == "page" and not view.request.headers.get("hx-request"):
            url = view.request.url
            back = url.path.removeprefix(view.base) + (f"?{url.query}" if url.query else "")
            page = Page("login.html", {"back": back, "wrong": False}, "Sign in", status=401)
            return self._html(view, page)
        return await self._refused(view, route, Barred(401, "this needs a token; sign in"))

    async def _answered(self, view: View, route: Route, answer: Answer) -> Response:
        if isinstance(answer, Response):
            if view.noted is not None:
                await self._record(view, route, "done", view.noted.count, view.noted.said)
                logger.info("changed by the API", author=view.caller.name, said=view.noted.said)
            return answer
        if isinstance(answer, Page):
            return await self._page(view, answer)
        if isinstance(answer, Done):
            await self._record(view, route, "done", answer.count, answer.said)
            logger.info("changed by a page", author=view.caller.name, said=answer.said)
        back = RedirectResponse(_address(view.base, answer.back), status_code=303)
        said, stays = (answer.said, answer.stays) if isinstance(answer, Done) else (answer.why, True)
        toast = {"said": said[:600], "stays": stays, "is_bad": isinstance(answer, Refused)}
        if isinstance(answer, Done) and answer.command:
            toast["command"] = answer.command[:300]
        secure = view.request.url.scheme == "https"
        words = quote(msgspec.json.encode(toast))
        back.set_cookie(TOAST, words, httponly=True, samesite="strict", secure=secure, max_age=30)
        return back

    async def _record(self, view: View, route: Route, outcome: str, count: int, note: str) -> None:
        target = {**view.path, **view.query}
        await self.app.audit.arecord(
            author=view.caller.name,
            role=view.caller.role.word,
            action=f"{route.method} {route.path}",
            target=target,
            count=count,
            outcome=outcome,
            note=note,
        )

    async def _page(self, view: View, page: Page) -> Response:
        toast = _toast_of(view.request)
        if not sees_secrets(view.caller):
            view.secret = await self.app.tasks.asecret_fields()
        answer = self._html(view, page, await self._shell.read(), toast)
        if toast is not None:
            answer.delete_cookie(TOAST)
        return answer

    def _html(self, view: View, page: Page, shell: Any = None, toast: dict[str, Any] | None = None) -> Response:
        # A caller who is not known does not learn what database this is.
        frame = (shell or self._shell.empty) if view.caller.role else Shell("", "", "")
        text = rendered(page, view, frame, toast)
        return HTMLResponse(text, status_code=page.status, headers={"Cache-Control": "no-store"})

    async def _refused(self, view: View, route: Route, barred: Barred) -> Response:
        if route.kind in PROGRAMS:
            return problems.problem(barred.status, barred.why)
        headline = HTTPStatus(barred.status).phrase
        values = {"headline": headline, "why": barred.why, "barred": True, "back": _came_from(view)}
        return self._html(view, Page("refused.html", values, headline, status=barred.status, refresh_s=None))

    async def _away(self, view: View, route: Route, error: StoreError) -> Response:
        is_known = view.caller.role or self._access.open_role
        why = str(error) if is_known else "Who you are cannot be looked up before it does."
        if route.kind in PROGRAMS:
            return problems.problem(503, f"the database does not answer: {why}")
        answer = self._html(view, Page("away.html", {"why": why}, "No answer", status=503))
        answer.headers["Retry-After"] = "3"
        return answer

    async def _no_route(self, request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", 404)
        if barred := host_barred(request, self._access.hosts):
            return problems.problem(barred.status, barred.why)
        root = str(request.scope.get("root_path", "")).rstrip("/")
        if request.url.path.startswith(f"{root}/api/"):
            answer = problems.problem(status, f"there is no {request.method} {request.url.path}")
            if status == HTTPStatus.METHOD_NOT_ALLOWED:
                answer.headers["Allow"] = ", ".join(_allowed(request.url.path.removeprefix(root)))
            return answer
        view = View(self.app, NOT_KNOWN, request)
        why = f"There is no page {request.url.path}." if status == 404 else HTTPStatus(status).phrase
        values = {"headline": HTTPStatus(status).phrase, "why": why, "barred": False, "back": ""}
        return self._html(view, Page("refused.html", values, "Not found", status=status, refresh_s=None))


def _allowed(path: str) -> list[str]:
    """Return the methods that a path takes."""
    return sorted({route.method for route in ROUTES if compile_path(route.path)[0].match(path)})


class _Static(StaticFiles):
    """The files of the pages: the same for every caller, kept by browsers for an hour."""

    async def get_response(self, path: str, scope: Any) -> Response:
        answer = await super().get_response(path, scope)
        answer.headers["Cache-Control"] = "public, max-age=3600"
        return answer


_EVERYWHERE = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


class _Headers:
    """Adds the headers that every answer has, errors and streams included."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_EVERYWHERE]
            await send(message)

        await self._app(scope, receive, sending)


def _came_from(view: View) -> str:
    """Return the page of this site whose form was refused; empty where the browser names none."""
    came = urlsplit(view.request.headers.get("referer", ""))
    is_here = came.netloc == view.request.headers.get("host") and came.path.startswith(f"{view.base}/")
    if view.request.method == "GET" or not is_here or came.path.startswith(("//", "/\\")):
        return ""
    return came.path + (f"?{came.query}" if came.query else "")


def _address(base: str, back: str) -> str:
    """Return the address of a page below the base path, with the question that it may bring."""
    to, _, question = back.partition("?")
    return path(base, to) + (f"?{quote(question, safe='=&%+-_.,:~')}" if question else "")


def _toast_of(request: Request) -> dict[str, Any] | None:
    """Return what the last action has left to say; nothing if that is not of our making."""
    text = request.cookies.get(TOAST)
    if not text:
        return None
    try:
        toast = msgspec.json.decode(unquote(text), type=dict[str, Any])
    except msgspec.DecodeError:
        return None
    return {"said": "", "stays": False, "is_bad": False, "command": "", **toast}


def sign_in(view: View, secret: str, back: str) -> Response:
    """Return the redirect that leaves a token with a browser."""
    answer = RedirectResponse(_address(view.base, back), status_code=303)
    secure = view.request.url.scheme == "https"
    answer.set_cookie(COOKIE, secret, httponly=True, samesite="strict", secure=secure, max_age=30 * 86_400)
    return answer
