"""What operators do with the response cache: see what it is good for, and have it forget."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import Any

from onceward.client.awaited import awaited
from onceward.client.namespace import Namespace
from onceward.errors import ConfigError
from onceward.model import arguments
from onceward.model.cache import hash_of
from onceward.store.governance import cache


@dataclass(frozen=True, slots=True)
class CacheStatus:
    """What the cache has of one source, and what it was good for so far."""

    source: str
    entries: int
    bytes: int
    hits: int
    misses: int
    retry_hits: int
    """Those of the hits that were for a task which had failed before, or whose worker was lost."""
    retry_misses: int

    @property
    def hit_rate(self) -> float | None:
        """What part of the answers came from the cache; None if it was never asked."""
        return _share(self.hits, self.misses)

    @property
    def retry_hit_rate(self) -> float | None:
        """The same for retries only: what they did not have to pay for again."""
        return _share(self.retry_hits, self.retry_misses)


class Cache(Namespace):
    """`app.cache`: the answers of sources that all workers share."""

    def list(self, source: str | None = None) -> builtins.list[CacheStatus]:
        """What the cache has of each source, or of one, by name, and how often it had what was wanted."""
        sought = arguments.some_text_of(source, "name of a source")
        return [CacheStatus(*row) for row in self._client._ask(lambda: cache.contents(sought))]

    alist = awaited(list)

    def clear(self, source: str | None = None, key: Any = None) -> int:
        """Forget all answers, those of a source, or the one for a key of it; returns how many.

        One that is being asked for while this runs goes to the stages that wait for it, and is not kept.
        """
        if key is not None and source is None:
            raise ConfigError("a key belongs to a source: app.cache.clear(source, key)")
        sought = arguments.some_text_of(source, "name of a source")
        hashed = None if key is None else hash_of(key)
        return cache.clear(self._client._transact, sought, hashed, self._client._store.clock.now())

    aclear = awaited(clear)


def _share(hits: int, misses: int) -> float | None:
    return hits / (hits + misses) if hits + misses else None
