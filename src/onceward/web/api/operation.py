"""An operation of the API: its route, what it takes, what it answers. One place reads requests and writes answers."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Literal, TypeVar

import msgspec
from starlette.responses import Response

from onceward.app import App
from onceward.model import arguments
from onceward.web.problems import BadRequest
from onceward.web.roles import Caller, Role
from onceward.web.route import Route
from onceward.web.view import LONGEST_FORM, Noted, View

PREFIX = "/api/v1"
JSON = "application/json"

Q = TypeVar("Q", covariant=True)
B = TypeVar("B", covariant=True)
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


class NoQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Nothing stands behind the question mark."""


class NoBody(msgspec.Struct, forbid_unknown_fields=True):
    """An empty object, or nothing at all."""


@dataclass(frozen=True, slots=True)
class Call(Generic[Q, B]):
    """One request that was let in and read."""

    view: View
    query: Q
    body: B

    @property
    def app(self) -> App:
        """The app that is asked."""
        return self.view.app

    @property
    def caller(self) -> Caller:
        """Who asks."""
        return self.view.caller

    @property
    def task_id(self) -> int:
        """The number of the task that the path names."""
        return self.view.task_id

    @property
    def name(self) -> str:
        """The name that the path names."""
        return self.view.path["name"]

    def note(self, said: str, count: int = 1) -> None:
        """Say for the audit log what was changed."""
        self.view.noted = Noted(said, count)

    def seen_version(self) -> str | None:
        """The version of a task that the caller has seen, as its `If-Match` header says; None if it says none."""
        given = self.view.request.headers.get("if-match", "").strip()
        return None if given in ("", "*") else given.removeprefix("W/").strip('"')


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: a row of the table from which routes and the OpenAPI document are made."""

    method: Method
    path: str
    """Below the prefix; `{name:path}` may hold slashes."""
    run: Callable[[Call[Any, Any]], Awaitable[Any]]
    about: str
    answer: Any = None
    """The type of what it answers; None for what is no JSON."""
    query: type[Any] = NoQuery
    body: type[Any] | None = None
    role: Role = Role.VIEWER
    status: int = 200
    media: str = JSON
    longest: int = LONGEST_FORM
    """How many bytes a request may have."""
    checks_version: bool = False
    """Whether it heeds `If-Match`."""
    errors: tuple[int, ...] = ()
    """What may go wrong besides what may go wrong everywhere."""
    example: Any = None
    """What a request may hold."""

    @property
    def plain_path(self) -> str:
        """The path as the OpenAPI document has it."""
        return re.sub(r":path\}", "}", self.path)

    @property
    def parameters(self) -> list[str]:
        """What the path names."""
        return re.findall(r"\{(\w+)", self.path)

    @property
    def route(self) -> Route:
        """The route under which the site serves it."""
        return Route(self.method, PREFIX + self.path, partial(_serve, self), self.role, "api", self.about)


async def _serve(operation: Operation, view: View) -> Response:
    query = _read_query(operation.query, view)
    body = None if operation.body is None else await _read_body(operation, operation.body, view)
    answer = await operation.run(Call(view, query, body))
    if isinstance(answer, Response):
        return answer
    headers = {"Cache-Control": "no-store"}
    if (version := getattr(answer, "version", None)) is not None:
        headers["ETag"] = f'"{version}"'
    return Response(msgspec.json.encode(answer), operation.status, headers, JSON)


def _read_query(expected: type[Any], view: View) -> Any:
    given = view.query
    known = {field.encode_name for field in msgspec.structs.fields(expected)}
    for name in given:
        if name not in known:
            raise BadRequest(_unknown(name, sorted(known), "parameter"), at=name)
    if any("\0" in value for value in given.values()):
        raise BadRequest("a parameter holds a NUL character, which no stored text has")
    try:
        return msgspec.convert(given, expected, strict=False)
    except msgspec.ValidationError as error:
        raise _misfit(error) from error


async def _read_body(operation: Operation, expected: type[Any], view: View) -> Any:
    data = await view.body(operation.longest)
    if not data.strip():
        data = b"{}"
    elif (kind := view.request.headers.get("content-type", "").partition(";")[0].strip().lower()) != JSON:
        raise BadRequest(f"send the body as {JSON}, not as {kind or 'nothing that is said'}", status=415)
    try:
        return msgspec.json.decode(data, type=expected)
    except msgspec.ValidationError as error:
        raise _misfit(error) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the body is no JSON: {error}") from error


_PLACE = re.compile(r"(.*?) - at `\$\.?(.*)`$", re.S)
_UNKNOWN = re.compile(r"Object contains unknown field `([^`]*)`")


def _misfit(error: msgspec.ValidationError) -> BadRequest:
    """Return the error of a value that does not fit: what was expected, and where."""
    found = _PLACE.match(str(error))
    what, where = (found[1], found[2]) if found else (str(error), "")
    what = what.replace("`", "")
    return BadRequest(f"{where}: {what}" if where else what, at=where or None)


def _unknown(name: str, known: list[str], what: str) -> str:
    near = arguments.closest(name, known)
    there = f"did you mean {near}?" if near else f"there are: {', '.join(known) or 'none'}"
    return f"there is no {what} {arguments.shown(name)}; {there}"
