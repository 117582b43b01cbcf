"""Carries actions on many tasks on in this process, while a dashboard has begun or shows one."""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

from onceward.app import App
from onceward.worker.bulk_carrier import BulkCarrier

_lock = threading.Lock()
_carriers: WeakKeyDictionary[App, BulkCarrier] = WeakKeyDictionary()


def carry(app: App) -> None:
    """See that open actions of this app are carried on here, unless a worker does it first."""
    with _lock:
        if app not in _carriers:
            _carriers[app] = app.bulk.attend()


def leave(app: App) -> None:
    """End that after the portion that is being done."""
    with _lock:
        carrier = _carriers.pop(app, None)
    if carrier is not None:
        carrier.stop()
