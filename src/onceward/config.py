"""The numbers of the engine: what the code says, overridden by `onceward.toml`, overridden by `ONCEWARD_…`."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from onceward.errors import ConfigError
from onceward.model.lineage import Bounds, Limits
from onceward.model.times import Duration, milliseconds, spoken

PREFIX = "ONCEWARD_"
FILE = "onceward.toml"
HEARTBEATS_PER_LEASE = 15
CHECKS_PER_LEASE = 5
FEWEST_HEARTBEATS_PER_LEASE = 3


@dataclass(frozen=True, slots=True)
class Config:
    """How a worker behaves. Durations read "300s"; a heartbeat or check of None follows from the lease."""

    lease: Duration = "300s"
    heartbeat: Duration | None = None
    check: Duration | None = None
    grace: Duration = "30s"
    poll: Duration = "1s"
    concurrency: int = 100
    threads: int = 16
    max_lost_workers: int = 3
    max_depth: int = 10
    max_tasks: int = 10_000
    max_children: int = 1_000
    deadline: Duration = "48h"
    keep: Duration = "30d"
    prepare: bool = True
    lease_ms: int = field(init=False, repr=False)
    heartbeat_ms: int = field(init=False, repr=False)
    check_ms: int = field(init=False, repr=False)
    grace_ms: int = field(init=False, repr=False)
    poll_ms: int = field(init=False, repr=False)
    keep_ms: int = field(init=False, repr=False)
    bounds: Bounds = field(init=False, repr=False)
    """The limits of a lineage for which nobody has set any."""

    def __post_init__(self) -> None:
        lease_ms = milliseconds(self.lease)
        if lease_ms < 100:
            raise ConfigError(f"a lease of {spoken(lease_ms)} cannot be kept; take at least 0.1s")
        heartbeat_ms = lease_ms // HEARTBEATS_PER_LEASE if self.heartbeat is None else milliseconds(self.heartbeat)
        if heartbeat_ms * FEWEST_HEARTBEATS_PER_LEASE > lease_ms:
            raise ConfigError(
                f"a heartbeat every {spoken(heartbeat_ms)} is too seldom for a lease of {spoken(lease_ms)}: "
                f"at most every {spoken(lease_ms // FEWEST_HEARTBEATS_PER_LEASE)}"
            )
        check_ms = lease_ms // CHECKS_PER_LEASE if self.check is None else milliseconds(self.check)
        for name, value in (
            ("concurrency", self.concurrency),
            ("threads", self.threads),
            ("max_lost_workers", self.max_lost_workers),
        ):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigError(f"{name}={value!r}: it is a whole number from 1")
        if not isinstance(self.prepare, bool):
            raise ConfigError(f"prepare={self.prepare!r}: it is true or false")
        limits = Limits(self.max_depth, self.max_tasks, self.max_children, self.deadline)
        assert limits.deadline_ms is not None
        bounds = Bounds(self.max_depth, self.max_children, limits.deadline_ms, self.max_tasks)
        object.__setattr__(self, "bounds", bounds)
        for name, value in (
            ("lease_ms", lease_ms),
            ("heartbeat_ms", max(1, heartbeat_ms)),
            ("check_ms", max(1, check_ms)),
            ("grace_ms", milliseconds(self.grace)),
            ("poll_ms", max(1, milliseconds(self.poll))),
            ("keep_ms", milliseconds(self.keep)),
        ):
            object.__setattr__(self, name, value)


_NAMES = {one.name: one for one in fields(Config) if one.init}


def effective(code: Config, environment: Mapping[str, str] | None = None, folder: Path | None = None) -> Config:
    """The config in force: what the code says, then the file in the working folder, then the environment."""
    environment = os.environ if environment is None else environment
    path = (folder or Path.cwd()) / FILE
    changed: dict[str, Any] = {}
    if path.is_file():
        try:
            written = tomllib.loads(path.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{FILE} cannot be read: {error}") from error
        changed |= {name: value for name, value in written.items() if not isinstance(value, dict)}
    for variable, text in environment.items():
        name = variable.removeprefix(PREFIX).lower()
        if variable.startswith(PREFIX) and name in _NAMES:
            changed[name] = _typed(name, text)
    unknown = sorted(set(changed) - set(_NAMES))
    if unknown:
        raise ConfigError(f"{FILE} sets {', '.join(unknown)}; known are {', '.join(_NAMES)}")
    return replace(code, **changed) if changed else code


def _typed(name: str, text: str) -> Any:
    kind = _NAMES[name].type
    try:
        if kind == "int":
            return int(text)
        if kind == "bool":
            return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}[text.lower()]
    except (ValueError, KeyError) as error:
        raise ConfigError(
            f"{PREFIX}{name.upper()}={text!r} is not {'a number' if kind == 'int' else 'yes or no'}"
        ) from error
    return text
