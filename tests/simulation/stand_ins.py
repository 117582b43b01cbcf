"""What the engine finds in place of time, chance and the names of machines while it is simulated.

Every module of the engine that has imported `time`, `random`, `secrets`, `uuid` or `socket` gets one of these instead,
for as long as a simulation lasts. Then nothing but the seed decides what happens.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
import secrets
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import onceward
from onceward.model import times
from onceward.settings import config

if TYPE_CHECKING:
    from tests.simulation.world import World

LONGEST_END_S = 10.0
"""How long threads of engines that have been stopped are waited for; those that hang never end."""
here: World = None  # type: ignore[assignment]
"""The world that is being simulated: one at a time."""


def enter(world: World) -> None:
    """Let a world be the one that the stand-ins speak of."""
    global here
    here = world


def _sleep(seconds: float) -> None:
    here.sleep(round(seconds * 1_000))


def _token_bytes(count: int) -> bytes:
    return here.chance.randbytes(count)


def _copied(module: ModuleType, **changed: Any) -> SimpleNamespace:
    return SimpleNamespace(**{**vars(module), **changed})


_STAND_INS: dict[ModuleType, Any] = {
    time: _copied(
        time,
        time=lambda: here.wall_ms / 1_000,
        time_ns=lambda: here.wall_ms * 1_000_000,
        monotonic=lambda: here.ms / 1_000,
        monotonic_ns=lambda: here.ms * 1_000_000,
        thread_time=lambda: 0.0,
        sleep=_sleep,
    ),
    random: _copied(
        random,
        Random=lambda _seed=None: random.Random(here.chance.getrandbits(64)),
        random=lambda: here.chance.random(),
        uniform=lambda low, high: here.chance.uniform(low, high),
        randrange=lambda *bounds: here.chance.randrange(*bounds),
    ),
    secrets: _copied(secrets, token_bytes=_token_bytes, randbelow=lambda most: here.chance.randrange(most)),
    uuid: _copied(uuid, uuid4=lambda: uuid.UUID(bytes=here.chance.randbytes(16), version=4)),
    socket: _copied(socket, gethostname=lambda: here.acting.host),
    threading: _copied(threading, get_ident=lambda: here.thread, get_native_id=lambda: here.thread),
}


def _levels(real: Callable[..., Any]) -> Callable[..., Any]:
    """The settings that the code has: no variable and no file of this machine has a say. Found out once."""
    nowhere = Path("nowhere")
    known: dict[int, Any] = {}

    def levels(code: config.Config, declared: Any) -> Any:
        if id(code) not in known:
            known[id(code)] = (code, real(code, declared, {}, nowhere))
        return known[id(code)][1]

    return levels


@contextmanager
def installed() -> Iterator[None]:
    """While this lasts, no module of the engine knows the real time or has chances of its own."""
    until = time.monotonic() + LONGEST_END_S
    for thread in threading.enumerate():
        if thread.name.startswith("onceward"):  # one that is about to end would find itself in a world
            thread.join(max(0, until - time.monotonic()))
    # Also those that are only imported when they are needed: later they would find the real time.
    for found in pkgutil.walk_packages(onceward.__path__, "onceward."):
        if not found.name.startswith(("onceward.cli", "onceward.web")) and not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    replaced: list[tuple[ModuleType, str, Any]] = []
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != "onceward":
            continue
        for attribute, value in list(vars(module).items()):
            if isinstance(value, ModuleType) and value in _STAND_INS:
                replaced.append((module, attribute, value))
                setattr(module, attribute, _STAND_INS[value])
    replaced.append((times, "_drawn", times._drawn))
    times._drawn = lambda: _token_bytes(16)  # what was drawn ahead would be left for the next world
    replaced.append((config, "levels", config.levels))
    config.levels = _levels(config.levels)  # type: ignore[assignment]
    try:
        yield
    finally:
        for module, attribute, value in replaced:
            setattr(module, attribute, value)
