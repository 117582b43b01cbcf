"""The site on both databases, asked as a server asks it: by ASGI, without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import pytest

from onceward import App
from onceward.web.guard import LOCAL_HOSTS, Access
from onceward.web.roles import Role
from onceward.web.site import Site


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str:
        """The value of a header; empty if it is not there."""
        return next((value for one, value in self.headers if one == name), "")

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Client:
    """Asks one site, on one event loop."""

    asgi: Any
    runner: asyncio.Runner
    headers: dict[str, str] = field(default_factory=lambda: {"host": "localhost"})
    scheme: str = "http"

    def with_token(self, secret: str) -> Client:
        """The same site, asked by a caller with a token."""
        return Client(self.asgi, self.runner, {**self.headers, "authorization": f"Bearer {secret}"})

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        return self.ask("GET", path, b"", headers)

    def post(self, path: str, json_body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        data = b"" if json_body is None else json.dumps(json_body).encode()
        typed = {"content-type": "application/json"} if data else {}
        return self.ask("POST", path, data, {**typed, **(headers or {})})

    def form(self, path: str, fields: Mapping[str, str], headers: Mapping[str, str] | None = None) -> Answer:
        typed = {"content-type": "application/x-www-form-urlencoded"}
        return self.ask("POST", path, urlencode(fields).encode(), {**typed, **(headers or {})})

    def ask(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None, root: str = ""
    ) -> Answer:
        """Ask for a path; a stream is read for as long as it lasts."""
        return self.runner.run(self._ask(method, path, body, {**self.headers, **(headers or {})}, root))

    async def ask_slowly(self, method: str, path: str, body: bytes) -> Answer:
        """Begin to send a body, and never end."""
        return await self._ask(method, path, body, {**self.headers, "content-type": "application/json"}, "", True)

    async def _ask(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], root: str, goes_on: bool = False
    ) -> Answer:
        whole, _, query = path.partition("?")
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": self.scheme,
            "path": whole, "raw_path": whole.encode(), "query_string": query.encode(), "root_path": root,
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 50_000), "server": ("localhost", 80),
        }  # fmt: skip
        pieces, begun = [], {}
        sent = False

        async def receive() -> dict[str, Any]:
            nonlocal sent
            if sent:
                await asyncio.Event().wait()  # the caller stays
            sent = True
            return {"type": "http.request", "body": body, "more_body": goes_on}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                begun.update(message)
            else:
                pieces.append(message.get("body", b""))

        await self.asgi(scope, receive, send)
        answered = [(name.decode().lower(), value.decode()) for name, value in begun["headers"]]
        return Answer(begun["status"], answered, b"".join(pieces))


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """A database with nothing in it but the engine's tables, once of each kind."""
    url: str = request.getfixturevalue("migrated_sqlite_url" if request.param == "sqlite" else "emptied_postgres_url")
    return url


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """The event loop on which the site is asked."""
    with asyncio.Runner() as one:
        yield one


def client_of(app: App, runner: asyncio.Runner, role: Role = Role.ADMIN) -> Client:
    """A client of an app's site as `onceward web` serves it on loopback, or with `Role.NONE` on a public address."""
    return Client(Site(app, Access(LOCAL_HOSTS, role), name="shop").asgi(), runner)
