"""Tells open pages that the database has changed: one look a second for all of them, none while no page is open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.responses import Response, StreamingResponse

from onceward.app import App
from onceward.errors import StoreError
from onceward.model.connection import Connection
from onceward.web.roles import Role
from onceward.web.route import Route
from onceward.web.view import View

LOOK_EVERY_S = 1.0
SILENCE_S = 15.0
"""After so long a quiet stream sends a comment, so that proxies keep it open and a page that has gone is noticed."""
NEWEST = (
    "SELECT (SELECT max(id) FROM onceward_attempt), (SELECT max(seq) FROM onceward_claim), "
    "(SELECT max(id) FROM onceward_task)"
)
"""The newest rows of the three tables that only grow."""
MOST_STREAMS = 200
"""How many pages may listen at once; a further one is told to ask again later."""


async def live(view: View) -> Response:
    """Answer with a stream of events, as long as the page is open."""
    pulse = view.pulse
    if pulse is None or not pulse.has_room:
        return Response("too many open pages", status_code=503, headers={"Retry-After": "30"})
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(pulse.stream(), media_type="text/event-stream", headers=headers)


class Pulse:
    """The heart of the live pages: a number that grows whenever the log of the engine has."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._listening = 0
        self._beat = asyncio.Condition()
        self._count = 0
        self._seen: object = None
        self._looking: asyncio.Task[None] | None = None

    @property
    def has_room(self) -> bool:
        """Whether one more page may listen."""
        return self._listening < MOST_STREAMS

    async def stream(self) -> AsyncIterator[str]:
        """Yield a server-sent event whenever something has changed; comments while nothing does."""
        self._listening += 1
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            yield "retry: 3000\n\n"
            seen = self._count
            while True:
                async with self._beat:
                    try:
                        await asyncio.wait_for(self._beat.wait_for(lambda: self._count != seen), SILENCE_S)  # noqa: B023
                    except TimeoutError:
                        yield ": nothing new\n\n"
                        continue
                seen = self._count
                yield f"event: changed\nid: {seen}\ndata: {seen}\n\n"
        finally:
            self._listening -= 1
            if not self._listening and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    async def _look(self) -> None:
        while True:
            try:
                newest = await self._app.aread(_newest)
            except StoreError as error:
                newest = type(error).__name__  # pages then ask, and say that the database is away
            if newest != self._seen:
                self._seen = newest
                async with self._beat:
                    self._count += 1
                    self._beat.notify_all()
            await asyncio.sleep(LOOK_EVERY_S)


def _newest(connection: Connection) -> object:
    return tuple(connection.execute(NEWEST).fetchone() or ())


ROUTES = [Route("GET", "/live", live, Role.VIEWER, "stream", "Tell an open page of changes.")]
