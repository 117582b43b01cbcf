"""Blocking work of the engine, beside the event loop.

Its threads are not those of `asyncio.to_thread`: stages on the loop may fill these with name look-ups and calls that
hang, and no task would be read, claimed or found any more.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, partial
from typing import ParamSpec, TypeVar

MOST_THREADS = 16

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


async def off_loop(
    function: Callable[_Arguments, _Result], *arguments: _Arguments.args, **named: _Arguments.kwargs
) -> _Result:
    """Call a blocking function in a thread of the engine, and wait for it."""
    call = partial(copy_context().run, function, *arguments, **named)
    return await asyncio.get_running_loop().run_in_executor(_threads(os.getpid()), call)


@cache
def _threads(_process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MOST_THREADS, "onceward beside the loop")
