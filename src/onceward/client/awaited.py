"""The awaited form of a method, made of the blocking one: its signature, its docstring, an `a` in front.

    class Tasks(Namespace):
        def get(self, task: TaskRef) -> Task: ...
        aget = awaited(get)

It runs in a thread, so the event loop goes on. A coroutine that is cancelled leaves what the thread has begun to its
own end, as with any call that a database has already received.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")


def awaited(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """The awaited form of a method that waits for the database. A type checker knows it by the same signature."""

    @wraps(method)
    async def form(self: S, /, *args: P.args, **named: P.kwargs) -> R:
        return await asyncio.to_thread(method, self, *args, **named)

    form.__name__ = f"a{method.__name__}"
    form.__qualname__ = f"{method.__qualname__.rpartition('.')[0]}.{form.__name__}"
    form.__doc__ = f"`{method.__name__}`, awaited. {method.__doc__}"
    return form
