"""Operations on the store, written once.

An operation is a generator: it yields named queries and receives their rows. Who drives it decides whether that
happens on SQLite or PostgreSQL, blocking or awaited, in a transaction of ours or in the user's own.

    def cancel(task: int, now: int) -> Op[bool]:
        rows = yield Query("cancel", {"task": task, "now": now})
        return bool(rows)
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

Row = Sequence[Any]
Rows = Sequence[Row]


class Uuids(list[bytes]):
    """A list of UUIDs as their sixteen bytes: thousands are made every second, and nobody asks them anything."""


class PackedBytes(NamedTuple):
    """Byte strings for a statement that takes them one after the other, in one, and cuts them itself: on SQLite."""

    parts: Sequence[bytes]
    hashed: Sequence[int | None] | None = None
    """1 for each that is the hash of a blob; nothing at all where none is."""
    names: Sequence[str] | None = None
    """The keys of their rows."""
    numbers: Sequence[int] | None = None
    """The numbers of their rows, from the first one on."""

    def layout(self) -> str:
        """JSON with a number for each: from the 38th bit on how far its row is from the first, from the 14th on the
        place of its first byte, below that its length, and in the lowest bit whether it is a hash. By name, where they
        have one: a name may stand twice."""
        sizes = list(map(len, self.parts))
        cuts = [start << 14 | size << 1 for start, size in zip(accumulate(sizes, initial=1), sizes, strict=False)]
        if self.hashed is not None:
            cuts = [cut | (is_hash or 0) for cut, is_hash in zip(cuts, self.hashed, strict=True)]
        if self.numbers is not None:
            first = self.numbers[0]
            cuts = [cut | number - first << 38 for cut, number in zip(cuts, self.numbers, strict=True)]
        if self.names is None:
            return msgspec.json.encode(cuts).decode()
        quoted = map(msgspec.json.encode, self.names)
        return (b"{%b}" % b",".join([b"%b:%d" % row for row in zip(quoted, cuts, strict=True)])).decode()


class Query(NamedTuple):
    """One named statement. An absent query of a dialect (a NOTIFY on SQLite) answers with no rows."""

    name: str
    params: dict[str, Any] = {}  # noqa: RUF012 - a NamedTuple default, never written to


class Many(NamedTuple):
    """One named statement for many rows: some statements with many rows each on SQLite, arrays in one on PostgreSQL.

    What all rows have in common stands in `same`, once: a long array is a slow parameter.
    """

    name: str
    rows: Sequence[tuple[Any, ...]]
    same: tuple[Any, ...] = ()

    @property
    def full_rows(self) -> Sequence[tuple[Any, ...]]:
        """Every row with what they have in common before it."""
        return [self.same + row for row in self.rows] if self.same else self.rows

    @property
    def columns(self) -> list[Any]:
        """What they have in common, then the rows column by column; a column of nothing is None."""
        arrays = [
            None if all(value is None for value in column) else list(column) for column in zip(*self.rows, strict=True)
        ]
        return [*self.same, *arrays]


class Call(NamedTuple):
    """Code of the application that is run with the connection, inside the transaction."""

    functions: Sequence[tuple[Callable[..., object], tuple[Any, ...]]]


class AtomicStatement(NamedTuple):
    """One statement that is a transaction of its own. It returns rows if it has written anything, and then it has
    written the receipt it is given, `:receipt`, as well. Where it is given the one `:before`, and that is gone, it
    writes nothing."""

    query: Query
    read_back: Query
    """What its answer was, read from what it has written: asked if it has committed and the answer was lost."""


Request = Query | Many | Call
Result = TypeVar("Result")
Op = Generator[Request, Rows, Result]


class Driver(Protocol):
    """A connection on which operations run."""

    def run(self, request: Request) -> Rows:
        """Run one request and return all its rows."""


class AsyncDriver(Protocol):
    """A connection on which operations run, awaited."""

    async def arun(self, request: Request) -> Rows:
        """Run one request and return all its rows."""


def drive(operation: Op[Result], driver: Driver) -> Result:
    """Run an operation to its end on a connection. An error of a query is raised inside the operation first."""
    try:
        request = next(operation)
        while True:
            try:
                rows = driver.run(request)
            except Exception as error:  # the operation may know what to do, e.g. go back to a savepoint
                request = operation.throw(error)
            else:
                request = operation.send(rows)
    except StopIteration as end:
        result: Result = end.value
        return result


async def adrive(operation: Op[Result], driver: AsyncDriver) -> Result:
    """`drive` for a connection that is awaited."""
    try:
        request = next(operation)
        while True:
            try:
                rows = await driver.arun(request)
            except Exception as error:  # as in drive
                request = operation.throw(error)
            else:
                request = operation.send(rows)
    except StopIteration as end:
        result: Result = end.value
        return result
