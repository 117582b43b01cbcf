"""A lineage across an HTTP hop: work that a service enqueues for a stage of ours is a child of that stage's task.

The lineage travels in the `baggage` header of W3C, beside what others have put there. A stage sends it:

    urllib.request.Request(url, data, headers=outgoing_headers({"Content-Type": "application/json"}))
    httpx.post(url, json=body, headers=outgoing_headers())

A server takes it up, whatever its framework; ASGI and WSGI hand over their headers as they are:

    async def endpoint(request):                         # Starlette, FastAPI, …
        with incoming(request.headers):
            await app.aenqueue(Listing(url))

    async def asgi(scope, receive, send):
        with incoming(scope["headers"]): ...

    def wsgi(environ, start_response):                   # Flask: incoming(request.headers)
        with incoming(environ):
            app.enqueue(Listing(url))

The header only names a task. Its depth, its ancestors and its limits are read from its row, in the transaction that
makes the child, so a header can be forged but buys nothing: all rules of that lineage hold.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from onceward.authoring.current_stage import current
from onceward.errors import ConfigError, NoLineage

HEADER = "baggage"
TRACE, TRACE_STATE = "traceparent", "tracestate"
LINEAGE, TASK, DEPTH = "onceward.lineage", "onceward.task", "onceward.depth"

Headers = Mapping[str, str] | Mapping[bytes, bytes] | Iterable[tuple[str, str]] | Iterable[tuple[bytes, bytes]]
"""Headers as a mapping or as pairs, text or bytes; or the `environ` of WSGI."""

_NUMBER = re.compile(r"[0-9]{1,18}")
_OURS = (LINEAGE, TASK, DEPTH)
_WSGI_NAME = "http_baggage"


@dataclass(frozen=True, slots=True)
class Far:
    """The task in another process for which a request is served here."""

    lineage: uuid.UUID
    task: int
    depth: int
    """What the sender says. Nothing is decided by it."""
    otherwise: Literal["raise", "root"] = "raise"
    """What to do with work for a task that this database does not know."""


class Tracing(Protocol):
    """What carries a trace over a hop, beside the lineage."""

    def outgoing(self) -> Mapping[str, str]:
        """Headers for a request that is sent from here."""

    def incoming(self, headers: Mapping[str, str]) -> AbstractContextManager[None]:
        """While this lasts, what is traced here belongs to the trace of a request with these headers."""


tracing: Tracing | None = None
"""The tracing of this process, once it is switched on."""

_arrived: ContextVar[Far | None] = ContextVar("onceward_far_task", default=None)


def outgoing_headers(headers: Headers | None = None) -> dict[str, str]:
    """Headers for a request, with the lineage of the stage that sends it. What others have in `baggage` is kept.

    Outside of a stage nothing is added; a server that passes a request on passes its lineage on too.
    """
    given = list(_pairs(headers))
    others = {name: value for name, value in given if name.lower() != HEADER}
    members = [one for name, value in given if name.lower() == HEADER for one in _members(value)]
    far = _sender()
    if far is not None:
        # First, because a header that is too long is cut at its end.
        ours = [f"{LINEAGE}={far.lineage}", f"{TASK}={far.task}", f"{DEPTH}={far.depth}"]
        members = [*ours, *(one for one in members if _name_of(one) not in _OURS)]
    if tracing is not None and TRACE not in map(str.lower, others):
        others |= tracing.outgoing()
    return {**others, HEADER: ",".join(members)} if members else others


@contextmanager
def incoming(
    headers: Headers, *, required: bool = False, otherwise: Literal["raise", "root"] = "raise"
) -> Iterator[None]:
    """While this lasts, what is enqueued here joins the lineage of the task that has sent the request.

    Without our members in `baggage` nothing changes, unless a lineage is `required`. A header that cannot be read, or
    that names a task which this database does not know, raises `NoLineage`; with `otherwise="root"` the work begins a
    lineage of its own instead.
    """
    if otherwise not in ("raise", "root"):
        raise ConfigError(f"otherwise={otherwise!r}: it is 'raise' or 'root'")
    far = _read(headers, otherwise)
    if far is None and required:
        raise NoLineage(f"the request names no lineage in its {HEADER} header; the sender adds it by outgoing_headers")
    token = _arrived.set(far)
    try:
        with nullcontext() if tracing is None else tracing.incoming(_trace_headers(headers)):
            yield
    finally:
        _arrived.reset(token)


def far_task(root: bool) -> Far | None:
    """The far task of which work that is enqueued here is a child; None if a stage runs here, or it is a root."""
    return None if root or current.get() is not None else _arrived.get()


def _sender() -> Far | None:
    context = current.get()
    if context is None:
        return _arrived.get()
    task = context.task
    return Far(task.lineage, task.id, task.depth)


def _read(headers: Headers, otherwise: Literal["raise", "root"]) -> Far | None:
    found: dict[str, str] = {}
    for name, value in _pairs(headers):
        if name.lower() in (HEADER, _WSGI_NAME):
            for member in _members(value):
                key = _name_of(member)
                if key in _OURS:
                    found.setdefault(key, member.partition("=")[2].partition(";")[0].strip())
    if not found:
        return None
    try:
        lineage = uuid.UUID(found[LINEAGE])
        numbers = [found[TASK], found.get(DEPTH, "0")]
        if not all(_NUMBER.fullmatch(number) for number in numbers):
            raise ValueError(f"{numbers} are not two numbers")
        return Far(lineage, int(numbers[0]), int(numbers[1]), otherwise)
    except (KeyError, ValueError) as error:
        if otherwise == "root":
            return None
        what = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
        raise NoLineage(f"the {HEADER} header of the request cannot be read: {what}") from error


def _trace_headers(headers: Headers) -> dict[str, str]:
    names = ((name.lower().removeprefix("http_"), value) for name, value in _pairs(headers))
    return {name: value for name, value in names if name in (TRACE, TRACE_STATE)}


def _pairs(headers: Any) -> Iterator[tuple[str, str]]:
    """Headers in whichever form, as pairs of text. What is not text in a WSGI environ is no header."""
    if headers is None:
        return
    for name, value in headers.items() if hasattr(headers, "items") else headers:
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        if isinstance(text, str):
            yield name.decode("latin-1") if isinstance(name, bytes) else str(name), text


def _members(value: str) -> list[str]:
    return [member.strip() for member in value.split(",") if member.strip()]


def _name_of(member: str) -> str:
    return member.partition("=")[0].strip()
