"""Watches and alerts of an app: what it looks for by itself, and what was found."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from typing import TYPE_CHECKING

from onceward.client.awaited import awaited
from onceward.client.client import Client
from onceward.client.namespace import Namespace
from onceward.errors import ConfigError
from onceward.model import arguments
from onceward.support.lazily import modules

if TYPE_CHECKING:
    from onceward.store.operations import alerts
    from onceward.views import alerts as shown
    from onceward.views.alerts import Alert, Watch
    from onceward.worker import watcher
else:
    (shown,) = modules("onceward.views.alerts")
    (alerts,) = modules("onceward.store.operations.alerts")
    (watcher,) = modules("onceward.worker.watcher")


def checked_watches(given: Iterable[Watch]) -> tuple[Watch, ...]:
    """The watches of an app; two of one name could not be told apart."""
    watches = arguments.checked_values(
        "watches", given, shown.Watch, "Watch('orphans', 'SELECT …', above=0, advice='…')"
    )
    names = [watch.name for watch in watches]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two watches are named {name!r}")
    return watches


class Alerts(Namespace):
    """`app.alerts`: what the rules of the engine and the watches of the app have found."""

    def __init__(self, client: Client, watches: tuple[Watch, ...]) -> None:
        super().__init__(client)
        self._watches = watches

    def list(self, *, open_only: bool = True, limit: int = 100) -> builtins.list[Alert]:
        """The alerts that last, newest first; or the newest of all."""
        most = arguments.most_of(limit)
        rows = self._client._ask(lambda: alerts.read_newest(open_only=bool(open_only), limit=most))
        return [shown.as_alert(row) for row in rows]

    alist = awaited(list)

    def look(self, *, if_due: bool = False) -> builtins.list[Alert]:
        """Look at all rules and watches at once, and tell the webhook; returns the alerts that last.

        Workers do that by themselves, every `watch_every`. With `if_due` nothing is done if a worker just has.
        """
        client = self._client
        client.prepare()
        session = client._store.client_session()  # its own: no call waits here for a slow watch, or for a webhook
        try:
            watching = watcher.Watcher(session, lambda: client.config, self._watches, client._readers.read)
            watching.step(at_once=not if_due)
        finally:
            session.close()
        return self.list(limit=arguments.MOST_LISTED)

    alook = awaited(look)
