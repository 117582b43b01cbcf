"""What a stage stores while it runs: cursors, and values of parts that are done once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from onceward.authoring.spending import Spending
from onceward.authoring.stage_view import read_stored
from onceward.errors import ConfigError, LeaseLost
from onceward.model import codec
from onceward.model.task import NO_EFFECTS, ONCE_PREFIX, Effects, Keep, Part

T = TypeVar("T")


class Checkpoints(Spending):
    """The part of a context that is about checkpoints and parts."""

    def checkpoint(self, cursor: Any) -> None:
        """Commit a cursor and all effects so far. After this returns they are durable, also if the stage fails.

        If it raises, nothing of it was kept, and the effects wait for the next checkpoint or the end of the stage.
        """
        move, effects = self._checkpoint(cursor)
        try:
            accepted = self._desk.keep(self._lease, move, effects)
        except Exception:
            self._take_back(effects)
            raise
        self._kept(accepted, move)

    async def acheckpoint(self, cursor: Any) -> None:
        """`checkpoint`, awaited."""
        move, effects = self._checkpoint(cursor)
        try:
            accepted = await self._desk.akeep(self._lease, move, effects)
        except Exception:
            self._take_back(effects)
            raise
        self._kept(accepted, move)

    def once(self, name: str, function: Callable[[], T], type: Any = Any) -> T:
        """The value of `function()`, which is stored at once and never asked for again in this run of the task."""
        found, value = self._once(name, type)
        if found:
            return value  # type: ignore[no-any-return]
        self._refuse_if_ended()
        move = self._once_part(name, function(), type)
        self._kept(self._desk.keep(self._lease, move, NO_EFFECTS), move)
        return self._once(name, type)[1]  # type: ignore[no-any-return]

    async def aonce(self, name: str, function: Callable[[], Awaitable[T]], type: Any = Any) -> T:
        """`once` for a function that is awaited."""
        found, value = self._once(name, type)
        if found:
            return value  # type: ignore[no-any-return]
        self._refuse_if_ended()
        move = self._once_part(name, await function(), type)
        self._kept(await self._desk.akeep(self._lease, move, NO_EFFECTS), move)
        return self._once(name, type)[1]  # type: ignore[no-any-return]

    # For the worker

    def _checkpoint(self, cursor: Any) -> tuple[Keep, Effects]:
        """The move that stores a cursor, and the effects that are committed with it."""
        raise NotImplementedError

    def _take_back(self, effects: Effects) -> None:
        """Take effects back that were not committed."""
        raise NotImplementedError

    def _part(self, part: str, value: Any, what: str) -> Keep:
        self._refuse_if_ended()
        return Keep(self._stage.name, (Part(self._stage.name, part, codec.encoded(value, what)),))

    def _once_part(self, name: str, value: Any, expected: Any) -> Keep:
        """The part to store: checked now to be what was asked for, because stored it would stay wrong for ever."""
        move = self._part(ONCE_PREFIX + name, value, f"the part {name!r}")
        try:
            codec.decoder(expected)(move.parts[0].value)
        except msgspec.ValidationError as error:
            raise ConfigError(f"the part {name!r} is not of the type that was asked for: {error}") from error
        return move

    def _once(self, name: str, expected: Any) -> tuple[bool, Any]:
        data = self._parts.get((self._stage.name, ONCE_PREFIX + codec.checked_name(name, "a part")))
        return (False, None) if data is None else (True, read_stored(data, expected, f"the part {name!r}"))

    def _kept(self, accepted: bool, move: Keep) -> None:
        if not accepted:
            raise LeaseLost(f"task {self._lease.task} belongs to another attempt now; nothing was kept")
        for part in move.parts:
            self._parts[part.stage, part.part] = part.value
