"""Operations on the store, written once.

An operation is a generator: it yields named queries and receives their rows. Who drives it decides whether that
happens on SQLite or PostgreSQL, blocking or awaited, in a transaction of ours or in the user's own.

    def cancel(task: int, now: int) -> Op[bool]:
        rows = yield Query("cancel", {"task": task, "now": now})
        return bool(rows)
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

Row = Sequence[Any]
Rows = Sequence[Row]


class Query(NamedTuple):
    """One named statement. An absent query of a dialect (a NOTIFY on SQLite) answers with no rows."""

    name: str
    params: dict[str, Any] = {}  # noqa: RUF012 - a NamedTuple default, never written to


class Many(NamedTuple):
    """One named statement for many rows: a statement a row on SQLite, arrays in one statement on PostgreSQL."""

    name: str
    rows: Sequence[tuple[Any, ...]]


class Call(NamedTuple):
    """Code of the application that is run with the connection, inside the transaction."""

    functions: Sequence[tuple[Callable[..., None], tuple[Any, ...]]]


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
