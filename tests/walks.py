"""How far a reader walks: files, functions and changes of file on the way of a real task.

    python -m tests.walks              the table, for five journeys
    python -m tests.walks plain        every function of one journey, in the order of its first call

A profiler follows a task through the engine, on SQLite in memory with the worker of `onceward.testing.Harness`: the
same runner, writer and store as in a worker process, without its threads. The start and end of the worker are left out.
A function counts once. A change of file is a call that leads from one file of the engine to another within a thread; a
generator that goes on counts as a call. The `testing` package itself is not followed.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple
from unittest import mock

import onceward
from onceward import App, Budget, Context, Payload, Pipeline, Source
from onceward.testing import Harness, harness

ENGINE = Path(onceward.__file__).parent
_BEFORE = {
    "enqueue": (18, 80, 63), "plain": (29, 171, 346), "life": (38, 230, 410), "governed": (33, 285, 478),
    "spawn": (40, 282, 767),
}  # fmt: skip
"""The same journeys at commit bc75de9, before the modules had rooms."""


class Plain(Payload, kind="walk-plain"):
    """Two stages, and nothing that has to be asked first."""

    number: int


class Governed(Payload, kind="walk-governed"):
    """A stage with a source and a budget."""

    number: int


class Parent(Payload, kind="walk-parent"):
    """A stage that spawns one plain child."""

    number: int


plain, governed, parents = Pipeline(Plain), Pipeline(Governed), Pipeline(Parent)


@plain.stage
async def first(ctx: Context[Plain]) -> int:
    """Return a result."""
    return ctx.payload.number


@plain.stage
async def second(ctx: Context[Plain]) -> None:
    """Read the result of the first stage."""
    ctx.result(first)


@governed.stage(source=Source("walk", rate="1000/s"), budget=Budget("walk-usd", 1_000), estimate=0.01)
async def fetch(ctx: Context[Governed]) -> None:
    """Pass a source and draw on a budget."""


@parents.stage
async def spawn(ctx: Context[Parent]) -> None:
    """Spawn one child."""
    ctx.spawn(Plain(ctx.payload.number))


class Call(NamedTuple):
    """A call of one of the engine's functions."""

    file: str
    function: str
    line: int
    thread: int


class Walk:
    """The calls of one journey, in order."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    @property
    def files(self) -> list[str]:
        """Each file once, in the order of its first call."""
        return list(dict.fromkeys(call.file for call in self.calls))

    @property
    def functions(self) -> list[str]:
        """Each function once, as `file:function`, in the order of its first call."""
        return list(dict.fromkeys(f"{call.file}:{call.function}" for call in self.calls))

    @property
    def changes(self) -> int:
        """The number of calls that lead from one file to another within a thread."""
        last: dict[int, str] = {}
        count = 0
        for call in self.calls:
            count += last.get(call.thread, call.file) != call.file
            last[call.thread] = call.file
        return count

    @property
    def figures(self) -> tuple[int, int, int]:
        """Files, functions, changes of file."""
        distinct = {(call.file, call.function, call.line) for call in self.calls}
        return len(self.files), len(distinct), self.changes

    def follow(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call, as a profiler hears of it."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(str(ENGINE)):
            return
        file = Path(code.co_filename).relative_to(ENGINE).as_posix()
        if not file.startswith("testing/"):
            self.calls.append(Call(file, code.co_qualname, code.co_firstlineno, threading.get_ident()))

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Follow what happens meanwhile."""
        threading.setprofile(self.follow)
        sys.setprofile(self.follow)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


class Journeys:
    """Takes journeys of one kind of task in an app of its own, each after another task has gone the same way."""

    def __init__(self, *pipelines: Pipeline[Any]) -> None:
        self.harness = Harness(App("sqlite:///:memory:", pipelines=pipelines))

    def enqueue(self, payload: Callable[[int], Payload]) -> Walk:
        """From the call of `app.enqueue` to its return."""
        walk = Walk()
        self.harness.app.enqueue(payload(0))
        with walk.followed():
            self.harness.app.enqueue(payload(1))
        self.harness.drain()
        return walk

    def work(self, payload: Callable[[int], Payload]) -> Walk:
        """From the claim of a task to the last row of it and of its children."""
        self.harness.app.enqueue(payload(2))
        self.harness.drain()
        self.harness.app.enqueue(payload(3))
        walk = Walk()
        settle = harness._InlineWorker._settle

        async def followed(*given: Any) -> None:
            with walk.followed():
                await settle(*given)

        with mock.patch.object(harness._InlineWorker, "_settle", followed):
            assert self.harness.drain()
        return walk

    def life(self, payload: Callable[[int], Payload]) -> Walk:
        """From the call of `app.enqueue` to the last row."""
        walk = self.enqueue(payload)
        walk.calls += self.work(payload).calls
        return walk


def journeys() -> dict[str, tuple[str, Walk]]:
    """The five journeys, by a short name: what each is, and its calls."""
    of_plain = Journeys(plain)
    return {
        "enqueue": ("app.enqueue, plain", of_plain.enqueue(Plain)),
        "plain": ("claim to last row, plain, 2 stages", of_plain.work(Plain)),
        "life": ("plain task, whole life", of_plain.life(Plain)),
        "governed": ("governed task (source and budget), claim to last row", Journeys(governed).work(Governed)),
        "spawn": ("parent, one ctx.spawn, child", Journeys(parents, plain).work(Parent)),
    }


def main() -> None:
    """Print the table, or one journey."""
    parser = argparse.ArgumentParser(prog="python -m tests.walks", description=__doc__.split("\n\n")[0])
    parser.add_argument("journey", nargs="?", choices=_BEFORE, help="print every function of this journey")
    name = parser.parse_args().journey
    walked = journeys()
    if name is not None:
        print(*walked[name][1].functions, sep="\n")
        return
    print(f"{'journey':<54}{'files':>7}{'functions':>11}{'changes':>9}   files, functions, changes at bc75de9")
    for short, (what, walk) in walked.items():
        files, functions, changes = walk.figures
        print(f"{what:<54}{files:>7}{functions:>11}{changes:>9}   {', '.join(map(str, _BEFORE[short]))}")


if __name__ == "__main__":
    main()
