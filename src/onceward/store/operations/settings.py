"""Settings in the database: what was changed while workers run, by whom and when.

Two values that are fine one by one may contradict each other. So who changes one holds the lock of all, looks at what
stands there, and writes only what goes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from onceward.store.op import Op, Query


class LiveSetting(NamedTuple):
    """A row: a value as a text, since when, by whom."""

    name: str
    value: str
    at: int
    author: str


def live() -> Op[list[LiveSetting]]:
    """All of them, the one that was changed last at the end."""
    return [LiveSetting(*row) for row in (yield Query("read_settings"))]


def change(
    new: LiveSetting, check: Callable[[Sequence[LiveSetting]], None], type: str, about: str
) -> Op[list[LiveSetting]]:
    """Write one, with its type and what it is for, if `check` accepts all as they would be then; returns them."""
    yield Query("lock_settings")
    others = [one for one in (yield from live()) if one.name != new.name]
    check([*others, new])
    yield Query("set_setting", new._asdict())
    yield Query("describe_setting", {"name": new.name, "type": type, "about": about})
    return [*others, new]


def remove(name: str, check: Callable[[Sequence[LiveSetting]], None]) -> Op[list[LiveSetting] | None]:
    """Take one away if `check` accepts the others without it; returns them, or None if it was not there."""
    yield Query("lock_settings")
    others = [one for one in (yield from live()) if one.name != name]
    check(others)
    return others if (yield Query("unset_setting", {"name": name})) else None
