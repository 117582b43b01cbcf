"""Event loops: uvloop where it is installed, for the floor and the engine alike."""

import asyncio
import importlib.util
from collections.abc import Coroutine
from typing import Any

HAS_UVLOOP = importlib.util.find_spec("uvloop") is not None


def new_loop() -> asyncio.AbstractEventLoop:
    """A fresh event loop of the fastest kind there is."""
    if HAS_UVLOOP:
        import uvloop

        return uvloop.new_event_loop()
    return asyncio.new_event_loop()


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run `main` to its end in a loop of its own."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main)


def make_fast_loops_the_default() -> None:
    """From now on a loop that this process opens, wherever in the code, is uvloop's where that is installed."""
    if HAS_UVLOOP:
        import uvloop

        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
