"""Operations on the store, written once.

An operation is a generator that yields named queries and receives their rows (decision 9). Its driver decides whether
that happens on SQLite or PostgreSQL, blocking or awaited, in a transaction of the engine or in the caller's own.

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
    """UUIDs as their sixteen bytes: an enqueue makes thousands a second and needs no UUID objects."""


class PackedBytes(NamedTuple):
    """Byte strings that SQLite receives joined into one blob; the statement cuts them apart again."""

    parts: Sequence[bytes]
    hashed: Sequence[int | None] | None = None
    """1 for each part that is the hash of a blob; None if no part is."""
    names: Sequence[str] | None = None
    """The keys of their rows."""
    numbers: Sequence[int] | None = None
    """The numbers of their rows, in ascending order."""

    def layout(self) -> str:
        """JSON with one number per part: where the part begins, how long it is, and whether it is a hash.

        Bit 0: whether it is a hash. Bits 1 to 13: its length. Bits 14 to 37: its first byte, counted from 1. From bit
        38 on: its row, counted from the first one. With names the JSON is an object, in which a name may stand twice.
        """
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
    """One named statement. Where a database does not need it (a NOTIFY on SQLite), it returns no rows."""

    name: str
    params: dict[str, Any] = {}  # noqa: RUF012 - a NamedTuple default, never written to


class Many(NamedTuple):
    """One named statement for many rows: several multi-row statements on SQLite, one with arrays on PostgreSQL.

    `same` holds the values that all rows share, once: a long array is a slow parameter.
    """

    name: str
    rows: Sequence[tuple[Any, ...]]
    same: tuple[Any, ...] = ()

    @property
    def full_rows(self) -> Sequence[tuple[Any, ...]]:
        """Every row, with the shared values before its own."""
        return [self.same + row for row in self.rows] if self.same else self.rows

    @property
    def columns(self) -> list[Any]:
        """The shared values, then the rows column by column; a column without values is None."""
        arrays = [
            None if all(value is None for value in column) else list(column) for column in zip(*self.rows, strict=True)
        ]
        return [*self.same, *arrays]


class Call(NamedTuple):
    """Functions of the application that run inside the transaction, each with the connection and its arguments."""

    functions: Sequence[tuple[Callable[..., object], tuple[Any, ...]]]


class AtomicStatement(NamedTuple):
    """A transaction in one statement, without BEGIN and COMMIT (decision 36).

    It returns rows if it has written anything; then it has also written its receipt, `:receipt`. If the receipt
    `:before` is given and no longer there, it writes nothing.
    """

    query: Query
    read_back: Query
    """Reads its rows again, where it has committed and the reply was lost."""


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
    """Run an operation to its end on a connection; a query's error is raised inside the operation first."""
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
