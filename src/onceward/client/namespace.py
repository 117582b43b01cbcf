"""What an app offers on one subject, as `app.workers` does: operations that ask and write through its client."""

from __future__ import annotations

from onceward.client.client import Client


class Namespace:
    """The operations of one subject. An app has one of each."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __repr__(self) -> str:
        return f"<{self._spoken}>"

    @property
    def _spoken(self) -> str:
        """How a program names it."""
        return f"app.{type(self).__name__.lower()}"
