"""What a handler is given: the app, who asks, and what was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette.requests import Request

from onceward.errors import ConfigError
from onceward.web.roles import Caller

if TYPE_CHECKING:
    from onceward.app import App

LONGEST_FORM = 1 << 20
"""Bytes of a form; a longer one is refused before it is read to its end."""


class TooLarge(ConfigError):
    """More was sent than a request may hold."""


@dataclass
class View:
    """One request to the site."""

    app: App
    caller: Caller
    request: Request

    @property
    def now(self) -> int:
        """The time of the database, in milliseconds."""
        return self.app._store.clock.now()

    @property
    def base(self) -> str:
        """The path below which the site is mounted, without a slash at its end."""
        return str(self.request.scope.get("root_path", "")).rstrip("/")

    @property
    def query(self) -> dict[str, str]:
        """The words behind the question mark, the last one of each name."""
        return dict(self.request.query_params)

    @property
    def path(self) -> dict[str, str]:
        """The parts of the path that its route names."""
        return self.request.path_params

    @property
    def task_id(self) -> int:
        """The number of the task that the path names, `/tasks/{id}`."""
        return int(self.path["id"])

    @cached_property
    def host(self) -> str:
        """The host that the browser believes it speaks to, in lower case, with its port."""
        return self.request.headers.get("host", "").lower()

    async def body(self, most: int = LONGEST_FORM) -> bytes:
        """Return what was sent, up to `most` bytes; more than that is refused."""
        pieces, size = [], 0
        async for piece in self.request.stream():
            size += len(piece)
            if size > most:
                raise TooLarge(f"more than {most:,} bytes were sent")
            pieces.append(piece)
        return b"".join(pieces)

    async def form(self) -> dict[str, str]:
        """Return the fields of a form, the last value of each name."""
        fields = parse_qs((await self.body()).decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=1_000)
        return {name: values[-1] for name, values in fields.items()}
