"""What a handler is given: the app, who asks, and what was asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette.requests import Request

from onceward.errors import ConfigError
from onceward.model import arguments
from onceward.web.roles import Caller

if TYPE_CHECKING:
    from onceward.app import App
    from onceward.web.metrics import MetricsReader
    from onceward.web.pulse import Pulse

LONGEST_FORM = 1 << 20
"""Bytes of a form; a longer one is refused before it is read to its end."""


LONGEST_NUMBER = 19
"""Digits of a number that a database holds."""
SENT_WITHIN_S = 30.0
"""How long a caller may take to send a request: a slow one must not hold a place for ever."""


class TooLarge(ConfigError):
    """More was sent than a request may hold."""


class TooSlow(ConfigError):
    """A request has taken too long to come."""


class NotThere(ConfigError):
    """What a path names is not there, and cannot be."""


@dataclass(frozen=True, slots=True)
class Noted:
    """What an operation of the API has changed, for the audit log."""

    said: str
    count: int = 1


@dataclass
class View:
    """One request to the site."""

    app: App
    caller: Caller
    request: Request
    pulse: Pulse | None = None
    """Tells open pages of changes."""
    given_metrics: MetricsReader | None = None
    secret: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The fields of payloads that viewers do not see, by kind; read for viewers alone."""
    noted: Noted | None = None
    """What an operation of the API has changed."""

    @cached_property
    def metrics(self) -> MetricsReader:
        """What reads the figures for Prometheus: that of the site, which all requests share."""
        if self.given_metrics is not None:
            return self.given_metrics
        from onceward.web.metrics import MetricsReader

        return MetricsReader(self.app)

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
        """The number of the task that the path names, `/tasks/{id}`; an error that says so if it is none."""
        text = str(self.path["id"])  # a number already, where the path of the route says so
        if not (text.isascii() and text.isdecimal()) or len(text) > LONGEST_NUMBER:
            raise NotThere(f"{arguments.shown(text)} is not the number of a task, which is a whole number like 17")
        return int(text)

    @cached_property
    def host(self) -> str:
        """The host that the browser believes it speaks to, in lower case, with its port."""
        return self.request.headers.get("host", "").lower()

    async def body(self, most: int = LONGEST_FORM) -> bytes:
        """Return what was sent, up to `most` bytes; more than that, or what takes too long to come, is refused."""
        said = self.request.headers.get("content-length", "")
        if said.isascii() and said.isdecimal() and (len(said) > LONGEST_NUMBER or int(said) > most):
            raise TooLarge(f"a request has at most {most:,} bytes here")
        pieces, size = [], 0
        try:
            async with asyncio.timeout(SENT_WITHIN_S):
                async for piece in self.request.stream():
                    size += len(piece)
                    if size > most:
                        raise TooLarge(f"a request has at most {most:,} bytes here")
                    pieces.append(piece)
        except TimeoutError:
            raise TooSlow(f"the request had not come after {SENT_WITHIN_S:g} s") from None
        return b"".join(pieces)

    async def lists(self) -> dict[str, list[str]]:
        """Return the fields of a form with all values of each name, as checkboxes send them."""
        return parse_qs((await self.body()).decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=2_000)

    async def form(self) -> dict[str, str]:
        """Return the fields of a form, the last value of each name."""
        fields = parse_qs((await self.body()).decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=1_000)
        return {name: values[-1] for name, values in fields.items()}
