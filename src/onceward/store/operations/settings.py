"""Settings in the database: values that were changed while workers run, with their author and time (decision 24).

Two values that are valid alone may contradict each other. So a change holds the lock of all settings, reads them, and
writes only a value that fits the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from onceward.store.op import Op, Query


class LiveSetting(NamedTuple):
    """A changed setting: its value as a text, the time, and the author."""

    name: str
    value: str
    at: int
    author: str


def read_live_settings() -> Op[list[LiveSetting]]:
    """Read all changed settings, the latest change last."""
    return [LiveSetting(*row) for row in (yield Query("read_settings"))]


def change_setting(
    new: LiveSetting, check: Callable[[Sequence[LiveSetting]], None], type: str, about: str
) -> Op[list[LiveSetting]]:
    """Change a setting, with its type and purpose, if `check` accepts all settings after it; returns them."""
    yield Query("lock_settings")
    others = [one for one in (yield from read_live_settings()) if one.name != new.name]
    check([*others, new])
    yield Query("set_setting", new._asdict())
    yield Query("describe_setting", {"name": new.name, "type": type, "about": about})
    return [*others, new]


def remove_setting(name: str, check: Callable[[Sequence[LiveSetting]], None]) -> Op[list[LiveSetting] | None]:
    """Remove a setting if `check` accepts the others without it; returns these, or None if it was not there."""
    yield Query("lock_settings")
    others = [one for one in (yield from read_live_settings()) if one.name != name]
    check(others)
    return others if (yield Query("unset_setting", {"name": name})) else None
